// Writing in two phases: which rank writes which part of a portion of a file.

#ifndef BELAY_STORAGE_TWO_PHASE_H_
#define BELAY_STORAGE_TWO_PHASE_H_

#include <cstdint>
#include <vector>

#include "belay/status.h"
#include "core/agreed.h"
#include "mpi/collective.h"
#include "mpi/mpi_file.h"

namespace belay {

// File domains: which rank writes which part of a portion of a file.
//
// In:  the segments that each rank has of the portion. Out: where the domain of
//      each rank begins. A domain weighs at most about twice the mean: bytes,
//      and memory for the place of each segment.

using Segments = std::vector<IoSegment>;

// The memory that a segment takes beside its bytes, at its sender and at its
// receiver: its place in a message, and entries of lists that grow.
inline constexpr int64_t kSegmentWeight = 96;

// Domains begin at multiples of this, whatever the file is cut into.
inline constexpr int64_t kDomainAlignment = int64_t{4} << 10;

// The rules for the borders of domains.
struct DomainBorders {
  // At multiples of this, which is one of kDomainAlignment.
  int64_t unit = kDomainAlignment;
  // Only a unit that weighs more than this, and more than the mean of a domain,
  // is cut.
  int64_t most_weight = 0;
};

void SortByOffset(Segments& segments);

// Adds the weights of ascending segments to those of the ranges in which they
// lie. Range i is [edges[i], edges[i + 1]); all segments lie in one.
void AddWeights(const Segments& segments, const std::vector<int64_t>& edges,
                std::vector<int64_t>& weights);

// Returns the unit for a file whose stripes have `stripe` bytes (0: none): the
// least multiple of them that has a MiB, or one stripe where that is more than
// `most_weight`.
int64_t DomainUnit(int64_t stripe, int64_t most_weight);

// Cuts the bytes [begin, end) of a file into one domain per rank. Returns where
// each begins, and the end. Ranges are counted first, and those that weigh more
// than the mean of a domain again in smaller parts, as pieces of a portion may
// lie far apart. Where there are fewer domains than ranks, the ranks that get
// one lie evenly among the others, and so on many nodes. Collective; agreed.
// Same on all ranks: begin, end, borders.
Agreed<std::vector<int64_t>> CutIntoDomains(CommContext& context, int64_t begin,
                                            int64_t end, const Segments& mine,
                                            const DomainBorders& borders = {});

}  // namespace belay

#endif  // BELAY_STORAGE_TWO_PHASE_H_
