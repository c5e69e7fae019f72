// What all ranks list becomes known to rank 0, over MPI.

#ifndef BELAY_CHECKPOINT_DESCRIBE_TOGETHER_H_
#define BELAY_CHECKPOINT_DESCRIBE_TOGETHER_H_

#include "belay/status.h"
#include "model/listed_ranks.h"
#include "model/plan.h"
#include "model/telling.h"
#include "parallel/collective.h"

namespace belay {

// Gives rank 0 what every rank lists; others get nothing. Lists that differ
// travel once, and of those that were told before only what has changed.
// Collective; agreed. If it fails, `told` stays as it was.
StatusOr<ListedRanks> DescribeTogether(Team& team, const RankShards& mine,
                                       Told& told);

}  // namespace belay

#endif  // BELAY_CHECKPOINT_DESCRIBE_TOGETHER_H_
