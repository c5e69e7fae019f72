// Wanted arrays: what ranks want of a checkpoint, array by array.

#ifndef BELAY_PLAN_RESTORE_WANTED_ARRAYS_H_
#define BELAY_PLAN_RESTORE_WANTED_ARRAYS_H_

#include <vector>

#include "belay/status.h"
#include "plan/plan.h"
#include "plan/restore/parts_to_read.h"

namespace belay {

// Returns the wanted boxes, those without elements left out, and sets the
// lengths of texts in `ranks`, which has one entry per rank, as `wanted` has.
// Errors: those of PlanRestore that concern what is wanted.
StatusOr<std::vector<WantedArray>> CollectWants(
    const SavedCheckpoint& saved, const std::vector<RankShards>& wanted,
    std::vector<RankReads>& ranks);

}  // namespace belay

#endif  // BELAY_PLAN_RESTORE_WANTED_ARRAYS_H_
