// Numbers the checkpoints of a run, decides which to save and to keep, and
// finds one that can be restored.
//
//   auto manager = CheckpointManager::Create(checkpoint, "run",
//                                            {.max_to_keep = 3});
//   auto restored = manager->RestoreOrInitialize();
//   for (; step < steps; ++step) {
//     Train();
//     auto saved = manager->Save(step);
//     if (!saved.ok()) return saved.status();
//   }
//
// CheckpointManager::Create(comm, state, "run", options) does the same for the
// values of a State, without objects.
//
// (TensorFlow's and Orbax's CheckpointManager in one. Where they contradict
// each other: docs/manager.md.)

#ifndef BELAY_CHECKPOINT_MANAGER_H_
#define BELAY_CHECKPOINT_MANAGER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "belay/checkpoint.h"
#include "belay/comm.h"
#include "belay/load_status.h"
#include "belay/manager_options.h"
#include "belay/options.h"
#include "belay/retention_policy.h"
#include "belay/state.h"
#include "belay/status.h"
#include "belay/stop_reason.h"

namespace belay {

struct ManagedSaveOptions {
  // What the step is to be judged by. Only those of rank 0 count.
  std::optional<Metrics> metrics = std::nullopt;
  // Save whatever the rules say, also a step before the latest one.
  bool force = false;
  // Whether a failure is tolerated as ManagerOptions::tolerated_failures says.
  // Unset: that of a forced save is not, because no rule would try it again,
  // and that of any other is.
  std::optional<bool> tolerate_failure = std::nullopt;
  // Added to ManagerOptions::metadata for this step, and stronger. Only that of
  // rank 0 counts.
  Metadata metadata = {};
  // Instead of ManagerOptions::save, for this step. Same on all ranks but for
  // what only rank 0 needs.
  std::optional<SaveOptions> save = std::nullopt;
};

// What Save did; equal on all ranks.
struct ManagedSave {
  bool saved = false;
  std::string reason;              // why not
  SaveResult result;               // if so
  std::vector<int64_t> deleted;    // steps, ascending
  std::vector<std::string> notes;  // what went wrong after the commit
  // Set if the rules or the caller asked for this save, but it failed and that
  // is tolerated: Unavailable, ResourceExhausted, Internal, or NotFound of what
  // a node no longer sees.
  std::optional<Status> failure;

  // Returns what was saved, or why nothing was, what was deleted and the notes,
  // as text of one line for each. Local.
  std::string ToString() const;
};

// A step that could not be restored.
struct SkippedStep {
  int64_t step = 0;
  Status status;
};

// What Restore did; equal on all ranks.
struct ManagedRestore {
  std::optional<int64_t> step;  // unset: there was none
  // Of the objects of a Checkpoint.
  LoadStatus load_status = LoadStatus::InitializationOnly();
  // Of a State.
  std::optional<RestoreResult> result = std::nullopt;
  std::vector<SkippedStep> skipped;  // newer ones, the newest first
  // What has become of newer steps where ManagerOptions::newer_steps says so;
  // ascending. `aside` is the directory of those that were set aside.
  std::vector<int64_t> set_aside;
  std::vector<int64_t> deleted;
  std::string aside;

  // Returns which step it was, why not a newer one and what has become of
  // those, as text of one line for each. Local.
  std::string ToString() const;
};

// Move only. Borrows the Checkpoint or the State, the communicator and
// step_counter.
//
// One manager that writes may be at work in a directory, for each prefix, in
// this job or any other; read-only ones may be as many as one likes.
//
// Errors of all functions: FailedPrecondition - the manager or its Checkpoint
// was moved from. What returns no status is empty then.
class CheckpointManager {
 public:
  // Begins: takes the lease, reads what the last manager wrote, and removes
  // what crashed jobs left. Collective. Makes `dir` if its parent exists; for
  // one that only reads, no directory is an empty one. Variables of rank 0's
  // environment, such as BELAY_DIR and BELAY_INTERVAL, take the place of dir
  // and options (docs/manager.md). Same on all ranks: dir, options. Errors:
  // InvalidArgument - options that contradict each other, are out of
  //   range, or differ between ranks, those of saves among them, a variable
  //   that cannot be parsed, or `dir` is a file; FailedPrecondition - another
  //   manager holds the lease (says who), or a file of that name is of another
  //   program; DataLoss - the state is damaged; Unimplemented - written by a
  //   newer belay; those of the file system.
  static StatusOr<CheckpointManager> Create(Checkpoint& checkpoint,
                                            const std::string& dir,
                                            const ManagerOptions& options = {});

