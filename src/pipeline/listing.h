// Lists shards for saves and restores, and gathers the lists on rank 0.

#ifndef BELAY_PIPELINE_LISTING_H_
#define BELAY_PIPELINE_LISTING_H_

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "belay/extend/shard.h"
#include "belay/manager/job.h"
#include "core/agreed.h"
#include "mpi/collective.h"
#include "plan/chunks.h"
#include "plan/listed_ranks.h"

namespace belay {

// Sends the lists of all ranks to rank 0, and its `answer` to all ranks. Equal
// lists are sent once. If a list resembles an earlier list or one of rank 0,
// only the differences are sent. On failure, `sent_lists` is unchanged. The
// number of lists must be equal on all ranks. Collective; agreed.
Agreed<RootMessage> GatherLists(
    CommContext& context, std::vector<Entries> lists, SentLists& sent_lists,
    absl::FunctionRef<StatusOr<RootMessages>(const Heard&)> answer);

// Sends descriptions of the shards of all ranks to rank 0, and its `answer` to
// all ranks. Collective; agreed.
Agreed<RootMessage> GatherDescriptions(
    CommContext& context, RankShards mine, SentLists& sent_lists,
    absl::FunctionRef<StatusOr<RootMessages>(ListedRanks)> answer);

// Returns the shards, with `rank` as the replica number of values that every
// rank holds.
std::vector<Shard> ListShards(std::vector<Shard> shards, int rank);

// Checks that the layouts of shards are for `num_ranks` ranks. Ignores strings
// that are not layouts.
// Errors: InvalidArgument - a mesh of more or fewer ranks; names the key.
Status CheckLayouts(const std::vector<Shard>& shards, int num_ranks);

// Completes the devices of shards. Keeps what the program specifies.
// Errors: those of CompleteDevices.
Status MapToDevices(std::vector<Shard>& shards, const JobEnvironment& job,
                    int rank);

// Returns the job of the shards' devices, or the default job if there are no
// shards.
std::string FindJobName(const std::vector<Shard>& shards);

// Appends everything in the shards that a plan depends on: all but the values.
void PutStructure(const std::vector<Shard>& shards, WireWriter& out);

// Returns the stored dtype of a value. The save counter is never converted.
// Errors: those of DTypeToStore.
StatusOr<DType> StoredDType(const ArgsByKey& args, const SaveOptions& options,
                            const std::string& key, DType dtype);

// Returns true if a save converts no value.
bool StoresAllAsTheyAre(const SaveOptions& options);

// Returns the stored form of each shard; an empty list if none is converted.
// Errors: those of CompileArgs and DTypeToStore.
StatusOr<std::vector<StoredForm>> FormsToStore(const std::vector<Shard>& shards,
                                               const SaveOptions& options);

// Checks that parts of values with standard handlers keep their dtypes.
// Errors: InvalidArgument - a part of a value with such a handler is stored in
//   another dtype.
Status CheckHandledForms(const std::vector<ListedValue>& values,
                         const std::vector<Shard>& shards,
                         const std::vector<StoredForm>& forms);

// Returns, for each shard of a State, whether all ranks hold it. Call it before
// ListShards.
std::vector<bool> FindOnAllRanks(const std::vector<Shard>& shards);

// Describes the shards, with the dtypes of `forms` and the result of
// FindOnAllRanks if given.
std::vector<ShardInfo> DescribeShards(
    const std::vector<Shard>& shards, const std::vector<StoredForm>& forms = {},
    const std::vector<bool>& on_all_ranks = {});

}  // namespace belay

#endif  // BELAY_PIPELINE_LISTING_H_
