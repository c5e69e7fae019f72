// Listing: the shards of this rank.

#ifndef BELAY_PIPELINE_LISTING_H_
#define BELAY_PIPELINE_LISTING_H_

#include <string>
#include <vector>

#include "belay/arrays/shard.h"
#include "belay/manager/job.h"
#include "belay/options.h"
#include "bytes/wire.h"
#include "plan/plan.h"
#include "plan/save/save_args.h"
#include "plan/stored/stored_form.h"

namespace belay {

// These shards, of values that every rank holds with the replica number of
// `rank`. Local.
std::vector<Shard> ListShards(std::vector<Shard> shards, int rank);

// Checks that the layouts of listed shards are for so many ranks. Local. A text
// that is no layout is not looked at.
// Errors: InvalidArgument - a mesh of more or fewer ranks; names the key.
Status CheckLayouts(const std::vector<Shard>& shards, int num_ranks);

// Completes the devices of listed shards: those that the program names stay.
// Local.
// Errors: those of CompleteDevices.
Status MapToDevices(std::vector<Shard>& shards, const JobEnvironment& job,
                    int rank);

// The job of shards with devices, which is one; the default of none. Local.
std::string JobOf(const std::vector<Shard>& shards);

// Appends all that a plan depends on: everything but the values. Local.
void PutStructure(const std::vector<Shard>& shards, WireWriter& out);

// The dtype of those f32 whose arguments name none. Local.
DType F32Stored(const SaveOptions& options);

// The dtype in which a value is stored; the save counter keeps its own. Local.
// Errors: those of DTypeToStore.
StatusOr<DType> StoredDType(const ArgsByKey& args, const SaveOptions& options,
                            const std::string& key, DType dtype);

// Whether a save stores every value as it is, whatever its key. Local.
bool StoresAllAsTheyAre(const SaveOptions& options);

// The form in which a save stores each of these shards; none at all where all
// are stored as they are. Local.
// Errors: those of CompileArgs and DTypeToStore.
StatusOr<std::vector<StoredForm>> FormsToStore(const std::vector<Shard>& shards,
                                               const SaveOptions& options);

// Checks that the standard handlers find the dtypes again that they store.
// Local. Errors: InvalidArgument - a part of a value with such a handler is
// stored in another one.
Status CheckHandledForms(const std::vector<ListedValue>& values,
                         const std::vector<Shard>& shards,
                         const std::vector<StoredForm>& forms);

// Which of the shards of a State are to be on all ranks, before ListShards.
// Local.
std::vector<bool> FindOnAllRanks(const std::vector<Shard>& shards);

// The same shards without bytes, with the dtypes of `forms` if there are any,
// and what FindOnAllRanks has found if that is known. Local.
std::vector<ShardInfo> DescribeShards(
    const std::vector<Shard>& shards, const std::vector<StoredForm>& forms = {},
    const std::vector<bool>& on_all_ranks = {});

}  // namespace belay

#endif  // BELAY_PIPELINE_LISTING_H_
