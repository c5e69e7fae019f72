// What all ranks have becomes known to rank 0, over MPI.

#ifndef BELAY_PIPELINE_TELL_TOGETHER_H_
#define BELAY_PIPELINE_TELL_TOGETHER_H_

#include <vector>

#include "absl/functional/function_ref.h"
#include "belay/status.h"
#include "bytes/telling.h"
#include "mpi/collective.h"
#include "plan/listed_ranks.h"
#include "plan/plan.h"

namespace belay {

// Gives rank 0 the lists of every rank, and all ranks what its `answer` to them
// is. Lists that are equal travel once, and of those that were told before, or
// that rank 0 has much of, only what differs. Collective; agreed. If it fails,
// `told` stays as it was. Same on all ranks: the number of lists.
StatusOr<Briefed> TellTogether(
    Team& team, std::vector<Entries> lists, Told& told,
    absl::FunctionRef<StatusOr<Briefing>(const Heard&)> answer);

// The same of what every rank lists for a save or a restore. Collective;
// agreed.
StatusOr<Briefed> DescribeTogether(
    Team& team, const RankShards& mine, Told& told,
    absl::FunctionRef<StatusOr<Briefing>(const ListedRanks&)> answer);

}  // namespace belay

#endif  // BELAY_PIPELINE_TELL_TOGETHER_H_
