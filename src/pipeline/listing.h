// What every rank lists for a save or a restore, and how rank 0 learns it.

#ifndef BELAY_PIPELINE_LISTING_H_
#define BELAY_PIPELINE_LISTING_H_

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "belay/arrays/shard.h"
#include "belay/manager/job.h"
#include "belay/options.h"
#include "belay/status.h"
#include "core/agreed.h"
#include "core/list_exchange.h"
#include "core/wire.h"
#include "mpi/collective.h"
#include "plan/listed_ranks.h"
#include "plan/plan.h"
#include "plan/save_args.h"
#include "plan/stored_values.h"

namespace belay {

// What all ranks have becomes known to rank 0, over MPI.

// Gives rank 0 the lists of every rank, and all ranks what its `answer` to them
// is. Lists that are equal travel once, and of those that were told before, or
// that rank 0 has much of, only what differs. Collective; agreed. If it fails,
// `sent_lists` stays as it was. Same on all ranks: the number of lists.
Agreed<RootMessage> GatherLists(
    CommContext& context, std::vector<Entries> lists, SentLists& sent_lists,
    absl::FunctionRef<StatusOr<RootMessages>(const Heard&)> answer);

// The same of what every rank lists for a save or a restore. Collective;
// agreed.
Agreed<RootMessage> GatherDescriptions(
    CommContext& context, RankShards mine, SentLists& sent_lists,
    absl::FunctionRef<StatusOr<RootMessages>(ListedRanks)> answer);

// Listing: the shards of this rank.

// These shards, of values that every rank holds with the replica number of
// `rank`.
std::vector<Shard> ListShards(std::vector<Shard> shards, int rank);

// Checks that the layouts of listed shards are for so many ranks. A text
// that is no layout is not looked at.
// Errors: InvalidArgument - a mesh of more or fewer ranks; names the key.
Status CheckLayouts(const std::vector<Shard>& shards, int num_ranks);

// Completes the devices of listed shards: those that the program names stay.
// Errors: those of CompleteDevices.
Status MapToDevices(std::vector<Shard>& shards, const JobEnvironment& job,
                    int rank);

// The job of shards with devices, which is one; the default of none.
std::string JobOf(const std::vector<Shard>& shards);

// Appends all that a plan depends on: everything but the values.
void PutStructure(const std::vector<Shard>& shards, WireWriter& out);

// The dtype of those f32 whose arguments name none.
DType F32Stored(const SaveOptions& options);

// The dtype in which a value is stored; the save counter keeps its own.
// Errors: those of DTypeToStore.
StatusOr<DType> StoredDType(const ArgsByKey& args, const SaveOptions& options,
                            const std::string& key, DType dtype);

// Whether a save stores every value as it is, whatever its key.
bool StoresAllAsTheyAre(const SaveOptions& options);

// The form in which a save stores each of these shards; none at all where all
// are stored as they are.
// Errors: those of CompileArgs and DTypeToStore.
StatusOr<std::vector<StoredForm>> FormsToStore(const std::vector<Shard>& shards,
                                               const SaveOptions& options);

// Checks that the standard handlers find the dtypes again that they store.
// Errors: InvalidArgument - a part of a value with such a handler is
// stored in another one.
Status CheckHandledForms(const std::vector<ListedValue>& values,
                         const std::vector<Shard>& shards,
                         const std::vector<StoredForm>& forms);

// Which of the shards of a State are to be on all ranks, before ListShards.
std::vector<bool> FindOnAllRanks(const std::vector<Shard>& shards);

// The same shards without bytes, with the dtypes of `forms` if there are any,
// and what FindOnAllRanks has found if that is known.
std::vector<ShardInfo> DescribeShards(
    const std::vector<Shard>& shards, const std::vector<StoredForm>& forms = {},
    const std::vector<bool>& on_all_ranks = {});

}  // namespace belay

#endif  // BELAY_PIPELINE_LISTING_H_
