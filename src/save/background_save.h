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
#include "save/flush.h"
#include "save/node_progress.h"
#include "save/save.h"
#include "save/save_stages.h"
#include "save/snapshot.h"

namespace belay {

// Progress of a rank.
enum class FlushPhase : uint8_t {
  kWriting = 0,
  kWritten = 1,   // and synced, if durable
  kReadBack = 2,  // and compared
};

// The vote of one rank, or the merged votes of all ranks.
struct Vote {
  FlushPhase phase = FlushPhase::kWriting;  // merged: the earliest
  bool failed = false;                      // any rank
  bool wants_read_back = false;             // rank 0
  bool committed = false;                   // rank 0

  friend bool operator==(const Vote&, const Vote&) = default;
};

// A vote takes this many bits of a word, starting at bit 0. Words are merged by
// bitwise "or", so the other bits are free for other uses.
inline constexpr int kVoteBits = 5;

uint64_t ToWord(const Vote& vote);
Vote FromWord(uint64_t word);

// A save from its snapshot to its end.
struct SaveUnderWay {
  enum class ThreadWork : uint8_t {
    kNone,
    kWriting,
    kReadingBack,
    kCommitting
  };

  SaveTarget target;
  SaveOptions options;  // `cache` is set, but may have expired
  // The program's cache, which the program may destroy during the save.
  CachedPlan* cache = nullptr;
  std::weak_ptr<bool> cache_is_there;
  std::function<void(bool ok)> on_end;
  PreparedSave prepared;  // has shards only until values are copied
  WrittenData written;
  StageCosts costs;  // of the calls so far
  // The state of copying. With a lazy snapshot the thread copies, and uses none
  // of these members after it has set FlushProgress::has_copied.
  std::vector<WriteJob> copies;
  Snapshot snapshot;
  WriteCounts counts;
  // True if the thread takes the snapshot and the program has not waited for it
  // yet.
  bool is_snapshot_due = false;
  // Shared with the thread. Only one of the two uses `step` at a time.
  std::shared_ptr<FlushJob> flush = std::make_shared<FlushJob>();
  std::shared_ptr<FlushProgress> progress = std::make_shared<FlushProgress>();
  std::shared_ptr<StepInProgress> step;
  // The thread's work, and this rank's vote.
  ThreadWork thread_work = ThreadWork::kNone;
  Vote mine;
  Status status;
  Status refused;  // why all ranks give up; equal on all ranks
  Status lost;     // why this rank gives up; others do not know
  StallWatch watch;

  // Waits until the thread no longer uses the program's values.
  void WaitForCopy() const {
    if (is_snapshot_due) progress->has_copied.wait(false);
  }
};

// A save whose last part runs in the background.
//
//   Begin: runs the stages of a save before the first write, and takes or
//     starts the snapshot
//   WaitForSnapshot: waits for a snapshot that the thread takes
//   Poll: finishes the vote of all ranks that the last call began, acts on it,
//     and begins the next vote
//   Wait: does the same until the save has ended
//
// Move only. One save at a time. Borrows the Comm.
class BackgroundSaver {
 public:
  // Called once, at the end of each save that was begun.
  using OnEnd = std::function<void(bool ok)>;

  BackgroundSaver(const Comm& comm, const AsyncOptions& options);
  // Gives up the save under way. If rank 0 has begun to commit it, waits for
  // the commit.
  ~BackgroundSaver();

  // As AsyncSaver::Save. `on_end` may be empty. Collective; agreed. Requires
  // that no save is under way.
  Agreed<PendingSave> Begin(const SaveJob& job, const SaveOptions& options,
                            OnEnd on_end);

  // As in AsyncSaver. Collective; agreed.
  Agreed<> WaitForSnapshot();
  Agreed<std::optional<SaveResult>> Poll();
  Agreed<std::optional<SaveResult>> Wait();

  // Waits for the save under way before the next one begins. Gives it up if the
  // program has not waited for its snapshot, because its values have probably
  // changed. Collective; agreed.
  // Errors: as for Wait; FailedPrecondition - the save was given up.
  Agreed<std::optional<SaveResult>> WaitBeforeNext();

  // The two halves of Poll, for a caller that sends the vote in its own
  // messages. MyVote returns this rank's vote on the save under way; Take acts
  // on the merged votes of all ranks. Take is collective, and agreed.
  Vote MyVote();
  Agreed<std::optional<SaveResult>> Take(const Vote& all);

  // Returns SaveJob::at_files of the last save that ended in the background.
  // Meaningful on rank 0 only.
  bool failed_at_files() const { return failed_at_files_; }

