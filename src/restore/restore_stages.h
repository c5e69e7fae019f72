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
    kCheckpoint,  // `path` is that of the checkpoint
    kRun,         // `path` itself, or the newest step in it
    kAny,         // `path` as ResolveStep finds it, or a flat file
    kFlatFile,    // an HDF5 file that another program wrote
  };

  std::string path;
  Kind kind = Kind::kCheckpoint;
  // The step number; -1: any.
  int64_t step = -1;
  // Identifies one save among those of this path; 0: any.
  uint64_t identity = 0;
  // An error in what the caller has asked for, which BeginRestore returns.
  Status problem = {};
};

template <typename Archive>
void Fields(Archive& archive, RestoreSource& source) {
  archive(source.path, source.kind, source.step, source.identity);
}

// Returns the source for a directory and an optional step number.
RestoreSource MakeSource(const std::string& dir, std::optional<int64_t> step);

// Checks the options about readers and memory. Messages begin with
// `operation "path"`.
// Errors: InvalidArgument - one is out of its range, or they contradict.
Status CheckReading(std::string_view operation, const std::string& path,
                    const RestoreOptions& options);

// Checks that no option is about single values, for restores without values of
// the program.
// Errors: InvalidArgument - names it.
Status CheckNoArgs(const std::string& dir, const RestoreOptions& options);

// Returns the options about readers for the planner.
ReadRules MakeReadRules(const RestoreOptions& options);

// Blocks that ranks have read. Borrows everything.
struct ReadBlocks {
  const SavedCheckpoint& saved;  // rank 0 only, as the next
  const RestorePlan& plan;
  std::vector<uint32_t>& registers;  // of this rank; combined on rank 0
  std::vector<int64_t>& covered;     // of this rank; then of all
};

// Compares the checksums of what all ranks have read, and returns the counts of
// all. Messages begin with `operation`. Collective; agreed.
// Errors: those of CompareChecksums.
Agreed<BlockCounts> CompareTogether(CommContext& context,
                                    const std::string& operation,
                                    const ReadBlocks& read);

// Arguments of every stage; no stage's result is in it. Neither copied nor
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
  // The program names each shape, even one without stored elements.
  bool may_read_nothing = false;
  // The program has memory for values whose length it does not ask for.
  bool has_memory = false;
};

// Restores `state` from `source` as Restore. Source and options must be equal
// on all ranks. Requires a communicator that CheckComm accepts. Collective.
// Errors: those of Restore.
Agreed<RestoreResult> RestoreState(const Comm& comm,
                                   const RestoreSource& source,
                                   const State& state,
                                   const RestoreOptions& options);

// --- begin ---

// Fails unless the arguments are equal and no rank has failed with `mine`.
// Collective; agreed.
Agreed<> BeginRestore(RestoreFrame& frame, const RestoreSource& source,
                      const Status& mine = absl::OkStatus());

// --- open ---

struct OpenedStep {
  // On rank 0, one checkpoint or file; on others, until PinRestore, as asked
  // for.
  RestoreSource source;
  // Rank 0 only. For a flat file, it has the arrays.
  SavedCheckpoint saved;
  std::vector<std::string> problems;  // with datasets that are no arrays
  // Arrays that claim to be larger than their file can hold, with the reason.
  std::map<std::string, std::string> too_large;
};

// Reads the index on rank 0. Collective; agreed.
Agreed<OpenedStep> OpenStep(RestoreFrame& frame, const RestoreSource& source);

// As OpenStep; returns nothing if there is no step yet. Collective; agreed.
Agreed<std::optional<OpenedStep>> OpenStepIfAny(RestoreFrame& frame,
                                                const RestoreSource& source);

// Fails if another save has replaced the step, else with `mine` of any rank
// unless `status`, the result of reading it, is an error. `status` must be
// equal on all ranks. Collective; agreed.
// Errors: those of CheckSameStep.
Agreed<> CheckUnchanged(RestoreFrame& frame, const OpenedStep& opened,
                        const Status& status, const Status& mine);

// Sends the source that rank 0 has opened to all ranks. Collective; agreed.
Agreed<> PinRestore(RestoreFrame& frame, RestoreSource& source);

// Returns a chooser of the arguments of values; `keys` are those of this rank.
// Borrows the options. Collective; agreed.
// Errors: those of RestoreChooser::Create; InvalidArgument - an entry that is
//   for no value of any rank.
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

// Kinds of values that any rank has.
struct AnyValues {
  bool handled = false;  // or an error, so that all ranks ask
  bool may_be_absent = false;
  bool take_rows = false;  // or lengths: from the index
  bool computed = false;
  bool owned = false;  // rows that go to their owners
  bool ids = false;    // rows that are fetched by their ids
};

// The shards that this rank restores, and what to do when they are read.
struct ListedRestore {
  HandlerListing listing;  // `shards` are its own, and borrow from it
  AnyValues any;           // false where that is done
  std::vector<ComputedListing> computed;
  std::vector<Conversion> computed_conversions;  // equal on all ranks
  // For rows with ids: the blocks that this rank reads, and memory that
  // containers have given up.
  std::vector<IdBlock> id_blocks;
  std::vector<FormerElements> former;
  RestoreResult report;  // what does not fit, and warnings
  // About computed values; equal on all ranks.
  std::vector<std::string> computed_warnings;
  // The error of this rank's listing if ranks have not agreed on it: then it
  // has no shards, and reading fails.
  Status status;
};

// Lists the values that are stored, and reports those that may be absent and
// are. Asks rank 0 only if any rank needs the index. Collective; agreed.
// Errors: `values` of any rank; those of ListForRestore.
Agreed<ListedRestore> ListTogether(RestoreFrame& frame,
                                   const OpenedStep& opened,
                                   StatusOr<ValuesToRead> values);

// --- receive ---

// Completes `shards` that were read from `path`, and calls the handlers.
// Returns true if any rank wants more, which `listed` then has. Collective;
// agreed.
Agreed<bool> ReceiveTogether(RestoreFrame& frame, std::string_view path,
                             std::vector<Shard>& shards, ListedRestore& listed);

// --- all from list on ---

// Reads the values until handlers want no more. Collective; agreed.
Agreed<RestoreResult> ReadValues(RestoreFrame& frame, const OpenedStep& opened,
                                 StatusOr<ValuesToRead> values);

}  // namespace belay

#endif  // BELAY_RESTORE_RESTORE_STAGES_H_
