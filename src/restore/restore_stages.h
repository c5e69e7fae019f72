// The stages of a restore, and what each takes and makes.

#ifndef BELAY_RESTORE_RESTORE_STAGES_H_
#define BELAY_RESTORE_RESTORE_STAGES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "belay/arrays/shard.h"
#include "belay/arrays/tensor.h"
#include "belay/options.h"
#include "belay/save_restore.h"
#include "belay/state.h"
#include "belay/status.h"
#include "core/agreed.h"
#include "core/element_conversion.h"
#include "mpi/collective.h"
#include "pipeline/stages.h"
#include "plan/plan.h"
#include "plan/stored_values.h"
#include "state/rank_rows.h"
#include "state/stored_answer.h"
#include "state/transform.h"
#include "state/type_handlers.h"
#include "state/value_listing.h"
#include "storage/reader.h"
#include "storage/staging.h"
#include "storage/verify.h"

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

// What a caller means by a directory and a number.
// Errors: InvalidArgument - a negative number.
StatusOr<RestoreSource> SourceOf(const std::string& dir,
                                 std::optional<int64_t> step);

// Stage verify of what reads a checkpoint.

// What the ranks have read. Borrows everything.
struct ReadBlocks {
  const SavedCheckpoint& saved;  // rank 0 only, as the next
  const RestorePlan& plan;
  std::vector<uint32_t>& registers;  // of this rank; combined on rank 0
  std::vector<int64_t>& covered;     // of this rank; then of all
};

// Compares the checksums of what all ranks have read together. Collective;
// agreed. Returns the counts of all. Messages begin with `operation`.
// Errors: those of CompareChecksums.
Agreed<BlockCounts> CompareTogether(CommContext& context,
                                    const std::string& operation,
                                    const ReadBlocks& read);

// The stages of a restore, in the order in which restore.cc calls them: what
// each takes, and what it makes.

// What every stage knows; none of it is a result of a stage. Neither copied nor
// moved.
struct RestoreFrame {
  // `path` is for messages.
  RestoreFrame(const Comm& comm, const std::string& path,
               const RestoreOptions& chosen);

  CommContext context;
  Stages stages;
  // A copy: on_open may change those of the program.
  const RestoreOptions options;
  const std::shared_ptr<const HandlerTable> handlers;
  // The program has named each shape, also one in which nothing is stored.
  bool may_read_nothing = false;
  // The program has memory of its own for what it does not ask the length of.
  bool has_memory = false;
};

// Restores `state` from there, as Restore, if `mine` is OK. Collective. Same on
// all ranks: source, options. Requires a communicator that CheckComm accepts.
// Errors: `mine`; those of Restore.
Agreed<RestoreResult> RestoreState(const Comm& comm,
                                   const RestoreSource& source, Status mine,
                                   const State& state,
                                   const RestoreOptions& options);

// --- begin ---

// Fails unless the arguments are equal and no rank has failed. Collective;
// agreed.
Agreed<> BeginRestore(RestoreFrame& frame, const RestoreSource& source,
                      const Status& mine);

// --- open ---

struct OpenedStep {
  // On rank 0 that of one checkpoint or file, on others what was asked for
  // until PinRestore.
  RestoreSource source;
  // Rank 0 only. Of a flat file it has the arrays.
  SavedCheckpoint saved;
  std::vector<std::string> problems;  // of its other datasets
  // Arrays for whose stored length no memory may be taken, and why.
  std::map<std::string, std::string> too_large;
};

// Has rank 0 read the index. Collective; agreed.
Agreed<OpenedStep> OpenStep(RestoreFrame& frame, const RestoreSource& source);

// The same where there may be nothing to open. Collective; agreed.
Agreed<std::optional<OpenedStep>> OpenStepIfAny(RestoreFrame& frame,
                                                const RestoreSource& source);

// Fails if the step is no longer the save that was opened, else with what a
// rank finds wrong with what it has read. `status` is what reading it has come
// to; where that is an error, `mine` does not count. Collective; agreed. Same
// on all ranks: status. Errors: those of CheckSameStep.
Agreed<> CheckUnchanged(RestoreFrame& frame, const OpenedStep& opened,
                        const Status& status, const Status& mine);

