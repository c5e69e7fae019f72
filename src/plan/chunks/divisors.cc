#include "plan/chunks/divisors.h"

#include <algorithm>

namespace belay {
namespace {

// Removes all factors `prime` from `rest`.
template <typename Number>
void MovePrime(Number prime, Number& rest, PrimePowers& powers) {
  int exponent = 0;
  for (; rest % prime == 0; rest /= prime) ++exponent;
  if (exponent > 0) powers.push_back({static_cast<int64_t>(prime), exponent});
}

// A template because short divisions take a third of the time of long ones.
template <typename Number>
PrimePowers PowersOf(Number rest) {
  PrimePowers powers;
  MovePrime<Number>(2, rest, powers);
  MovePrime<Number>(3, rest, powers);
  // All other primes are next to a multiple of 6.
  for (Number six = 6; six - 1 <= kLargestSearchedPrime &&
                       uint64_t{six - 1} * (six - 1) <= rest;
       six += 6) {
    MovePrime<Number>(six - 1, rest, powers);
    MovePrime<Number>(six + 1, rest, powers);
  }
  if (rest > 1) powers.push_back({static_cast<int64_t>(rest), 1});
  return powers;
}

}  // namespace

PrimePowers Factorize(int64_t number) {
  return number <= int64_t{UINT32_MAX}
             ? PowersOf(static_cast<uint32_t>(number))
             : PowersOf(static_cast<uint64_t>(number));
}

void MultiplyBy(absl::Span<const PrimePower> factors, PrimePowers& powers) {
  for (const PrimePower& factor : factors) {
    const auto same = std::find_if(
        powers.begin(), powers.end(),
        [&](const PrimePower& power) { return power.prime == factor.prime; });
    if (same == powers.end()) {
      powers.push_back(factor);
    } else {
      same->exponent += factor.exponent;
    }
  }
}

DivisorList DivisorsUpTo(int64_t limit, absl::Span<const PrimePower> powers) {
  DivisorList divisors = {1};
  for (const PrimePower& power : powers) {
    const int64_t limit_before = limit / power.prime;
    size_t begin = 0;  // of those with one factor `prime` less
    for (int exponent = 0; exponent < power.exponent; ++exponent) {
      const size_t end = divisors.size();
      for (size_t i = begin; i < end; ++i) {
        if (divisors[i] > limit_before) continue;
        divisors.push_back(divisors[i] * power.prime);
      }
      begin = end;
    }
  }
  return divisors;
}

int64_t LargestDivisorUpTo(int64_t limit, absl::Span<const PrimePower> powers) {
  const DivisorList divisors = DivisorsUpTo(limit, powers);
  return *std::max_element(divisors.begin(), divisors.end());
}

DivisorList Divisors(int64_t number) {
  DivisorList divisors = DivisorsUpTo(number, Factorize(number));
  std::sort(divisors.begin(), divisors.end());
  return divisors;
}

}  // namespace belay