  // The same for the values of a State, which has to outlive the manager. A
  // value that is added to it belongs to the next save. Without a number, Save
  // takes the one after the step that was saved or restored last, or after the
  // latest step. Collective. Same on all ranks: dir, options.
  static StatusOr<CheckpointManager> Create(const Comm& comm,
                                            const State& state,
                                            const std::string& dir,
                                            const ManagerOptions& options = {});
  // Not of a State that is gone with the call. Local.
  static StatusOr<CheckpointManager> Create(
      const Comm& comm, State&& state, const std::string& dir,
      const ManagerOptions& options = {}) = delete;

  CheckpointManager(CheckpointManager&&) noexcept;
  CheckpointManager& operator=(CheckpointManager&&) noexcept;
  // Gives the lease back. Never communicates.
  ~CheckpointManager();

  // Returns whether to call Save now, equal on all ranks: the rules ask for it,
  // or the job is to stop and this is its last save. Collective. Call it in
  // each step. Same on all ranks: step, *step_counter.
  // It also tells the other ranks of signals, and rank 0 tells of the time: as
  // of the call before, in one reduction of eight bytes that this call
  // completes before it begins the next one, so that no step waits for it. Only
  // with should_save the answer of rank 0 for this step is waited for.
  // Errors, told to all ranks, those of this call by the next one: those of
  //   Save for the step; InvalidArgument - ranks passed different steps;
  //   Internal - the clock or should_save threw.
  // Cost: one nonblocking all-reduce of 8 bytes; none once the job is to stop.
  StatusOr<bool> ShouldSave(std::optional<int64_t> step = std::nullopt);

  // Returns why the job is to stop, if it is, as the ranks have agreed in
  // ShouldSave or Save. Local. Equal on all ranks, and stays. Call it after
  // Save; then end the program with kStoppedExitCode.
  std::optional<StopReason> ShouldStop() const;

  // Saves a step if the rules ask for it, and deletes those that need not be
  // kept any more. Collective. Without a number: the one after the save counter
  // or, if that is larger, after the latest step. Same on all ranks: step,
  // force, *step_counter.
  // Once the job is to stop, the first call saves whatever the rules say, but
  // for a step that is not after the latest one; if earlier saves took longer
  // than the time that is left before the time limit, it does not, and notes()
  // says so. One that saves looks again which steps there are. After an error,
  // also one that is tolerated, nothing has changed, and the step can be saved
  // again. What goes wrong after the commit is no error but a note of the
  // result, and so are metrics without best_metric.
  // Errors: those of Checkpoint::SaveAs or, of a State, belay::Save;
  //   InvalidArgument - a negative step, or ranks disagree; AlreadyExists -
  //   forced, and the step can be restored; FailedPrecondition - forced, and
  //   the manager is read-only; or a step was restored by its number, and this
  //   one, forced or not, lies among newer ones; or after a failure, another
  //   manager has taken the lease meanwhile.
  // Cost, if nothing is saved: three small collectives.
  StatusOr<ManagedSave> Save(std::optional<int64_t> step = std::nullopt,
                             const ManagedSaveOptions& options = {});

