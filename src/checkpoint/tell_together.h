// What all ranks have becomes known to rank 0, over MPI.

#ifndef BELAY_CHECKPOINT_TELL_TOGETHER_H_
#define BELAY_CHECKPOINT_TELL_TOGETHER_H_

#include <vector>

#include "base/telling.h"
#include "belay/status.h"
#include "model/listed_ranks.h"
#include "model/plan.h"
#include "parallel/collective.h"

namespace belay {

// Gives rank 0 the lists of every rank; others get nothing. Lists that are
// equal travel once, and of those that were told before, or that rank 0 has
// much of, only what differs. Collective; agreed. If it fails, `told` stays as
// it was. Same on all ranks: the number of lists.
StatusOr<Heard> TellTogether(Team& team, std::vector<Entries> lists,
                             Told& told);

// The same of what every rank lists for a save or a restore. Collective;
// agreed.
StatusOr<ListedRanks> DescribeTogether(Team& team, const RankShards& mine,
                                       Told& told);

}  // namespace belay

#endif  // BELAY_CHECKPOINT_TELL_TOGETHER_H_
