// The stages of a restore, in the order in which restore.cc calls them.

#ifndef BELAY_RESTORE_RESTORE_STAGES_H_
#define BELAY_RESTORE_RESTORE_STAGES_H_

#include <map>

#include "belay/arrays/tensor.h"
#include "belay/extend/shard.h"
#include "belay/options.h"
#include "belay/save_restore.h"
#include "belay/state.h"
#include "core/element_conversion.h"
#include "pipeline/stages.h"
#include "plan/restore_planner.h"
#include "state/rank_rows.h"
#include "state/stored_answer.h"
#include "state/transform.h"
#include "state/value_listing.h"
#include "storage/conversion_buffer.h"
#include "storage/reader.h"
#include "storage/verify.h"

namespace belay {

// The checkpoint to restore.
struct RestoreSource {
  enum class Kind : uint8_t {
    kCheckpoint,  // `path` is the checkpoint
    kRun,         // `path` is a checkpoint, or the newest step in it is
    kAny,         // `path` is anything ResolveStep finds, or a flat file
    kFlatFile,    // an HDF5 file that another program wrote
  };

  std::string path;
  Kind kind = Kind::kCheckpoint;
  // The step number; -1: any.
  int64_t step = -1;
  // Identifies one of the saves to this path; 0: any.
  uint64_t identity = 0;
  // An error in the caller's request, which BeginRestore returns.
  Status problem = {};
};

template <typename Archive>
void Fields(Archive& archive, RestoreSource& source) {
  archive(source.path, source.kind, source.step, source.identity);
}

// Returns the source for a directory and an optional step number.
RestoreSource MakeSource(const std::string& dir, std::optional<int64_t> step);

// Checks the options that control which ranks read and how much memory they
// use. Messages begin with `operation "path"`.
// Errors: InvalidArgument - an option is out of range, or options contradict
//   each other.
Status CheckReading(std::string_view operation, const std::string& path,
                    const RestoreOptions& options);

// Checks that no option applies to single values. For restores into memory that
// the program does not provide.
// Errors: InvalidArgument - the message names the option.
Status CheckNoArgs(const std::string& dir, const RestoreOptions& options);

// Returns the options that control which ranks read, for the planner.
ReadRules MakeReadRules(const RestoreOptions& options);

// The blocks that ranks have read. Borrows everything.
struct ReadBlocks {
  const SavedCheckpoint& saved;  // this and `plan`: rank 0 only
  const RestorePlan& plan;
  std::vector<uint32_t>& registers;  // of this rank; then combined on rank 0
  std::vector<int64_t>& covered;     // of this rank; then summed over all
};

// Compares the checksums of the blocks that all ranks have read, and returns
// the counts of all ranks. Messages begin with `operation`. Collective; agreed.
// Errors: those of CompareChecksums.
Agreed<BlockCounts> CompareTogether(CommContext& context,
                                    const std::string& operation,
                                    const ReadBlocks& read);

// Arguments that every stage needs. Contains no results of stages. Must not be
// copied or moved.
struct RestoreFrame {
  // `path` is for messages.
  RestoreFrame(const Comm& comm, const std::string& path,
               const RestoreOptions& chosen);

