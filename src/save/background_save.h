// A save in the background, from its snapshot to its commit.

#ifndef BELAY_SAVE_BACKGROUND_SAVE_H_
#define BELAY_SAVE_BACKGROUND_SAVE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "belay/async_saver.h"
#include "belay/save_restore.h"
#include "belay/status.h"
#include "core/agreed.h"
#include "core/threads.h"
#include "mpi/word_in_flight.h"
#include "plan/plan.h"
#include "save/background_votes.h"
#include "save/flush.h"
#include "save/node_progress.h"
#include "save/save.h"
#include "save/save_stages.h"
#include "save/snapshot.h"

namespace belay {

// What rank 0 does once all ranks have written.

// Owned by the thread while that works on it.
struct CommitWork {
  StepToFinish finish;
  std::vector<StoredFile> files;
  bool is_read_back = false;  // the files are good, whatever they look like
  bool has_holes = false;     // set: they have to be read back first
  StepInProgress step;
};

// Looks whether the files have the right size, and no holes unless they were
// read back; then finishes the files of the step and gives it its name. No MPI
// and no HDF5. Local; rank 0 does it.
// Errors: those of CheckWrittenFile, FinishFiles and NameStep.
Status CommitWithoutProgram(CommitWork& work);

// The same with the program's functions, in the thread of the program. Rank 0
// only.
// Errors: those above, of FinalizeHandlers and AskBeforeCommit.
Status CommitWithProgram(const SaveFrame& frame,
                         const std::vector<TypeHandlerPtr>& finalizers,
                         CommitWork& work);

// A save of which the last part is done in the background.
//
//   Begin: the stages of a save up to the first byte, then a snapshot
//   WaitForSnapshot: the end of one that the thread takes
//   Poll:  a vote of all ranks, one call old; what follows from it
//   Wait:  the same, until the save has ended

// A save from its snapshot to its end.
struct SaveUnderWay;

// Move only. One save at a time. Borrows the Comm.
class BackgroundSaver {
 public:
  // Is told, once, whether a save has succeeded that was begun.
  using OnEnd = std::function<void(bool ok)>;

  BackgroundSaver(const Comm& comm, const AsyncOptions& options);
  // Gives up what is under way, unless rank 0 has begun to commit it.
  ~BackgroundSaver();

  // As AsyncSaver::Save. `on_end` may be empty. Collective; agreed. Requires
  // that nothing is under way.
  Agreed<PendingSave> Begin(const SaveJob& job, const SaveOptions& options,
                            OnEnd on_end);

  // As in AsyncSaver. Collective; agreed.
  Agreed<> WaitForSnapshot();
  Agreed<std::optional<SaveResult>> Poll();
  Agreed<std::optional<SaveResult>> Wait();

  // The same before the next save. Gives up a save if the program has not
  // waited for its snapshot: it has changed values by now, or why save again?
  // Collective; agreed.
  // Errors: as for Wait; FailedPrecondition - it was given up.
  Agreed<std::optional<SaveResult>> WaitBeforeNext();

  // The same for a caller that has a word of its own under way: what this rank
  // says in it, and what follows from what all ranks have said. Only of the
  // same save. Take is collective, and agreed.
  Vote MyVote();
  Agreed<std::optional<SaveResult>> Take(const Vote& all);

  // Whether the last save that failed has failed on its way to the file system,
  // as of SaveJob. Rank 0's counts.
  bool failed_at_files() const { return failed_at_files_; }

  // Keeps a result that could not be returned, for the next Poll or Wait.
  void Keep(std::optional<SaveResult> result) { kept_ = std::move(result); }

  // Frees the snapshot's memory. Requires that nothing is under way.
  void FreeMemory() { memory_.reset(); }

  // Returns an error if what is under way cannot end without the program.
  // Errors: FailedPrecondition - says why.
  Status WhyLost() const;

  // From now on borrows nothing of the program: what is under way goes on
  // without it, or is given up if `lost` says why, and only FinishLeft may be
  // called.
  void Leave(const Status& lost);

  // Waits for a save that nobody has waited for, in MPI_Finalize. Collective,
  // without agreement. No longer than its deadline, which ends the job. Calls
  // no function of the program: it may be gone.
  // Errors: those of Wait and WhyLost.
  Status FinishLeft();

  bool is_pending() const { return under_way_ != nullptr; }
  // Whether the program still owes a WaitForSnapshot. The same on all ranks.
  bool is_snapshot_due() const;
  const Comm& comm() const { return *comm_; }
  // False once somebody has freed its communicator. Requires a save.
  bool is_comm_open() const { return *is_comm_open_; }
  bool is_root() const { return is_root_; }
  // Whether it is in the process that it was made in.
  bool is_own() const;
  // Of the save under way.
  const SaveTarget& target() const;

 private:
  Agreed<PendingSave> BeginFlush(const SaveFrame& frame, const SaveJob& job,
                                 PreparedSave prepared, CachedPlan& cache);
  // In background_snapshot.cc.
  Status PrepareSnapshot(const SaveFrame& frame, IndexCreation& index,
                         SaveUnderWay& save);
  Agreed<> FillSnapshot(const SaveFrame& frame, IndexCreation& index,
                        SaveUnderWay& save);
  void EndSnapshot(const SaveFrame& frame, SaveUnderWay& save);
  void StartFlush();
  // Takes in what the thread has done since.
  void TakeResult();
  // Does what a vote of all ranks asks for.
  void GoOn(const Vote& all);
  void BeginCommit();
  // Takes the vote that was begun last. Collective.
  Agreed<std::optional<SaveResult>> FinishVote();
  // Ends the save that all ranks have finished. Collective.
  Agreed<std::optional<SaveResult>> End(const Vote& all);
  Agreed<> StartVote();
  // Does what the thread would do, as long as there is something of it to take
  // and `goes_on`.
  void Help(absl::FunctionRef<bool()> goes_on);
  // The same while a vote is under way.
  // Errors: Internal - MPI's text.
  Status HelpUntilVoted();
  // Ends the job if the thread is stuck.
  void CheckStalled();

  const Comm* comm_;
  Comm alias_;  // of *comm_, from the first save on
  std::shared_ptr<bool> is_comm_open_;
  AsyncOptions options_;
  bool is_root_;     // known when the Comm may be gone
  int64_t process_;  // that the saver was made in
  PlanCache own_cache_;
  std::shared_ptr<SnapshotMemory> memory_;
  std::shared_ptr<NodeProgress> node_;
  int64_t number_ = 0;  // of the saves
  bool failed_at_files_ = false;
  std::optional<SaveResult> kept_;
  WorkerThread thread_;
  WordInFlight word_;
  std::unique_ptr<SaveUnderWay> under_way_;
};

}  // namespace belay

#endif  // BELAY_SAVE_BACKGROUND_SAVE_H_