  // Restores a step, or the newest one that can be. Collective. Same on all
  // ranks: step, options.
  // With a number: a program that goes on from there gives newer steps up. Then
  // ManagerOptions::newer_steps says what becomes of them. Unless that is
  // kRefuse, they are out of the way when this returns, nobody takes them for
  // the latest, and they count for no rule.
  // Without a number: a step whose index or data files are damaged, missing or
  // of a newer format is passed over, and the one before is tried; the next
  // save may take the number of one that was passed over. Where a checksum told
  // so only while reading, values that the older step does not have are
  // unspecified. Nothing to restore is no error where there is no step at all.
  // Errors: those of Checkpoint::Restore or, of a State, belay::Restore:
  // NotFound
  //   - a value is not stored, names it and the closest that is;
  //   FailedPrecondition - of objects, less matches
  //   than ManagerOptions::restore_match asks for, names what does not and what
  //   is stored instead: what did match is restored; InvalidArgument - a
  //   negative step;
  //   NotFound - no such step, says which there are; DataLoss - no step can be
  //   restored; names each and its cause; those of the file system, if newer
  //   steps could not be moved or deleted: the step is restored, and the next
  //   save or manager tries that again.
  StatusOr<ManagedRestore> Restore(std::optional<int64_t> step = std::nullopt,
                                   const RestoreOptions& options = {});

  // As Restore without a number; where there is no step at all, calls init_fn
  // on all ranks. Collective. Same on all ranks: options.
  // Errors: those of Restore and, of any rank, of init_fn.
  StatusOr<ManagedRestore> RestoreOrInitialize(
      const RestoreOptions& options = {});

  // Looks again which steps there are. Collective. A read-only manager also
  // reads again what the writing one has written.
  // Errors: those of the file system and, if read-only, as of Create.
  Status Reload();

  // Deletes a step, of any manager or none. Collective. Same on all ranks:
  // step. Errors: as of Restore for the step; FailedPrecondition - the manager
  // is
  //   read-only, or somebody else's file lies in the step; those of the file
  //   system.
  Status Delete(int64_t step);

  // Waits for a step after `after`, or any if it is not set, and looks every
  // `poll_seconds`. Collective. Returns the newest, or nothing if there is none
  // within `timeout_seconds`. Same on all ranks: the arguments.
  // Errors: those of Reload; InvalidArgument - seconds that are none.
  StatusOr<std::optional<int64_t>> WaitForNewStep(std::optional<int64_t> after,
                                                  double timeout_seconds,
                                                  double poll_seconds = 1);

  // Returns the committed steps, ascending, as of the last collective call.
  // Local.
  std::vector<int64_t> AllSteps() const;

  // Returns the newest of them that is not known to be damaged. Local.
  std::optional<int64_t> Latest() const;

  // Returns the best step by best_fn or best_metric, of equal ones the latest:
  // of those with metrics. Without either: the latest step. Local.
  // Errors: Internal - best_fn threw.
  StatusOr<std::optional<int64_t>> BestStep() const;

  // Returns what was passed to Save for the step. Local.
  // Errors: NotFound - no such step of this manager, or no metrics.
  StatusOr<Metrics> MetricsOf(int64_t step) const;

  // Returns the steps that rules may still delete, ascending. Local.
  // (TensorFlow's `checkpoints`.)
  std::vector<StepRecord> Checkpoints() const;

  // Returns the directory of a step. Local.
  std::string Path(int64_t step) const;

  // Returns what Create had to say: a lease that was taken over, debris that
  // was removed, steps that are not managed; and what came later: the interval
  // of auto_interval and its reason, a time limit that cannot be asked for, a
  // last save that was left out. Equal on all ranks. Local.
  const std::vector<std::string>& notes() const;

  struct Impl;

 private:
  explicit CheckpointManager(std::unique_ptr<Impl> impl);
  static StatusOr<CheckpointManager> Begin(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace belay

#endif  // BELAY_CHECKPOINT_MANAGER_H_
