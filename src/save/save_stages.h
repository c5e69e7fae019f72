// The stages of a save, in the order in which save.cc calls them.

#ifndef BELAY_SAVE_SAVE_STAGES_H_
#define BELAY_SAVE_SAVE_STAGES_H_

#include <cstdint>
#include <ctime>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "belay/save_restore.h"
#include "core/agreed.h"
#include "core/element_conversion.h"
#include "format/paths.h"
#include "graph/object_graph.h"
#include "mpi/collective.h"
#include "pipeline/stages.h"
#include "save/rank_plan.h"
#include "save/save.h"
#include "state/rank_rows.h"
#include "state/type_handlers.h"
#include "state/value_listing.h"
#include "storage/file_system.h"
#include "storage/index_file.h"
#include "storage/posix_file.h"
#include "storage/transfer.h"

namespace belay {

// The directory that a save writes.
struct SaveTarget {
  std::string path;  // of the committed directory
  int64_t step = 0;
  int64_t time = std::time(nullptr);  // of the call, by this rank's clock
  bool is_managed = false;  // called by a manager, which has checked that all
                            // hosts see the parent directory

  static SaveTarget Of(const SaveJob& job) {
    return {.path = WithoutSlashes(job.path),
            .step = job.step,
            .is_managed = job.at_files != nullptr};
  }

  // The directory that holds the files until the commit.
  std::string Directory() const { return InProgressPath(path); }
  std::string IndexPath() const { return JoinPath(Directory(), IndexName()); }
  std::string DataPath(const PlannedFile& file) const {
    return JoinPath(Directory(), file.name);
  }
};

// Arguments that every stage needs. Contains no results of stages. Must not be
// copied or moved.
struct SaveFrame {
  // Borrows `chosen`.
  SaveFrame(const Comm& comm, Deadline deadline, SaveTarget where,
            const SaveOptions& chosen, StageCosts before)
      : context{.comm = comm,
                .deadline = std::move(deadline),
                .messages = before.messages,
                .agreement_bytes = before.agreement_bytes},
        stages(context, std::move(before.stages)),
        target(std::move(where)),
        options(chosen) {}

  CommContext context;
  Stages stages;
  const SaveTarget target;
  const SaveOptions& options;
};

// --- list, plan, compare ---

// This rank's shards and plan: everything that is known before the save changes
// anything on disk.
struct PreparedSave {
  ListedShards listed;
  HandlerListing listing;  // handlers and memory that the shards borrow from
  std::vector<IdBlock> blocks;  // memory of shards with ids
  bool reuse = false;           // `plan` is the last save's; equal on all ranks
  RankPlan plan;
};

// Lists the values, checks that arguments are valid and equal on all ranks, and
// makes the plan or takes the last save's plan out of the cache. EndSave
// returns the plan to the cache. If listing fails, the cache keeps the last
// plan. Collective; agreed.
// Errors: those of Save for arguments; those of handlers and of the planner.
Agreed<PreparedSave> PrepareSave(SaveFrame& frame, const SaveJob& job,
                                 CachedPlan& cache);

// The part of PrepareSave before the plan. Sets `reuse`. If it is true, `plan`
// is the last save's; otherwise only the plan's fingerprint and forms are set.
// Collective; agreed.
Agreed<PreparedSave> ListSave(SaveFrame& frame, const SaveJob& job,
                              CachedPlan& cache);

// Finds the positions of rows in their arrays, for a new plan. On rank 0, adds
// to `keys` how many rows of each key each rank has. Collective; agreed.
// Errors: those of MergeRowCounts.
Agreed<> PlaceRowsTogether(SaveFrame& frame, PreparedSave& save,
                           std::vector<KeyRows>& keys);

// Moves shards that are rows to their positions. Called in every save.
// Collective; agreed.
// Errors: those of TakeIds, PackWindow, FillBlocks and CheckFilled.
Agreed<> TakePlaces(SaveFrame& frame, PreparedSave& save);

// Fails if replicas are not equal. Called for new plans. Collective; agreed.
// Errors: those of NameDifferentReplicas.
Agreed<> CompareReplicas(SaveFrame& frame, const PreparedSave& save);

// Returns this rank's part of a sum that is 0 over all ranks if all replicas
// are equal. Called for reused plans.
uint64_t SumReplicas(const SaveOptions& options, const RankPlan& plan,
                     const std::vector<Shard>& shards);

// Names the replicas that differ, after their sum has shown that some do.
// Collective; agreed.
// Errors: InvalidArgument - ranks hold different values of the same box.
Agreed<> NameDifferentReplicas(SaveFrame& frame, const PreparedSave& save);

// Releases the shards once the values are no longer needed. If the next save
// need not list them anew, they move to the plan.
void ReleaseShards(PreparedSave& save);

// --- reserve ---

// The step on disk: what rank 0 has done so far and must undo if the save
// fails, and what the commit needs. Any thread may make the commit.
struct StepInProgress {
  // Each phase includes the ones before.
  enum class Phase : uint8_t {
    kNone,      // another save's step may be in its place
    kBegun,     // no other save's step is in its place
    kReserved,  // rank 0 has made the directory in progress
    kOwned,     // rank 0 has taken that directory to commit it
    kCommitted,
  };

