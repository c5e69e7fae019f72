// What all ranks have becomes known to rank 0, over MPI.

#ifndef BELAY_PIPELINE_GATHER_LISTS_H_
#define BELAY_PIPELINE_GATHER_LISTS_H_

#include <vector>

#include "absl/functional/function_ref.h"
#include "belay/status.h"
#include "bytes/list_exchange.h"
#include "mpi/collective.h"
#include "plan/listed_ranks.h"
#include "plan/plan.h"

namespace belay {

// Gives rank 0 the lists of every rank, and all ranks what its `answer` to them
// is. Lists that are equal travel once, and of those that were told before, or
// that rank 0 has much of, only what differs. Collective; agreed. If it fails,
// `sent_lists` stays as it was. Same on all ranks: the number of lists.
StatusOr<RootMessage> GatherLists(
    CommContext& context, std::vector<Entries> lists, SentLists& sent_lists,
    absl::FunctionRef<StatusOr<RootMessages>(const Heard&)> answer);

// The same of what every rank lists for a save or a restore. Collective;
// agreed.
StatusOr<RootMessage> GatherDescriptions(
    CommContext& context, RankShards mine, SentLists& sent_lists,
    absl::FunctionRef<StatusOr<RootMessages>(ListedRanks)> answer);

}  // namespace belay

#endif  // BELAY_PIPELINE_GATHER_LISTS_H_
