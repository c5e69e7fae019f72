// One restore on one rank, stage by stage.

#ifndef BELAY_RESTORE_RESTORE_RUN_H_
#define BELAY_RESTORE_RESTORE_RUN_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "belay/options.h"
#include "belay/save_restore.h"
#include "belay/shard.h"
#include "belay/state.h"
#include "belay/status.h"
#include "belay/tensor.h"
#include "mpi/collective.h"
#include "pipeline/stages.h"
#include "plan/plan.h"
#include "plan/restore_choice.h"
#include "plan/stored/stored_form.h"
#include "transform/plan.h"
#include "values/handlers/handler_table.h"
#include "values/handlers/restore_chooser.h"
#include "values/rows/id_block.h"
#include "values/stored_answer.h"
#include "values/value_listing.h"
#include "values/values_to_read.h"

namespace belay {

// Which checkpoint to restore.
struct RestoreSource {
  enum class Kind : uint8_t {
    kCheckpoint,  // `path` is that of the checkpoint
    kRun,         // `path` itself, or the newest step in it
    kAny,         // what ResolveStep finds, or a flat file
    kFlatFile,    // an HDF5 file that another program wrote
  };

  std::string path;
  Kind kind = Kind::kCheckpoint;
  // Its number; -1: any.
  int64_t step = -1;
  // Tells it from another save of the same name; 0: of any save.
  uint64_t identity = 0;
};

// A value that is computed, and what is left to do for it.
struct ComputedListing {
  std::string what;  // in messages
  std::vector<TransformMove> moves;
  // Of a shard whose elements do not lie dense, where they are computed.
  std::optional<Tensor> dense = {};
  Shard shard = {};
};

// Its arguments, and what the stages hand on. Neither copied nor moved.
struct RestoreRun {
  RestoreRun(const Comm& comm, RestoreSource wanted,
             const RestoreOptions& chosen);

