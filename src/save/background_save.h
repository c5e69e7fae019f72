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

// One word of each rank, merged into one of all.
struct Vote {
  FlushPhase phase = FlushPhase::kWriting;  // of all ranks: the least
  bool failed = false;                      // any rank
  bool wants_read_back = false;             // rank 0
  bool committed = false;                   // rank 0

  friend bool operator==(const Vote&, const Vote&) = default;
};

// A vote takes these bits of a word, from bit 0 on. Words merge by bitwise
// "or", so other bits may have other uses.
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
  // The cache of the program, which may be destroyed meanwhile.
  CachedPlan* cache = nullptr;
  std::weak_ptr<bool> cache_is_there;
  std::function<void(bool ok)> on_end;
  PreparedSave prepared;  // the shards only until values are copied
  WrittenData written;
  StageCosts costs;  // of the calls so far
  // The copying. With a lazy snapshot the thread does it, and does not use any
  // of this after it has set FlushProgress::has_copied.
  std::vector<WriteJob> copies;
  Snapshot snapshot;
  WriteCounts counts;
  // The thread copies or has copied, and the program has not waited for it yet.
  bool is_snapshot_due = false;
  // Shared with the thread. Only one of the two uses `step` at a time.
  std::shared_ptr<FlushJob> flush = std::make_shared<FlushJob>();
  std::shared_ptr<FlushProgress> progress = std::make_shared<FlushProgress>();
  std::shared_ptr<StepInProgress> step;
  // Work of the thread, and vote of this rank.
  ThreadWork thread_work = ThreadWork::kNone;
  Vote mine;
  Status status;
  Status refused;  // why all ranks give it up; equal on all ranks
  Status lost;     // why this rank gives it up, which others do not know
  StallWatch watch;

  // Waits until the thread no longer uses the values of the program.
  void WaitForCopy() const {
    if (is_snapshot_due) progress->has_copied.wait(false);
  }
};

// A save whose last part runs in the background.
//
//   Begin: the stages of a save up to the first byte, then a snapshot
//   WaitForSnapshot: the end of a snapshot that the thread takes
//   Poll:  a vote of all ranks, begun by the last call; and what follows from
//   it Wait:  the same, until the save has ended

// Move only. One save at a time. Borrows the Comm.
class BackgroundSaver {
 public:
  // Called once at the end of a save that was begun.
  using OnEnd = std::function<void(bool ok)>;

  BackgroundSaver(const Comm& comm, const AsyncOptions& options);
  // Gives up the save under way, unless rank 0 has begun to commit it.
  ~BackgroundSaver();

  // As AsyncSaver::Save. `on_end` may be empty. Collective; agreed. Requires
  // that no save is under way.
  Agreed<PendingSave> Begin(const SaveJob& job, const SaveOptions& options,
                            OnEnd on_end);

  // As in AsyncSaver. Collective; agreed.
  Agreed<> WaitForSnapshot();
  Agreed<std::optional<SaveResult>> Poll();
  Agreed<std::optional<SaveResult>> Wait();

  // Waits before the next save. Gives the save up if the program has not waited
  // for its snapshot: values have probably changed since. Collective; agreed.
  // Errors: as for Wait; FailedPrecondition - it was given up.
  Agreed<std::optional<SaveResult>> WaitBeforeNext();

  // The parts of Poll for a caller that exchanges a word of its own: this
  // rank's vote on the save under way, and what follows from the vote of all
  // ranks. Take is collective, and agreed.
  Vote MyVote();
  Agreed<std::optional<SaveResult>> Take(const Vote& all);

  // Returns SaveJob::at_files of the last save that failed. Only rank 0's
  // counts.
  bool failed_at_files() const { return failed_at_files_; }

  // Keeps a result that could not be returned, for the next Poll or Wait.
  void Keep(std::optional<SaveResult> result) { kept_ = std::move(result); }

  // Frees the snapshot's memory. Requires that nothing is under way.
  void FreeMemory() { memory_.reset(); }

  // Returns an error if what is under way cannot end without the program.
  // Errors: FailedPrecondition - says why.
  Status WhyLost() const;

  // From now on borrows nothing of the program: the save under way continues
  // without it, or is given up if `lost` is an error. Only FinishLeft may be
  // called then.
  void Leave(const Status& lost);

  // Waits in MPI_Finalize for a save that nobody has waited for. Collective,
  // without agreement. Its deadline ends the job. Calls no function of the
  // program, which may no longer exist.
  // Errors: those of Wait and WhyLost.
  Status FinishLeft();

  bool is_pending() const { return under_way_ != nullptr; }
  // Returns true until WaitForSnapshot was called. Equal on all ranks.
  bool is_snapshot_due() const;
  const Comm& comm() const { return *comm_; }
  // False once somebody has freed its communicator. Requires a save.
  bool is_comm_open() const { return *is_comm_open_; }
  bool is_root() const { return is_root_; }
  // Returns false in a child process of the one that made it.
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
  // Takes note of what the thread has finished since.
  void TakeResult();
  // Begins what a vote of all ranks asks for.
  void StartNext(const Vote& all);
  // Rank 0 only.
  void BeginCommit(bool is_read_back);
  // Takes the vote that was begun last. Collective.
  Agreed<std::optional<SaveResult>> FinishVote();
  // Ends the save that all ranks have finished. Collective.
  Agreed<std::optional<SaveResult>> End(const Vote& all);
  Agreed<> StartVote();
  // Writes pieces in place of the thread while there are any and `goes_on`.
  void Help(absl::FunctionRef<bool()> goes_on);
  // Helps until a vote has ended.
  // Errors: Internal - MPI's text.
  Status HelpUntilVoted();
  // Ends the job if the thread is stuck.
  void CheckStalled();

  const Comm* comm_;
  Comm alias_;  // of *comm_, from the first save on
  std::shared_ptr<bool> is_comm_open_;
  AsyncOptions options_;
  bool is_root_;     // for when the Comm no longer exists
  int64_t process_;  // that made the saver
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

// Saves in the background that nobody has waited for when their saver or the
// program ends. MPI_Finalize finishes them, so that the program does not lose
// its newest step. If one cannot be finished, the job ends with an error.

// Registers a saver with MPI_Finalize when it begins its first save. The result
// becomes false when its communicator is freed.
std::shared_ptr<bool> RegisterSaver(BackgroundSaver& saver);

// Undoes RegisterSaver.
void ForgetSaver(const BackgroundSaver& saver);

// Ends ownership of a saver. One with a save under way is kept until
// MPI_Finalize, where all ranks finish it; any other is destroyed. Null does
// nothing.
void LetGo(std::unique_ptr<BackgroundSaver> saver);

// A deleter that calls LetGo.
struct LetSaverGo {
  void operator()(BackgroundSaver* saver) const {
    LetGo(std::unique_ptr<BackgroundSaver>(saver));
  }
};

// Another save of these ranks begins in this run: gives up those of the same
// ranks and run that were kept, so that memory does not grow.
void GiveUpLeftSaves(const Comm& comm, const std::string& run);

}  // namespace belay

#endif  // BELAY_SAVE_BACKGROUND_SAVE_H_
