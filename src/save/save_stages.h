// The stages of a save, and what each takes and makes.

#ifndef BELAY_SAVE_SAVE_STAGES_H_
#define BELAY_SAVE_SAVE_STAGES_H_

#include <cstdint>
#include <ctime>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "belay/save_restore.h"
#include "core/agreed.h"
#include "core/element_conversion.h"
#include "format/paths.h"
#include "graph/object_graph.h"
#include "mpi/collective.h"
#include "pipeline/stages.h"
#include "save/planned_save.h"
#include "save/save.h"
#include "save/save_list.h"
#include "state/rank_rows.h"
#include "state/type_handlers.h"
#include "state/value_listing.h"
#include "storage/files_to_sync.h"
#include "storage/index_file.h"
#include "storage/striping.h"

namespace belay {

// Where a save writes.

struct SaveTarget {
  std::string path;  // of the committed directory
  int64_t step = 0;
  // When the program asked for it, by the clock of this rank.
  int64_t time = std::time(nullptr);
  bool is_managed = false;  // by a manager, which has seen all hosts before

  // Where the files are until the commit.
  std::string Directory() const { return InProgressPath(path); }
  std::string IndexPath() const { return JoinPath(Directory(), IndexName()); }
  std::string DataPath(const PlannedFile& file) const {
    return JoinPath(Directory(), file.name);
  }
};

// The stages of a save, in the order in which save.cc calls them: what each
// takes, and what it makes.

// What every stage knows; none of it is a result of a stage.
struct SaveFrame {
  CommContext& context;
  Stages& stages;
  const SaveTarget& target;
  const SaveOptions& options;
};

// --- list ---

// What this rank saves.
struct ListedSave {
  HandlerListing listing;  // `shards` are its own, and borrow from it
  std::vector<Shard> shards;
  // By shard, as of FindOnAllRanks; empty where nobody asks.
  std::vector<bool> on_all_ranks;
  // Whether and how `shards` are kept for the next save.
  ListingOrigin origin;
  std::optional<std::vector<MovingShard>> moving;
  // As of ReusablePlan; empty where the last plan has this fingerprint.
  std::vector<StoredForm> forms;
  uint64_t fingerprint = 0;  // of the structure
  // Equal on all ranks: the plan of the cache holds; and replicas are not
  // equal, as far as such a plan can tell.
  bool reuse = false;
  bool replicas_differ = false;
};

// Lists the values, checks that arguments are sound and equal, and finds out
// whether all ranks can use the plan of their last save. Takes what that has
// kept, if the State is the same. Collective; agreed.
// Errors: those of Save for arguments; those of handlers.
Agreed<ListedSave> ListSave(const SaveFrame& frame, const SaveJob& job,
                            std::optional<ReusablePlan>& last);

// Keeps what was listed with the plan, once the values are no longer needed.
void KeepListing(ListedSave&& listed, ReusablePlan& plan);

// --- plan ---

// Finds where the shards that are rows stand in their arrays, for a plan that
// is new. Adds on rank 0 how many rows of each key each rank has. Collective;
// agreed.
// Errors: those of MergeRowCounts.
Agreed<> PlaceRowsTogether(const SaveFrame& frame,
                           const std::vector<Shard>& shards, ReusablePlan& plan,
                           std::vector<KeyRows>& keys);

// Lets shards that are rows stand at their places, in each save. Returns the
// memory that shards with ids then borrow. Collective; agreed.
// Errors: those of TakeIds, PackWindow, FillBlocks and CheckFilled.
Agreed<std::vector<IdBlock>> TakePlaces(const SaveFrame& frame,
                                        ReusablePlan& plan,
                                        std::vector<Shard>& shards);

// --- compare ---

// Fails if replicas are not equal, for a plan that is new. Collective; agreed.
// Errors: those of NameDifferentReplicas.
Agreed<> CompareReplicas(const SaveFrame& frame, const ReplicaCheck& replicas,
                         const std::vector<Shard>& shards);

// Returns what this rank adds to the sum that is 0 if all replicas are equal,
// of a plan that is used again.
uint64_t SumReplicas(const SaveOptions& options, const ReusablePlan& plan,
                     const std::vector<Shard>& shards);

// Says which replicas are not equal, when a sum has told that some are not, of
// all values or, with a plan that is used again, of samples. Collective;
// agreed. Errors: InvalidArgument - ranks hold other values of the same box.
Agreed<> NameDifferentReplicas(const SaveFrame& frame,
                               const ReplicaCheck& replicas,
                               const std::vector<Shard>& shards,
                               bool is_reused);

// What a save knows before it changes anything on disk.
struct PreparedSave {
  ListedSave listed;
  ReusablePlan plan;
  std::vector<IdBlock> blocks;  // memory of shards with ids
};

// The stages so far. Takes the plan out of the cache, for the end of the save
// to put back. Collective; agreed.
// Errors: those of the stages.
Agreed<PreparedSave> PrepareSave(const SaveFrame& frame, const SaveJob& job,
                                 CachedPlan& cache);

// --- reserve ---

// What rank 0 has done on disk, and who is to blame if the save fails: what is
// left has to be removed whatever happens. Rank 0 only, but for the nonce.
struct StepInProgress {
  uint64_t nonce = 0;          // equal on all ranks once it is reserved
  bool began = false;          // nobody else's step stands in its place
  bool has_directory = false;  // it has made the one in progress
  bool is_owner = false;       // it has taken that directory, to commit it
  bool committed = false;
  bool program_failed = false;  // a handler or a callback, not a file system
};

// What the end of the save needs of its beginning.
struct ReservedSave {
  uint64_t nonce = 0;    // of the directory in progress; equal on all ranks
  std::string metadata;  // as MetadataText; empty: none
  int64_t time = 0;      // that the index says; rank 0 only
  std::vector<TypeHandlerPtr> finalizers;  // rank 0 only
};

class IndexCreation;

// Makes the directory, with all files and their metadata, and completes a plan
// that is new; prepares the index meanwhile. With `later`, metadata of a plan
// that is used again is not written, but added there. Collective; agreed.
// Errors: those of BeginStep, WaitForStep, AgreeOnSharedDirectory,
//   CreateSkeleton, FindFinalizers and IndexCreation::Prepare.
Agreed<ReservedSave> Reserve(const SaveFrame& frame, const ListedSave& listed,
                             ReusablePlan& plan, IndexCreation& index,
                             StepInProgress& step,
                             LaterWrites* later = nullptr);

// Finds the handlers that are to finish this save, before anything is written.
// Rank 0 only.
// Errors: InvalidArgument - a rank has used one that rank 0 does not have.
StatusOr<std::vector<TypeHandlerPtr>> FindFinalizers(const SaveTarget& target,
                                                     const ListedSave& listed,
                                                     const StoredValues& values,
                                                     StepInProgress& step);

// --- write ---

// What is called once a file in the directory in progress is open by its name:
// fails if the file may be that of another save of this step.
std::function<Status()> OnceOpen(const SaveTarget& target, uint64_t nonce);

// Makes the index of a step, once: while others write, if rank 0 knows by then
// what it says, else before the commit. Rank 0 only.
class IndexCreation {
 public:
  // Borrows all of it; `graph` may be null.
  IndexCreation(const SaveFrame& frame, const ObjectGraph* graph, bool reuse,
                ReusablePlan& plan)
      : frame_(frame), graph_(graph), reuse_(reuse), plan_(plan) {}