// Tells all ranks in `source` what was opened. Collective; agreed.
Agreed<> PinRestore(RestoreFrame& frame, RestoreSource& source);

// Tells the program what the open step holds, as RestoreOptions::on_open.
// Collective; agreed.
// Errors: what it returns; Internal - what it threw; ResourceExhausted.
Agreed<> TellOfStep(RestoreFrame& frame, const OpenedStep& opened);

// What the arguments say of values; `keys` are those of this rank. Collective;
// agreed. Borrows the options.
// Errors: those of RestoreChooser::Create; InvalidArgument - an entry that is
//   for no value of any rank.
Agreed<RestoreChooser> AgreeOnChooser(
    RestoreFrame& frame, const std::vector<std::string_view>& keys);

// --- list ---

// A value that is computed, and what is left to do for it.
struct ComputedListing {
  std::string what;  // in messages
  std::string key;
  std::vector<TransformMove> moves;
  // Of a shard whose elements do not lie dense, where they are computed.
  std::optional<Tensor> dense = {};
  Shard shard = {};
};

// What this rank restores, and what is to be done when it is read. The flags
// are equal on all ranks; each becomes false when that is done.
struct ListedRestore {
  HandlerListing listing;  // `shards` are its own, and borrow from it
  bool any_handlers = false;
  // Values that are computed from what is read.
  bool any_computed = false;
  std::vector<ComputedListing> computed;
  std::vector<Conversion> computed_conversions;  // equal on all ranks
  // Rows that go to their owners.
  bool any_owned = false;
  // Rows that are fetched by their ids: what this rank reads of them, and
  // memory that containers have given up by then.
  bool any_ids = false;
  std::vector<IdBlock> id_blocks;
  std::vector<FormerElements> former;
  RestoreResult report;  // what does not fit, and warnings
  // Of values that were computed; equal on all ranks.
  std::vector<std::string> computed_warnings;
  // What this rank could not list, if ranks have not agreed on it: then it has
  // no shards, and the reading fails.
  Status status;
};

// Lists those of the values that are stored; the rest, which may be absent, is
// reported. Asks rank 0 only if any rank has values with handlers or such as
// may be absent. Collective; agreed.
// Errors: this rank's or another's `values`; those of ListForRestore.
Agreed<ListedRestore> ListTogether(RestoreFrame& frame,
                                   const OpenedStep& opened,
                                   StatusOr<ValuesToRead> values);

// Plans the values that are computed from stored arrays, and adds what is read
// for them to `listed`. What does not fit, and may be so, is left out and
// added to `mismatched`.
// Errors: those of PlanTransform and GiveLength; FailedPrecondition - the
//   result does not fit the program's value; all name its key.
Status ListComputed(const RestoreFrame& frame,
                    std::vector<ComputedValue> values,
                    const StoredAnswer& answer, ListedRestore& listed,
                    std::vector<Conversion>& mismatched);

// Gives those of them that can take it the length of their result, and adds the
// memory that they gave up.
// Errors: as GiveLength, and as MadeBytes::Check for all of them together.
Status GiveComputedLengths(const StoredAnswer& answer,
                           std::vector<ComputedValue>& values,
                           std::vector<FormerElements>& former);

// Tells all ranks what any of them converts to compute its values, and what
// does not fit. Collective; agreed.
Agreed<> ShareComputed(RestoreFrame& frame,
                       std::vector<Conversion>& conversions,
                       std::vector<Conversion>& mismatched);

// --- plan ---

// What this rank reads, and what it knows of the rest.
struct PlannedReads {
  // Equal on all ranks.
  std::string path;
  int64_t step = -1;
  bool checks = false;
  int64_t num_blocks = 0;
  int64_t num_arrays = 0;
  int64_t stream_bytes = 0;  // of the longest stream
  ReadSharing sharing = ReadSharing::kAuto;
  std::string note;
  std::vector<std::string> file_names;
  std::vector<FilteredDataset> filtered;
  std::vector<Conversion> conversions;  // if there may be any
  // This rank's part.
  RankReads reads;
  std::vector<StoredForm> forms;  // of the shards; empty: as they are
  RestorePlan plan;               // rank 0 only
};

