// The restore planner: an index and the wanted boxes -> RestorePlan.
//
// Pure. For every wanted box it finds the extents that hold it, and it decides
// which reads count for the checksums, so that each byte counts once however
// many ranks read it.

#ifndef BELAY_MODEL_RESTORE_PLANNER_H_
#define BELAY_MODEL_RESTORE_PLANNER_H_

#include <cstdint>
#include <vector>

#include "belay/status.h"
#include "model/plan.h"

namespace belay {

// Makes the plan. `wanted` has one entry per rank; a text's length is not
// known to the caller and not looked at.
// Errors: NotFound - a key is not in the checkpoint; FailedPrecondition -
//   another dtype or shape; OutOfRange, InvalidArgument - a box outside the
//   array; DataLoss - the index has no data for a wanted box. Of several, the
//   first by rank and position; a NotFound counts all absent keys.
StatusOr<RestorePlan> PlanRestore(const SavedCheckpoint& saved,
                                  const std::vector<RankShards>& wanted);

}  // namespace belay

#endif  // BELAY_MODEL_RESTORE_PLANNER_H_