  explicit StepInProgress(const SaveFrame& frame)
      : target(frame.target),
        overwrite(frame.options.overwrite),
        durable(frame.options.durable),
        before_commit(frame.options.before_commit) {}

  // Returns true if the commit calls functions of the program.
  bool CallsProgram() const {
    return !finalizers.empty() || before_commit != nullptr;
  }

  SaveTarget target;
  bool overwrite;
  bool durable;
  std::function<Status(const std::string&, int64_t)> before_commit;
  uint64_t nonce = 0;  // of the directory; equal on all ranks after Reserve
  // Rank 0 only.
  Phase phase = Phase::kNone;
  bool program_failed = false;  // by an error other than the file system's
  int64_t time = 0;             // for the index
  std::string metadata;         // as MetadataText; empty: none
  std::vector<TypeHandlerPtr> finalizers;
  // Set by CompleteStep.
  std::shared_ptr<const IndexImage> index;
  std::vector<uint32_t> checksums;  // one per block, or empty
};

class IndexCreation;

// Makes the directory and all files with their metadata, completes a new plan,
// and prepares the index. With `later`, the metadata of a reused plan is added
// there instead of being written. Collective; agreed.
// Errors: those of BeginStep, WaitForStep, AgreeOnSharedDirectory,
//   CreateSkeleton, FindFinalizers and IndexCreation::Prepare.
Agreed<> Reserve(SaveFrame& frame, PreparedSave& save, IndexCreation& index,
                 StepInProgress& step, LaterWrites* later = nullptr);

// Finds the handlers that take part in the commit. Rank 0 only.
// Errors: InvalidArgument - a rank has used a handler that rank 0 does not
//   have.
Status FindFinalizers(const PreparedSave& save, StepInProgress& step);

// --- write ---

// Returns a function to call after a file in the directory in progress was
// opened by its name. The function fails if another save may have made the
// file.
std::function<Status()> OnceOpen(const StepInProgress& step);

// Writes the index of a step, once. If rank 0 knows the content in time, it
// writes the index while the other ranks write data, otherwise before the
// commit. Rank 0 only.
class IndexCreation {
 public:
  // Borrows all arguments. `graph` may be null.
  IndexCreation(const SaveFrame& frame, const ObjectGraph* graph,
                PreparedSave& save)
      : frame_(frame), graph_(graph), save_(save) {}

  // Assembles the part of a new index that does not depend on the data files,
  // while other ranks create those files. Rank 0 only.
  // Errors: those of DraftIndex and CompileArgs.
  Status Prepare();
  // Creates the index unless it exists. With `later`, the bytes of a reused
  // index are added there instead of being written. Rank 0 only.
  // Errors: those of Prepare and WriteWhole.
  Status Create(LaterWrites* later = nullptr);
  // Returns true if Create can and must be called before the data is written.
  bool IsDue() const;