  Team team;
  Stages stages;
  RestoreSource source;  // on rank 0 of one checkpoint, once it is open
  // A copy: on_open may change those of the program.
  const RestoreOptions options;
  std::shared_ptr<const HandlerTable> handlers;
  bool any_handlers = false;  // equal on all ranks
  // The program has named each shape, also one in which nothing is stored.
  bool may_read_nothing = false;
  // Of values that are computed from what is read: what is done when it is
  // there, and what they are converted from. `any_computed` is equal on all
  // ranks, and so is `computed_conversions` once they are listed.
  bool any_computed = false;
  // Whether rows are to go to their owners; equal on all ranks.
  bool any_owned = false;
  // Whether rows are fetched by their ids; equal on all ranks. What this rank
  // reads of them, and memory that containers have given up by then.
  bool any_ids = false;
  std::vector<IdBlock> id_blocks;
  std::vector<FormerElements> former;
  std::vector<ComputedListing> computed;
  std::vector<Conversion> computed_conversions;
  HandlerListing listing;  // `shards` are its own, and borrow from it
  std::vector<Shard> shards;
  // By shard, what may differ.
  std::vector<Tolerance> tolerances;
  std::vector<StoredForm> forms;  // of the shards; empty: nothing is converted
  // Rank 0 only. Of a flat file it has the arrays.
  SavedCheckpoint saved;
  std::vector<std::string> problems;  // of its other datasets
  RestorePlan plan;
  // This rank's part.
  RankReads reads;
  int64_t stream_bytes = 0;  // of the longest stream; equal on all ranks
  // Why there is none; empty: there may be some. Equal on all ranks.
  std::string no_shared_memory;
  std::vector<std::string> file_names;
  std::vector<FilteredDataset> filtered;
  bool checks = false;  // equal on all ranks
  std::vector<uint32_t> registers;
  std::vector<int64_t> covered;
  RestoreResult result;
};

// Tells the program what the open step holds, as RestoreOptions::on_open.
// Collective; agreed.
// Errors: what it returns; Internal - what it threw; ResourceExhausted.
Status TellOfStep(RestoreRun& run);

// Restores `state` from there, as Restore. Collective. Same on all ranks:
// source, options.
// Errors: those of Restore.
StatusOr<RestoreResult> RestoreFrom(const Comm& comm,
                                    const RestoreSource& source,
                                    const State& state,
                                    const RestoreOptions& options);

// What a caller means by a directory and a number. Local.
StatusOr<RestoreSource> SourceOf(const std::string& dir,
                                 std::optional<int64_t> step);

// Stage list: the arguments are equal, and no rank has failed. Collective;
// agreed.
Status BeginRestore(RestoreRun& run, const Status& mine);

// Stage open: rank 0 reads the index. Collective; agreed.
Status OpenStage(RestoreRun& run);

// The same where there may be nothing to open: returns whether there was.
// Collective; agreed.
StatusOr<bool> OpenStageIfAny(RestoreRun& run);

// Tells all ranks in run.source what was opened. Collective; agreed.
Status PinRestore(RestoreRun& run);

// What the arguments say of values; `keys` are those of this rank. Collective;
// agreed. Borrows the options.
// Errors: those of RestoreChooser::Create; InvalidArgument - an entry that is
//   for no value of any rank.
StatusOr<RestoreChooser> AgreeOnChooser(
    RestoreRun& run, const std::vector<std::string_view>& keys);

// Whether values may be stored in another form than they are wanted in. Local.
bool MayConvert(const RestoreOptions& options);

// Stage plan. Collective; agreed.
Status PlanStage(RestoreRun& run);

// Tells all ranks which values are converted. Collective; agreed.
Status ShareForms(RestoreRun& run);

// Stages plan and read of a file of another program. Collective; agreed.
Status ReadFlat(RestoreRun& run);

// Stage read of a checkpoint that is planned; plans anew where shared memory
// is wanted, and there is none. Collective; agreed.
Status ReadStage(RestoreRun& run);

// Lists in run.listing those of the values that are stored, and the rest, which
// may be absent, in run.result.missing. Asks rank 0 only if any rank has values
// with handlers or such as may be absent. Collective; agreed.
// Errors: this rank's or another's `values`; those of ListForRestore.
Status ListTogether(RestoreRun& run, StatusOr<ValuesToRead> values);

// Plans the values that are computed from stored arrays, and adds what is read
// for them to `listing`. What does not fit, and may be so, is left out and
// added to `mismatched`. Local. Errors: those of PlanTransform and GiveLength;
// FailedPrecondition - the result
//   does not fit the program's value; all name its key.
Status ListComputed(RestoreRun& run, std::vector<ComputedValue> values,
                    const StoredAnswer& answer, HandlerListing& listing,
                    std::vector<Conversion>& mismatched);

// Gives those of them that can take it the length of their result, and adds the
// memory that they gave up. Local.
Status GiveComputedLengths(const StoredAnswer& answer,
                           std::vector<ComputedValue>& values,
                           std::vector<FormerElements>& former);

// Tells all ranks what any of them converts to compute its values, and what
// does not fit. Collective; agreed.
Status ShareComputed(RestoreRun& run, std::vector<Conversion>& mismatched);

// Computes the values of which all is read. Collective; agreed.
Status ComputeTogether(RestoreRun& run);

// Gives rows to the ranks that own them. Collective; agreed.
// Errors: those of PackByOwner and TakeOwned.
Status HandOutRows(RestoreRun& run);

// Gets the rows that this rank wants by their ids from the ranks that have read
// them. Collective; agreed.
// Errors: those of AskForIds, CheckNothingIsThere, AnswerRequests and
//   CheckSameIds.
Status FetchById(RestoreRun& run);

// Tells the handlers that what they listed is there. Returns whether any rank
// wants more, which run.listing then has. Collective; agreed.
StatusOr<bool> ReceiveTogether(RestoreRun& run);

// Stages plan, read and verify, for as long as handlers want more,
// and the report. Collective; agreed.
StatusOr<RestoreResult> ReadValues(RestoreRun& run,
                                   StatusOr<ValuesToRead> values);

}  // namespace belay

#endif  // BELAY_RESTORE_RESTORE_RUN_H_