  // Puts together what does not depend on the data files, if it is a new one:
  // for the time in which other ranks create these. Rank 0 only.
  // Errors: those of DraftIndex and CompileArgs.
  Status Prepare();
  // Creates it, unless that was done. With `later`, bytes that are known
  // already are not written, but added there. Rank 0 only.
  // Errors: those of Prepare and WriteNewIndex.
  Status Create(LaterWrites* later = nullptr);
  // Whether Create can and need be called before the data is written.
  bool IsDue() const;

 private:
  const SaveFrame& frame_;
  const ObjectGraph* graph_;
  bool reuse_;
  ReusablePlan& plan_;
  std::optional<IndexDraft> draft_;
  bool is_created_ = false;
};

// Whether this transfer has to be carried out by all ranks of a file together.
// Equal on all ranks of a save.
bool NeedsAllRanks(Transfer transfer, FileLayout layout);

// What this rank has written.
struct WrittenData {
  Transfer transfer = Transfer::kCollective;  // equal on all ranks
  std::string transfer_note;
  std::vector<uint32_t> registers;  // of all blocks; empty: no checksums
  TransferCounters counters;        // of this rank
  StripeCounts stripes;
  std::vector<ConversionLosses> losses;  // by shard; empty: none is converted
  std::vector<std::string> warnings;     // of those of all ranks
  Status status;  // of this rank, to be agreed on by CheckData
};

// What `written` counts of conversions, set to none.
void ResetLosses(const std::vector<Shard>& shards, const ReusablePlan& plan,
                 WrittenData& written);

// Adds to `written` a warning for each key of which any rank has lost values.
// `any` says whether any rank has. Collective; agreed. Same on all ranks: any.
// Errors: those of TellLost, which set step.program_failed.
Agreed<> TellLostValues(const SaveFrame& frame,
                        const std::vector<Shard>& shards,
                        const ReusablePlan& plan, bool any,
                        StepInProgress& step, WrittenData& written);

// Writes all bytes into the data files. `progress` as of SaveJob. Collective;
// agreed.
Agreed<WrittenData> WriteData(const SaveFrame& frame,
                              const ReservedSave& reserved,
                              const std::vector<Shard>& shards,
                              const ReusablePlan& plan, IndexCreation& index,
                              const std::function<Status(int64_t)>& progress);

// --- verify ---

// Looks for wrong sizes and holes in what was written, reads it back on request
// and completes the checksums on rank 0. Collective; agreed.
// Errors: those of CheckWrittenFile, ReadBack and TellLostValues.
Agreed<> VerifyData(const SaveFrame& frame, const std::vector<Shard>& shards,
                    ReusablePlan& plan, StepInProgress& step,
                    WrittenData& written);

// --- commit ---

// What rank 0 does to a step whose data is in place: a plain value, so that any
// thread can do it.
struct StepToFinish {
  SaveTarget target;
  uint64_t nonce = 0;  // of the directory in progress
  bool overwrite = false;
  bool durable = true;
  int64_t time = 0;
  std::string metadata;  // as MetadataText; empty: none
  std::shared_ptr<const IndexImage> index;
  std::vector<uint32_t> checksums;  // one per block, or none
};

// Returns the rest of a save after its index was created. Rank 0 only.
StepToFinish FinishOf(const SaveFrame& frame, const ReservedSave& reserved,
                      const WrittenData& written, const ReusablePlan& plan);

// Lets handlers finish; all bytes are in place. Rank 0 only.
// Errors: what a handler returned or threw.
Status FinalizeHandlers(const SaveTarget& target,
                        const std::vector<TypeHandlerPtr>& finalizers,
                        StepInProgress& step);

// Writes what the index lacks, and the metadata. Local; rank 0 does it.
// Errors: those of the file system.
Status FinishFiles(const StepToFinish& finish);

// Asks the program, if it wants to be asked before the commit. Rank 0 only.
// Errors: what it returned or threw.
Status AskBeforeCommit(const SaveFrame& frame, StepInProgress& step);

// Gives the step its name. Local; rank 0 does it.
// Errors: those of CommitStep.
Status NameStep(const StepToFinish& finish, StepInProgress& step);

// All of that. Collective; agreed.
// Errors: those of handlers and of before_commit; those of the file system.
Agreed<> CommitSave(const SaveFrame& frame, const ReservedSave& reserved,
                    const WrittenData& written, ReusablePlan& plan,
                    IndexCreation& index, StepInProgress& step);

// Returns why a save failed: another save may have taken its directory over,
// and then what ranks noticed may be anything. Collective.
Agreed<> ReasonOf(const SaveFrame& frame, const StepInProgress& step,
                  const Status& failure);

// Removes what is left of a save that ended with `status`. Local; rank 0 does
// it.
void CleanUp(const SaveFrame& frame, const StepInProgress& step,
             const Status& status);

// What ends a step, whatever came of it: both of these. Sets `at_files` as of
// SaveJob. Returns why it failed. Collective; agreed.
Agreed<> EndStep(const SaveFrame& frame, const StepInProgress& step,
                 Agreed<> ended, bool* at_files);

// --- report ---

// Returns what the caller gets to see, and tells the program of the commit.
// Counters that cannot be combined stay those of this rank. Collective.
SaveResult Report(const SaveFrame& frame, bool reuse,
                  const PlannedSave& planned, WrittenData& written);

// The same, and keeps the plan for the next save. Collective.
SaveResult EndSave(const SaveFrame& frame, bool reuse, ReusablePlan plan,
                   WrittenData& written, CachedPlan& cache);

// All stages from reserve on. Collective; agreed.
// Errors: those of the stages.
Agreed<SaveResult> FinishSave(const SaveFrame& frame, const SaveJob& job,
                              PreparedSave prepared, CachedPlan& cache);

}  // namespace belay

#endif  // BELAY_SAVE_SAVE_STAGES_H_