  // Keeps a result that could not be returned, for the next Poll or Wait.
  void Keep(std::optional<SaveResult> result) { kept_ = std::move(result); }

  // Frees the snapshot's memory. Requires that no save is under way.
  void FreeMemory() { memory_.reset(); }

  // Returns an error if the save under way cannot end without the program.
  // Errors: FailedPrecondition - the message says why.
  Status WhyLost() const;

  // Stops borrowing from the program: the save under way continues without it,
  // or is given up if `lost` is an error. Afterwards only FinishLeft may be
  // called.
  void Leave(const Status& lost);

  // Waits in MPI_Finalize for a save that nobody has waited for. Collective,
  // without agreement. Ends the job if the deadline passes. Calls no functions
  // of the program, because they may no longer exist.
  // Errors: those of Wait and WhyLost.
  Status FinishLeft();

  bool is_pending() const { return under_way_ != nullptr; }
  // Returns true if the thread takes the snapshot and WaitForSnapshot has not
  // been called. Equal on all ranks.
  bool is_snapshot_due() const;
  const Comm& comm() const { return *comm_; }
  // Returns false once its communicator has been freed. Requires that a save
  // was begun in the background.
  bool is_comm_open() const { return *is_comm_open_; }
  bool is_root() const { return is_root_; }
  // Returns false in a child process of the process that made the saver.
  bool is_own() const;
  // Requires a save under way.
  const SaveTarget& target() const;

 private:
  Agreed<PendingSave> BeginFlush(SaveFrame& frame, const SaveJob& job,
                                 PreparedSave prepared, CachedPlan& cache);
  Status PrepareSnapshot(const SaveFrame& frame, IndexCreation& index,
                         SaveUnderWay& save);
  Agreed<> FillSnapshot(SaveFrame& frame, IndexCreation& index,
                        SaveUnderWay& save);
  void EndSnapshot(SaveUnderWay& save);
  void StartFlush();
  // Records what the thread has finished since the last call.
  void TakeResult();
  // Begins the thread's next work if the merged votes ask for any.
  void StartNext(const Vote& all);
  // Rank 0 only.
  void BeginCommit(bool is_read_back);
  // Finishes the vote under way and acts on its result. Collective.
  Agreed<std::optional<SaveResult>> FinishVote();
  // Ends the save that all ranks have finished. Collective.
  Agreed<std::optional<SaveResult>> End(const Vote& all);
  Agreed<> StartVote();
  // Writes pieces in place of the thread while there are any and `goes_on`
  // returns true.
  void Help(absl::FunctionRef<bool()> goes_on);
  // Helps the thread until the vote under way has ended.
  // Errors: Internal - MPI's text.
  Status HelpUntilVoted();
  // Ends the job if the thread is stuck.
  void CheckStalled();

  const Comm* comm_;
  Comm alias_;  // of *comm_; set by the first save
  std::shared_ptr<bool> is_comm_open_;
  AsyncOptions options_;
  bool is_root_;     // kept in case the Comm no longer exists
  int64_t process_;  // id of the process that made the saver
  PlanCache own_cache_;
  std::shared_ptr<SnapshotMemory> memory_;
  std::shared_ptr<NodeProgress> node_;
  int64_t number_ = 0;  // of the last save
  bool failed_at_files_ = false;
  std::optional<SaveResult> kept_;
  WorkerThread thread_;
  WordInFlight word_;
  std::unique_ptr<SaveUnderWay> under_way_;
};

// Background saves that nobody has waited for when their saver or the program
// ends. MPI_Finalize finishes them, so that the program does not lose its
// newest step. If a save cannot be finished, the job ends with an error.

// Registers a saver to be finished in MPI_Finalize. Called at its first save.
// The returned flag becomes false when the saver's communicator is freed.
std::shared_ptr<bool> RegisterSaver(BackgroundSaver& saver);

// Undoes RegisterSaver.
void ForgetSaver(const BackgroundSaver& saver);

// Takes over a saver that its owner no longer needs. A saver with a save under
// way is kept until MPI_Finalize, where all ranks finish the save; any other
// saver is destroyed. Does nothing if `saver` is null.
void LetGo(std::unique_ptr<BackgroundSaver> saver);

// A deleter that calls LetGo.
struct LetSaverGo {
  void operator()(BackgroundSaver* saver) const {
    LetGo(std::unique_ptr<BackgroundSaver>(saver));
  }
};

// Gives up the kept saves of the same ranks and run, so that memory does not
// grow. Called when these ranks begin another save in this run.
void GiveUpLeftSaves(const Comm& comm, const std::string& run);

}  // namespace belay

#endif  // BELAY_SAVE_BACKGROUND_SAVE_H_
