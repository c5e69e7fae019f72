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
  int64_t time = std::time(nullptr);  // of the call, by the clock of this rank
  bool is_managed = false;  // by a manager, which has checked that all hosts
                            // see the parent directory

  static SaveTarget Of(const SaveJob& job) {
    return {.path = WithoutSlashes(job.path),
            .step = job.step,
            .is_managed = job.at_files != nullptr};
  }

  // The directory of the files until the commit.
  std::string Directory() const { return InProgressPath(path); }
  std::string IndexPath() const { return JoinPath(Directory(), IndexName()); }
  std::string DataPath(const PlannedFile& file) const {
    return JoinPath(Directory(), file.name);
  }
};

// Arguments of every stage; no stage's result is in it. Neither copied nor
// moved.
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

// The shards of this rank and its plan: all that is known before anything on
// disk changes.
struct PreparedSave {
  ListedShards listed;
  HandlerListing listing;  // handlers and memory that the shards borrow from
  std::vector<IdBlock> blocks;  // memory of shards with ids
  bool reuse = false;  // `plan` is that of the last save; equal on all ranks
  RankPlan plan;
};

// Lists the values, checks that arguments are valid and equal on all ranks, and
// makes the plan or takes that of the last save out of the cache, to which
// EndSave returns it. If listing fails, the cache keeps it. Collective; agreed.
// Errors: those of Save for arguments; those of handlers and of the planner.
Agreed<PreparedSave> PrepareSave(SaveFrame& frame, const SaveJob& job,
                                 CachedPlan& cache);

// The part of PrepareSave before the plan. Sets `reuse`, and then `plan` to
// that of the last save, else its fingerprint and forms. Collective; agreed.
Agreed<PreparedSave> ListSave(SaveFrame& frame, const SaveJob& job,
                              CachedPlan& cache);

// Finds the positions of rows in their arrays for a new plan. Adds on rank 0
// how many rows of each key each rank has. Collective; agreed.
// Errors: those of MergeRowCounts.
Agreed<> PlaceRowsTogether(SaveFrame& frame, PreparedSave& save,
                           std::vector<KeyRows>& keys);

// Moves shards that are rows to their positions, in each save. Collective;
// agreed.
// Errors: those of TakeIds, PackWindow, FillBlocks and CheckFilled.
Agreed<> TakePlaces(SaveFrame& frame, PreparedSave& save);

// Fails if replicas are not equal, for a new plan. Collective; agreed.
// Errors: those of NameDifferentReplicas.
Agreed<> CompareReplicas(SaveFrame& frame, const PreparedSave& save);

// Returns this rank's part of a sum over all ranks that is 0 if all replicas
// are equal, for a plan that is used again.
uint64_t SumReplicas(const SaveOptions& options, const RankPlan& plan,
                     const std::vector<Shard>& shards);

// Names the replicas that differ, after a sum has shown that some do: a sum of
// all values or, with a plan that is used again, of samples. Collective;
// agreed.
// Errors: InvalidArgument - ranks hold other values of the same box.
Agreed<> NameDifferentReplicas(SaveFrame& frame, const PreparedSave& save);

// Releases the shards once the values are no longer needed: to the plan, for
// the next save, if that need not list them anew.
void ReleaseShards(PreparedSave& save);

// --- reserve ---

// The step on disk: what rank 0 has done of it, which must be undone if the
// save fails, and what it needs for the commit. Any thread may make the commit.
struct StepInProgress {
  // Each phase includes the ones before.
  enum class Phase : uint8_t {
    kNone,      // a step of another save may stand in its place
    kBegun,     // no other step does
    kReserved,  // rank 0 has made the directory in progress
    kOwned,     // and taken it to commit it
    kCommitted,
  };

  explicit StepInProgress(const SaveFrame& frame)
      : target(frame.target),
        overwrite(frame.options.overwrite),
        durable(frame.options.durable),
        before_commit(frame.options.before_commit) {}

  // The commit calls functions of the program.
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
  bool program_failed = false;  // a function of the program, not a file system
  int64_t time = 0;             // for the index
  std::string metadata;         // as MetadataText; empty: none
  std::vector<TypeHandlerPtr> finalizers;
  // Set by CompleteStep.
  std::shared_ptr<const IndexImage> index;
  std::vector<uint32_t> checksums;  // one per block, or none
};

class IndexCreation;

// Makes the directory and all files with their metadata, completes a new plan,
// and prepares the index. With `later`, metadata of a reused plan is added
// there, not written. Collective; agreed.
// Errors: those of BeginStep, WaitForStep, AgreeOnSharedDirectory,
//   CreateSkeleton, FindFinalizers and IndexCreation::Prepare.
Agreed<> Reserve(SaveFrame& frame, PreparedSave& save, IndexCreation& index,
                 StepInProgress& step, LaterWrites* later = nullptr);

// Finds the handlers that take part in the commit. Rank 0 only.
// Errors: InvalidArgument - a rank has used one that rank 0 does not have.
Status FindFinalizers(const PreparedSave& save, StepInProgress& step);