// Whether values may be stored in another form than they are wanted in.
bool MayConvert(const RestoreOptions& options);

// Plans who reads what of the shards that all ranks want. `tolerances` are by
// shard. `no_shared_memory` says why there is none, if that is known: then each
// rank reads for itself. Same on all ranks: no_shared_memory. Collective;
// agreed.
Agreed<PlannedReads> PlanReads(RestoreFrame& frame, const OpenedStep& opened,
                               const std::vector<Shard>& shards,
                               const std::vector<Tolerance>& tolerances,
                               const std::string& no_shared_memory);

// Tells all ranks which values are converted, and returns the forms of this
// rank's shards. Collective; agreed.
Agreed<std::vector<StoredForm>> ShareForms(
    RestoreFrame& frame, const std::vector<Shard>& shards,
    const std::vector<Tolerance>& tolerances,
    std::vector<Conversion>& conversions);

// --- read ---

// What this rank has read, to be compared with checksums.
struct ReadData {
  std::vector<ConversionLosses> losses;  // by shard; empty: none is converted
  std::vector<uint32_t> registers;
  std::vector<int64_t> covered;
  ReadCounts counts;
};

// Reads what is planned into the memory of the shards, and agrees on `mine`;
// plans anew where shared memory is wanted, and there is none, and then says in
// `no_shared_memory` why. Collective; agreed.
Agreed<ReadData> ReadPlanned(RestoreFrame& frame, const OpenedStep& opened,
                             const std::vector<Shard>& shards,
                             const std::vector<Tolerance>& tolerances,
                             const Status& mine, PlannedReads& planned,
                             std::string& no_shared_memory);

// Adds to `result`, which has the conversions, a warning for each key of which
// any rank has lost values. Collective; agreed.
// Errors: those of TellLost.
Agreed<> TellLostValues(RestoreFrame& frame, const FormedShards& formed,
                        RestoreResult& result);

// Plans and reads a file of another program, and agrees on `mine`. Collective;
// agreed.
Agreed<RestoreResult> ReadFlat(RestoreFrame& frame, const OpenedStep& opened,
                               const std::vector<Shard>& shards,
                               const std::vector<Tolerance>& tolerances,
                               const Status& mine);

// --- receive ---

// Gives rows to the ranks that own them. Collective; agreed.
// Errors: those of PackByOwner and TakeOwned.
Agreed<> HandOutRows(RestoreFrame& frame, std::vector<Shard>& shards);

// Computes the values of which all is read, and adds to `warnings` one for each
// key of which any rank has lost values; `path` is for them. Collective;
// agreed. Errors: those of functions of the program; those of TellLost.
Agreed<> ComputeTogether(RestoreFrame& frame, std::string_view path,
                         std::vector<ComputedListing> computed,
                         std::vector<std::string>& warnings);

// Gets the rows that this rank wants by their ids from the ranks that have read
// them. Collective; agreed.
// Errors: those of AskForIds, CheckNothingIsThere, AnswerRequests and
//   CheckSameIds.
Agreed<> FetchById(RestoreFrame& frame, std::vector<IdBlock>& blocks,
                   std::vector<FormerElements> former);

// Does what is to be done with `shards`, which are read from `path`, and tells
// the handlers. Returns whether any rank wants more, which `listed` then has.
// Collective; agreed.
Agreed<bool> ReceiveTogether(RestoreFrame& frame, std::string_view path,
                             std::vector<Shard>& shards, ListedRestore& listed);

// --- all from list on ---

// Reads the values, for as long as handlers want more, and reports. Collective;
// agreed.
Agreed<RestoreResult> ReadValues(RestoreFrame& frame, const OpenedStep& opened,
                                 StatusOr<ValuesToRead> values);

}  // namespace belay

#endif  // BELAY_RESTORE_RESTORE_STAGES_H_
