#include "plan/chunks/chunk_shape_by_size.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "plan/chunks/divisors.h"

namespace belay {
namespace {

using Axes = absl::InlinedVector<size_t, 4>;

bool IsCut(const ChunkRequest& request, size_t axis) {
  return request.global_shape[axis] != request.shard_shape[axis];
}

// Divisors of each axis, ascending; the last ones are the lengths of the chunk.
using AxisDivisors = std::vector<DivisorList>;

// Returns the longest of these axes that is longer than 1, the first one of
// several, or `none`.
size_t LongestAxis(const AxisDivisors& divisors, const Axes& axes,
                   size_t none) {
  size_t longest = none;
  int64_t length = 1;
  for (const size_t axis : axes) {
    if (divisors[axis].back() <= length) continue;
    longest = axis;
    length = divisors[axis].back();
  }
  return longest;
}

Shape ReducedChunk(const ChunkRequest& request, int64_t limit) {
  Shape chunk = LargestChunk(request);
  const size_t ndim = chunk.size();
  if (HasAtMost(limit, chunk)) return chunk;
  AxisDivisors divisors;
  for (const int64_t length : chunk) divisors.push_back(Divisors(length));
  Axes all(ndim), open;
  std::iota(all.begin(), all.end(), 0);
  std::copy_if(all.begin(), all.end(), std::back_inserter(open),
               [&](size_t axis) { return IsCut(request, axis); });
  while (!HasAtMost(limit, chunk)) {
    const size_t axis = LongestAxis(divisors, open, ndim);
    if (axis == ndim) {
      open = all;  // what is cut already has no more to give
      continue;
    }
    divisors[axis].pop_back();
    chunk[axis] = divisors[axis].back();
  }
  return chunk;
}

// The lengths of the largest chunk, with the prime powers of each.
struct Lengths {
  Shape shape;
  absl::InlinedVector<PrimePowers, 4> powers;
};

Lengths LengthsOf(const Shape& shape) {
  Lengths lengths{.shape = shape};
  for (const int64_t length : shape) {
    lengths.powers.push_back(Factorize(length));
  }
  return lengths;
}

// Every divisor of the number of elements is a product of divisors of the
// lengths, so the largest one is that of the largest chunk. What it has in
// common with a length is the most that this axis can get.
Shape DividingChunk(const Lengths& lengths, int64_t limit) {
  PrimePowers all;
  for (const PrimePowers& powers : lengths.powers) MultiplyBy(powers, all);
  int64_t rest = LargestDivisorUpTo(limit, all);
  Shape chunk = lengths.shape;
  for (size_t axis = chunk.size(); axis-- > 0;) {
    chunk[axis] = std::gcd(chunk[axis], rest);
    rest /= chunk[axis];
  }
  return chunk;
}

// At most `limit`, and more than half of it if the length is: as few pieces as
// possible, and the last one nearly as long as the others.
int64_t NearlyEqualLength(int64_t length, int64_t limit) {
  const int64_t pieces = (length - 1) / limit + 1;
  return (length - 1) / pieces + 1;
}

// Gives each axis, in that order, as much of its length as the limit leaves.
// The first `num_dividing` axes get divisors only.
Shape FilledChunk(const Lengths& lengths, const Axes& order,
                  size_t num_dividing, int64_t limit) {
  Shape chunk = lengths.shape;
  for (size_t i = 0; i < order.size(); ++i) {
    int64_t& length = chunk[order[i]];
    if (length > limit) {
      length = i < num_dividing
                   ? LargestDivisorUpTo(limit, lengths.powers[order[i]])
                   : NearlyEqualLength(length, limit);
    }
    limit /= length;
  }
  return chunk;
}

// Returns the chunk with one writer, and the one without regard to writers.
std::pair<Shape, Shape> RaggedChunks(const ChunkRequest& request,
                                     const Lengths& lengths, int64_t limit) {
  Axes order(lengths.shape.size());
  std::iota(order.rbegin(), order.rend(), 0);
  Axes cut_first = order;
  const auto cut_end =
      std::stable_partition(cut_first.begin(), cut_first.end(),
                            [&](size_t axis) { return IsCut(request, axis); });
  const auto num_cut = static_cast<size_t>(cut_end - cut_first.begin());
  return {FilledChunk(lengths, cut_first, num_cut, limit),
          FilledChunk(lengths, order, 0, limit)};
}

bool HasHalf(const Shape& chunk, int64_t limit) {
  return NumElements(chunk) >= limit - NumElements(chunk);
}

}  // namespace

StatusOr<Shape> GreedyChunkShape(const ChunkRequest& request) {
  BELAY_ASSIGN_OR_RETURN(const int64_t limit, MaxChunkElements(request));
  return ReducedChunk(request, limit);
}

StatusOr<Shape> ExactChunkShape(const ChunkRequest& request) {
  BELAY_ASSIGN_OR_RETURN(const int64_t limit, MaxChunkElements(request));
  const Shape largest = LargestChunk(request);
  if (HasAtMost(limit, largest)) return largest;
  const Lengths lengths = LengthsOf(largest);
  Shape dividing = DividingChunk(lengths, limit);
  if (HasHalf(dividing, limit)) return dividing;
  auto [one_writer, any] = RaggedChunks(request, lengths, limit);
  return HasHalf(one_writer, limit) ? one_writer : any;
}

}  // namespace belay
