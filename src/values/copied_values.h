// The part of a copy that one rank carries. Pure.
//
// In:  the values of a copy. Out: a piece of each array for each rank, and
//      values of the same typestr that consist of such pieces.

#ifndef BELAY_VALUES_COPIED_VALUES_H_
#define BELAY_VALUES_COPIED_VALUES_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "belay/arrays/shard.h"
#include "belay/state.h"
#include "values/copy_plan.h"

namespace belay {

// One rank's pieces of all arrays, of values that are copied and of those that
// are made, in that order. Neither copied nor moved: shards borrow from it.
struct CopiedPieces {
  CopiedPieces() = default;
  CopiedPieces(const CopiedPieces&) = delete;
  CopiedPieces& operator=(const CopiedPieces&) = delete;

  // Without memory. A value has several.
  std::vector<Shard> shards;
  std::vector<size_t>
      value_of;  // by shard; those made count on from the values
  std::deque<std::string> texts;
  int64_t bytes = 0;        // memory for all of them, as PlaceIn lays them out
  int64_t array_bytes = 0;  // of them, without gaps
  int64_t total_bytes = 0;  // of all ranks, without gaps
};

// Large arrays are cut along an axis, others go to the ranks in turns.
void CutForCopy(const CopyPlan& plan, int rank, int num_ranks,
                CopiedPieces& pieces);

// Gives the shards their places in memory of `pieces.bytes`.
void PlaceIn(std::byte* memory, CopiedPieces& pieces);

// What is read: each piece under its whole key.
State ListForReading(const CopiedPieces& pieces);

// What is saved: values under their typestr. Moves the shards out of `pieces`,
// as there may be very many.
State ListForCopy(const CopyPlan& plan, CopiedPieces& pieces);

}  // namespace belay

#endif  // BELAY_VALUES_COPIED_VALUES_H_