  CommContext context;
  Stages stages;
  // A copy, because on_open may change the program's options.
  const RestoreOptions options;
  const std::shared_ptr<const HandlerTable> handlers;
  // True if the caller chooses each shape, so that it may have no stored
  // elements.
  bool may_read_nothing = false;
  // True if the program provides the memory of values, except those that take
  // their stored length.
  bool has_memory = false;
};

// Restores `state` from `source` like Restore. Source and options must be equal
// on all ranks. Requires a communicator that CheckComm accepts. Collective.
// Errors: those of Restore.
Agreed<RestoreResult> RestoreState(const Comm& comm,
                                   const RestoreSource& source,
                                   const State& state,
                                   const RestoreOptions& options);

// --- begin ---

// Fails if the arguments differ between ranks, or if `mine` is an error on any
// rank. Collective; agreed.
Agreed<> BeginRestore(RestoreFrame& frame, const RestoreSource& source,
                      const Status& mine = absl::OkStatus());

// --- open ---

struct OpenedStep {
  // On rank 0, the checkpoint or file that was found. On other ranks, the
  // source that was asked for, until PinRestore is called.
  RestoreSource source;
  // Rank 0 only. For a flat file, it has only the arrays.
  SavedCheckpoint saved;
  std::vector<std::string> problems;  // with datasets that cannot be read
  // The arrays that claim to be larger than their file can hold, with the
  // reason.
  std::map<std::string, std::string> too_large;
};

// Reads the index on rank 0. Collective; agreed.
Agreed<OpenedStep> OpenStep(RestoreFrame& frame, const RestoreSource& source);

// Like OpenStep, but returns nullopt if there is no step yet. Collective;
// agreed.
Agreed<std::optional<OpenedStep>> OpenStepIfAny(RestoreFrame& frame,
                                                const RestoreSource& source);

// Fails if another save has replaced the step. Otherwise fails with an error in
// `mine` of any rank, unless `status` is an error. `status` is the result of
// reading the step, and must be equal on all ranks. Collective; agreed.
// Errors: those of CheckSameStep.
Agreed<> CheckUnchanged(RestoreFrame& frame, const OpenedStep& opened,
                        const Status& status, const Status& mine);

// Sends the source that rank 0 has opened to all ranks. Collective; agreed.
Agreed<> PinRestore(RestoreFrame& frame, RestoreSource& source);

// Returns a chooser of the arguments for single values. `keys` are this rank's
// keys. Borrows the options. Collective; agreed.
// Errors: those of RestoreChooser::Create; InvalidArgument - an entry that
//   matches no value of any rank.
Agreed<RestoreChooser> AgreeOnChooser(
    RestoreFrame& frame, const std::vector<std::string_view>& keys);

// --- list ---

// A value that is computed from stored arrays, and its remaining work.
struct ComputedListing {
  ComputedValue value;
  std::vector<TransformMove> moves;
  // Memory for the result if the elements of the value are not dense.
  std::optional<Tensor> dense = {};
};

// The kinds of values that any rank has.
struct AnyValues {
  bool handled = false;  // or a rank has an error, so that all ranks ask
  bool may_be_absent = false;
  bool take_rows = false;  // or lengths, from the index
  bool computed = false;
  bool owned = false;  // rows that are sent to their owners
  bool ids = false;    // rows that are fetched by their ids
};

// The shards that this rank restores, and the work that follows once they are
// read.
struct ListedRestore {
  HandlerListing listing;  // its `shards` borrow from it
  AnyValues any;           // reset where the work is done
  std::vector<ComputedListing> computed;
  std::vector<Conversion> computed_conversions;  // equal on all ranks
  // For rows with ids: the blocks that this rank reads, and the memory that
  // containers released when they were resized.
  std::vector<IdBlock> id_blocks;
  std::vector<FormerElements> former;
  RestoreResult report;  // values that do not fit, and warnings
  // Warnings about computed values; equal on all ranks.
  std::vector<std::string> computed_warnings;
  // The error of this rank's listing, if ranks have not agreed on it yet. The
  // rank then has no shards, and reading fails.
  Status status;
};

// Lists the values that are stored, and reports absent values that may be
// absent. Asks rank 0 only if any rank needs the index. Collective; agreed.
// Errors: `values` of any rank; those of ListForRestore.
Agreed<ListedRestore> ListTogether(RestoreFrame& frame,
                                   const OpenedStep& opened,
                                   StatusOr<ValuesToRead> values);

// --- receive ---

// Completes the `shards` that were read from `path`, and calls the handlers.
// Returns true if handlers on any rank want more values; `listed` then has
// them. Collective; agreed.
Agreed<bool> ReceiveTogether(RestoreFrame& frame, std::string_view path,
                             std::vector<Shard>& shards, ListedRestore& listed);

// --- all from list on ---

// Reads values until no handler wants more. Collective; agreed.
Agreed<RestoreResult> ReadValues(RestoreFrame& frame, const OpenedStep& opened,
                                 StatusOr<ValuesToRead> values);

}  // namespace belay

#endif  // BELAY_RESTORE_RESTORE_STAGES_H_