// --- write ---

// Returns a function that is called when a file in the directory in progress
// was opened by its name. It fails if another save may have made the file.
std::function<Status()> OnceOpen(const StepInProgress& step);

// Writes the index of a step, once: while others write data if rank 0 knows its
// content by then, else before the commit. Rank 0 only.
class IndexCreation {
 public:
  // Borrows all of it; `graph` may be null.
  IndexCreation(const SaveFrame& frame, const ObjectGraph* graph,
                PreparedSave& save)
      : frame_(frame), graph_(graph), save_(save) {}

  // Assembles the part of a new index that does not depend on the data files,
  // while other ranks create these. Rank 0 only.
  // Errors: those of DraftIndex and CompileArgs.
  Status Prepare();
  // Creates the index unless it exists. With `later`, bytes of a reused index
  // are added there, not written. Rank 0 only.
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

// Returns true if all ranks of a file must carry out this transfer together.
// Equal on all ranks of a save.
bool NeedsAllRanks(Transfer transfer, FileLayout layout);

// Result of writing on this rank.
struct WrittenData {
  Transfer transfer = Transfer::kCollective;  // equal on all ranks
  std::string transfer_note;
  std::vector<uint32_t> registers;  // of all blocks; empty: no checksums
  TransferCounters counters;        // of this rank
  StripeCounts stripes;
  std::vector<ConversionLosses> losses;  // by shard; empty: none is converted
  std::vector<std::string> warnings;     // about losses of all ranks
  Status status;  // of this rank, until VerifyData agrees on it

  // Sets checksums and losses to none.
  void Reset(const SaveFrame& frame, const PreparedSave& save);
};

// The datasets of a file that have no filters, or those that have. The latter
// are written separately, after the others.
enum class DatasetPart : uint8_t { kPlain, kFiltered };

// Returns the job of writing or reading back this rank's part of a file.
// Borrows all arguments.
WriteJob DataFileJob(const SaveFrame& frame, const PreparedSave& save,
                     const PlannedFile& file, DatasetPart part);

// Opens the data files of this rank to sync them, before any rank writes.
StatusOr<FilesToSync> OpenFilesToSync(const SaveFrame& frame,
                                      const RankPlan& plan);

// Writes all bytes into the data files. `progress` as in SaveJob. Collective;
// agreed.
Agreed<WrittenData> WriteData(SaveFrame& frame, const PreparedSave& save,
                              const StepInProgress& step, IndexCreation& index,
                              const std::function<Status(int64_t)>& progress);

// --- verify ---

// Adds to `written` a warning for each key of which any rank has lost values,
// if `any` says so, which must be equal on all ranks. Collective; agreed.
// Errors: those of TellLost, which set step.program_failed.
Agreed<> TellLostValues(SaveFrame& frame, const PreparedSave& save, bool any,
                        StepInProgress& step, WrittenData& written);

// Looks for wrong sizes and holes in the files, reads them back on request, and
// completes the checksums on rank 0. Collective; agreed.
// Errors: those of CheckWrittenFile, ReadBack and TellLostValues.
Agreed<> VerifyData(SaveFrame& frame, PreparedSave& save, StepInProgress& step,
                    WrittenData& written);

// --- commit ---

// Gives a step its index and checksums. Rank 0 only.
void CompleteStep(const SaveOptions& options, const RankPlan& plan,
                  const WrittenData& written, StepInProgress& step);

// Calls Finalize of the handlers of a step. Rank 0 only.
// Errors: those of the handlers.
Status CallFinalizers(StepInProgress& step);

// Finishes the files of a step and gives it its name: the rest of the index,
// metadata, before_commit, rename. No MPI and no HDF5. Rank 0 only.
// Errors: those of the file system, of CommitStep and of functions of the
//   program.
Status CommitInPlace(StepInProgress& step);

// Creates the index if that was not done, and commits. Collective; agreed.
// Errors: those of IndexCreation::Create and CommitInPlace.
Agreed<> CommitSave(SaveFrame& frame, const PreparedSave& save,
                    const WrittenData& written, IndexCreation& index,
                    StepInProgress& step);

// Ends a step, successful or not: finds out whether another save has caused the
// failure, and removes what is left on disk. Sets `at_files` as in SaveJob.
// Returns why the save failed. Collective; agreed.
Agreed<> EndStep(SaveFrame& frame, const StepInProgress& step, Agreed<> ended,
                 bool* at_files);

// --- report ---

// Returns the result for the caller, calls after_commit, and returns the plan
// to the cache. Counters that cannot be combined stay those of this rank.
// Collective.
SaveResult EndSave(SaveFrame& frame, bool reuse, RankPlan plan,
                   WrittenData& written, CachedPlan& cache);

// All stages from reserve on. Collective; agreed.
// Errors: those of the stages.
Agreed<SaveResult> FinishSave(SaveFrame& frame, const SaveJob& job,
                              PreparedSave save, CachedPlan& cache);

}  // namespace belay

#endif  // BELAY_SAVE_SAVE_STAGES_H_
