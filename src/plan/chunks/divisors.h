// Divisors of axis lengths.

#ifndef BELAY_PLAN_CHUNKS_DIVISORS_H_
#define BELAY_PLAN_CHUNKS_DIVISORS_H_

#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"

namespace belay {

struct PrimePower {
  int64_t prime = 0;
  int exponent = 0;
};

// The prime powers of a number, or of a product; each prime once.
using PrimePowers = absl::InlinedVector<PrimePower, 12>;

// Primes up to this one are searched for. What is left of a number without
// them counts as one prime, which is true of every number below 2^40.
inline constexpr int64_t kLargestSearchedPrime = int64_t{1} << 20;

// Returns those of `number` >= 1; none of 1.
PrimePowers Factorize(int64_t number);

// Multiplies the number that `powers` stands for by the one of `factors`.
void MultiplyBy(absl::Span<const PrimePower> factors, PrimePowers& powers);

// Most numbers have few, which need no allocation.
using DivisorList = absl::InlinedVector<int64_t, 128>;

// Returns all divisors up to `limit` >= 1, in no order.
DivisorList DivisorsUpTo(int64_t limit, absl::Span<const PrimePower> powers);

// Returns the largest of them.
int64_t LargestDivisorUpTo(int64_t limit, absl::Span<const PrimePower> powers);

// Returns all divisors of `number` >= 1 in ascending order.
DivisorList Divisors(int64_t number);

}  // namespace belay

#endif  // BELAY_PLAN_CHUNKS_DIVISORS_H_
