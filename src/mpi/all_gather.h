// Exchanges in which what some ranks have becomes known to one or to all.

#ifndef BELAY_MPI_ALL_GATHER_H_
#define BELAY_MPI_ALL_GATHER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "belay/status.h"
#include "mpi/collective.h"

namespace belay {

// Bytes that `rank` has at `source`; whoever gets them has room at `target`.
// Both are looked at by those ranks only, and may be the same there.
struct GatherPart {
  int rank = 0;
  int64_t bytes = 0;
  const std::byte* source = nullptr;
  std::byte* target = nullptr;
};

// Gives all parts to rank `to`, or to every rank if it is negative: each
// straight from its place to its place, one message for a rank that gets it (in
// pieces if it is more than context.part_bytes), then Agree. Collective. Same
// on all ranks: `to`, and of the parts their order, ranks and bytes.
Status GatherParts(CommContext& context, std::span<const GatherPart> parts,
                   int to);

// Gives every rank the bytes of every rank, by rank. Collective. The result of
// a failed call is agreed.
StatusOr<std::vector<std::string>> AllGather(CommContext& context,
                                             const std::string& mine);

}  // namespace belay

#endif  // BELAY_MPI_ALL_GATHER_H_
