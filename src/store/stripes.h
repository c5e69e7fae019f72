// Stripes: which rank writes which part of a portion of a file.
//
// In:  the segments that each rank has of the portion. Out: where the stripe of
//      each rank begins. A stripe weighs at most about twice the mean: bytes,
//      and memory for the place of each segment.

#ifndef BELAY_STORE_STRIPES_H_
#define BELAY_STORE_STRIPES_H_

#include <cstdint>
#include <vector>

#include "belay/status.h"
#include "parallel/collective.h"
#include "parallel/mpi_file.h"

namespace belay {

using Segments = std::vector<IoSegment>;

// What a segment costs beside its bytes, at the rank that has it and at the one
// that gets it: its place in a message, and entries of lists that grow.
inline constexpr int64_t kSegmentWeight = 96;

// Stripes begin at multiples of this.
inline constexpr int64_t kStripeAlignment = int64_t{4} << 10;

// Local.
int64_t WeightOf(const Segments& segments);

// Adds the weights of ascending segments to those of the ranges in which they
// lie. Range i is [edges[i], edges[i + 1]); all segments lie in one. Local.
void AddWeights(const Segments& segments, const std::vector<int64_t>& edges,
                std::vector<int64_t>& weights);

// Cuts the bytes [begin, end) of a file into one stripe per rank. Returns where
// each begins, and the end. Ranges are counted first, and those that weigh more
// than the mean of a stripe again in smaller parts, as pieces of a portion may
// lie far apart. Collective; agreed. Same on all ranks: begin, end.
StatusOr<std::vector<int64_t>> CutIntoStripes(Team& team, int64_t begin,
                                              int64_t end,
                                              const Segments& mine);

}  // namespace belay

#endif  // BELAY_STORE_STRIPES_H_