 private:
  const SaveFrame& frame_;
  const ObjectGraph* graph_;
  PreparedSave& save_;
  std::optional<IndexImage> draft_;
  bool is_created_ = false;
};

// Returns true if all ranks that share a file must carry out this transfer
// together. Equal on all ranks of a save.
bool NeedsAllRanks(Transfer transfer, FileLayout layout);

// Result of writing on this rank.
struct WrittenData {
  Transfer transfer = Transfer::kCollective;  // equal on all ranks
  std::string transfer_note;
  std::vector<uint32_t> registers;  // of all blocks; empty: no checksums
  TransferCounters counters;        // of this rank
  StripeCounts stripes;
  std::vector<ConversionLosses> losses;  // per shard; empty: no conversions
  std::vector<std::string> warnings;     // about losses of all ranks
  Status status;  // of this rank, until VerifyData agrees on it

  // Resets checksums and losses to their initial values.
  void Reset(const SaveFrame& frame, const PreparedSave& save);
};

// The datasets of a file without filters, or those with filters. Datasets with
// filters are written separately, after the others.
enum class DatasetPart : uint8_t { kPlain, kFiltered };

// Returns the job of writing or reading back this rank's part of a file.
// Borrows all arguments.
WriteJob DataFileJob(const SaveFrame& frame, const PreparedSave& save,
                     const PlannedFile& file, DatasetPart part);

// Opens the data files of this rank to sync them, before any rank writes.
StatusOr<FilesToSync> OpenFilesToSync(const SaveFrame& frame,
                                      const RankPlan& plan);

// Writes all bytes into the data files. `progress` is that of SaveJob.
// Collective; agreed.
Agreed<WrittenData> WriteData(SaveFrame& frame, const PreparedSave& save,
                              const StepInProgress& step, IndexCreation& index,
                              const std::function<Status(int64_t)>& progress);

// --- verify ---

// If `any` is true, adds to `written` a warning for each key of which any rank
// has lost values. `any` must be equal on all ranks. Collective; agreed.
// Errors: those of TellLost, which set step.program_failed.
Agreed<> TellLostValues(SaveFrame& frame, const PreparedSave& save, bool any,
                        StepInProgress& step, WrittenData& written);

// Looks for wrong sizes and holes in the files, reads them back on request, and
// completes the checksums on rank 0. Collective; agreed.
// Errors: those of CheckWrittenFile, ReadBack and TellLostValues.
Agreed<> VerifyData(SaveFrame& frame, PreparedSave& save, StepInProgress& step,
                    WrittenData& written);

// --- commit ---

// Sets a step's index and checksums. Rank 0 only.
void CompleteStep(const SaveOptions& options, const RankPlan& plan,
                  const WrittenData& written, StepInProgress& step);

// Calls Finalize of a step's handlers. Rank 0 only.
// Errors: those of the handlers.
Status CallFinalizers(StepInProgress& step);

// Commits a step: writes the metadata and the rest of the index, calls
// before_commit, and renames the directory. Calls neither MPI nor HDF5. Rank 0
// only.
// Errors: those of the file system, of CommitStep and of functions of the
//   program.
Status CommitInPlace(StepInProgress& step);

// Creates the index if it does not exist yet, and commits. Collective; agreed.
// Errors: those of IndexCreation::Create and CommitInPlace.
Agreed<> CommitSave(SaveFrame& frame, const PreparedSave& save,
                    const WrittenData& written, IndexCreation& index,
                    StepInProgress& step);

// Ends a step, successful or not. Finds out whether another save has caused a
// failure, and removes leftovers on disk. Sets `at_files` as in SaveJob.
// Returns why the save failed. Collective; agreed.
Agreed<> EndStep(SaveFrame& frame, const StepInProgress& step, Agreed<> ended,
                 bool* at_files);

// --- report ---

// Makes the result for the caller, calls after_commit, and returns the plan to
// the cache. If combining the counters fails, the result has those of this
// rank. Collective.
SaveResult EndSave(SaveFrame& frame, bool reuse, RankPlan plan,
                   WrittenData& written, CachedPlan& cache);

// Runs all stages from reserve on. Collective; agreed.
// Errors: those of the stages.
Agreed<SaveResult> FinishSave(SaveFrame& frame, const SaveJob& job,
                              PreparedSave save, CachedPlan& cache);

}  // namespace belay

#endif  // BELAY_SAVE_SAVE_STAGES_H_
