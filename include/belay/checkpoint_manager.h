// Numbers the checkpoints of a run, decides which to save and to keep, and
// finds one to restore.
//
//   auto manager = CheckpointManager::Create(
//       checkpoint, "run", {.retention = {.max_to_keep = 3}});
//   auto restored = manager->RestoreOrInitialize();
//   if (!restored.ok()) return restored.status();
//   for (int64_t step = restored->step.value_or(-1) + 1; step < steps; ++step)
//   {
//     Train();
//     auto saved = manager->Save(step);
//     if (!saved.ok()) return saved.status();
//   }
//
// CheckpointManager::Create(comm, state, "run", options) does the same for the
// values of a State, without objects.
//
// (TensorFlow's and Orbax's CheckpointManager in one. docs/manager.md says
// where they contradict each other.)

#ifndef BELAY_CHECKPOINT_MANAGER_H_
#define BELAY_CHECKPOINT_MANAGER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "belay/checkpoint.h"
#include "belay/comm.h"
#include "belay/manager/manager_options.h"
#include "belay/manager/retention_policy.h"
#include "belay/manager/stop_reason.h"
#include "belay/objects/load_status.h"
#include "belay/options.h"
#include "belay/state.h"
#include "belay/status.h"

namespace belay {

struct ManagedSaveOptions {
  // Metrics that rate the step. Only those of rank 0 are used.
  std::optional<Metrics> metrics = std::nullopt;
  // Save regardless of the rules, even a step before the latest one. If this
  // step is being saved in the background, or was the last one saved there, the
  // call only waits for that save and returns its result. However, with
  // SnapshotMode::kLazy and no WaitForSnapshot since, that save is abandoned,
  // because its values may have changed, and this call saves the current
  // values.
  bool force = false;
  // Whether a failure is tolerated as described at
  // ManagerOptions::tolerated_failures. Unset: a failure of a forced save is
  // not tolerated, because no rule would retry it; any other failure is.
  std::optional<bool> tolerate_failure = std::nullopt;
  // Added to ManagerOptions::metadata for this step; overrides equal names.
  // Only the metadata of rank 0 is used.
  Metadata metadata = {};
  // Used instead of ManagerOptions::save for this step. Must be equal on all
  // ranks, except for members that only rank 0 uses.
  std::optional<SaveOptions> save = std::nullopt;
};

// What a call of Save did.
enum class SaveOutcome : uint8_t {
  kSkipped = 0,  // nothing was saved; see `reason`
  kSaved = 1,    // the step is committed; see `result`
  // The values are copied, and a thread writes them (ManagerOptions::async): it
  // may still fail.
  kBegun = 2,
  kFailed = 3,  // a tolerated failure of a due save; see `failure`
};

// Result of Save; equal on all ranks.
struct ManagedSave {
  SaveOutcome outcome = SaveOutcome::kSkipped;
  std::string reason;            // why it was not saved
  SaveResult result;             // if it was saved
  std::vector<int64_t> deleted;  // steps, ascending
  // Failures after the commit; failures of the file operations that followed an
  // earlier save in the background; and a note if the step is already being
  // saved and therefore does not get the new values.
  std::vector<std::string> notes;
  // A tolerated failure of this save (kFailed) or of the save in the background
  // that has ended: Unavailable, ResourceExhausted, Internal, or NotFound for a
  // file that a node no longer sees.
  std::optional<Status> failure;
  // The save in the background that has ended in this call or since the
  // previous one. `deleted`, `notes` and `failure` also cover it.
  std::optional<SaveResult> finished = std::nullopt;

  // Returns text with one line each for what was saved or why nothing was, what
  // was deleted, and the notes. Local.
  std::string ToString() const;
};

// A step that could not be restored.
struct SkippedStep {
  int64_t step = 0;
  Status status;
};

// Result of Restore; equal on all ranks.
struct ManagedRestore {
  std::optional<int64_t> step;  // unset: no step was found
  // For the objects of a Checkpoint.
  LoadStatus load_status = LoadStatus::InitializationOnly();
  // For a State.
  std::optional<RestoreResult> result = std::nullopt;
  std::vector<SkippedStep> skipped;  // newer ones, newest first
  // The newer steps that were set aside or deleted, according to
  // ManagerOptions::newer_steps; ascending. `aside` is the directory of those
  // that were set aside.
  std::vector<int64_t> set_aside;
  std::vector<int64_t> deleted;
  std::string aside;

  // Returns text with one line each for the restored step, why newer steps were
  // skipped, and what was done with them. Local.
  std::string ToString() const;
};

// Move only. Borrows the Checkpoint or the State, the communicator and
// step_counter.
//
// At most one writing manager may be open per directory and prefix, across all
// jobs. Any number of read-only managers may coexist with it.
//
// Errors of all functions: FailedPrecondition - the manager is closed, or it or
//   its Checkpoint was moved from. Functions without a status then return an
//   empty value.
class CheckpointManager {
 public:
  // Opens the run: acquires the lease, loads the previous manager's state, and
  // removes leftovers of crashed jobs. Collective. Creates `dir` if its parent
  // exists; for a read-only manager, a missing directory counts as empty.
  // Environment variables of rank 0, such as BELAY_DIR and BELAY_INTERVAL,
  // override dir and options (docs/manager.md). `dir` and `options` must be
  // equal on all ranks.
  // Errors: InvalidArgument - options (including save options) that contradict
  //   each other, are out of range, or differ between ranks, an environment
  //   variable that cannot be parsed, or `dir` is a file; FailedPrecondition -
  //   another manager holds the lease (says who), or a file of that name
  //   belongs to another program; DataLoss - the state is damaged;
  //   Unimplemented - written by a newer belay; those of the file system.
  static StatusOr<CheckpointManager> Create(Checkpoint& checkpoint,
                                            const std::string& dir,
                                            const ManagerOptions& options = {});

  // The same for the values of a State, which must outlive the manager. A value
  // added to it later is part of the next save. Collective. `dir` and `options`
  // must be equal on all ranks.
  static StatusOr<CheckpointManager> Create(const Comm& comm,
                                            const State& state,
                                            const std::string& dir,
                                            const ManagerOptions& options = {});
  // Deleted: a temporary State does not outlive the call. Local.
  static StatusOr<CheckpointManager> Create(
      const Comm& comm, State&& state, const std::string& dir,
      const ManagerOptions& options = {}) = delete;

  CheckpointManager(CheckpointManager&&) noexcept;
  CheckpointManager& operator=(CheckpointManager&&) noexcept;
  // Releases the lease. Never communicates. MPI_Finalize waits for the end of a
  // save in the background, as for an AsyncSaver.
  ~CheckpointManager();

  // Returns whether to call Save now: true if the rules require it, or if the
  // job must stop and this is its last save. Equal on all ranks. Collective.
  // Call it in each step. `step` and `*step_counter` must be equal on all
  // ranks. It also distributes signals from any rank and the time of rank 0 to
  // all ranks, in a nonblocking reduction of eight bytes. Each call completes
  // the reduction of the previous call, then starts its own, so no step waits
  // for it. Signals and the time are therefore those of the previous call,
  // while the rules about steps are evaluated for this `step`. Only with
  // should_save does the call wait for rank 0's answer for this step.
  // Errors, on all ranks; errors of this call are returned by the next one:
  //   those of Save for the step; InvalidArgument - ranks passed different
  //   steps; Internal - the clock or should_save threw.
  // Cost: one nonblocking all-reduce of 8 bytes; none once the job must stop.
  StatusOr<bool> ShouldSave(std::optional<int64_t> step = std::nullopt);

  // Returns why the job must stop, if it must, as the ranks agreed in
  // ShouldSave or Save. Local. Equal on all ranks; once set, it stays set, even
  // after Close. Call it after Save, then end the program with
  // kStoppedExitCode.
  std::optional<StopReason> ShouldStop() const;

  // Saves a step if the rules require it, and deletes steps that no rule keeps.
  // Collective. If `step` is unset, it uses the number after the latest step
  // or, if that is larger, after the save counter of the Checkpoint (for a
  // State: after the last saved or restored step). `step`, `force` and
  // `*step_counter` must be equal on all ranks. Once the job must stop, the
  // first call saves regardless of the rules, unless the step is not after the
  // latest one. It also does not save if earlier saves took longer than the
  // time left before the time limit; notes() then says so. A call that saves
  // lists the directory again. After an error, tolerated or not, nothing has
  // changed, and the step can be saved again. Failures after the commit are
  // reported as notes, not errors. So are metrics if best_metric is not set.
  // Errors: those of Checkpoint::SaveAs or, for a State, belay::Save;
  //   InvalidArgument - a negative step, or ranks disagree;
  //   AlreadyExists - forced, and the step exists and can be restored. For the
  //   last step that was saved in the background, this is not an error, unless
  //   a step was restored since; its result is returned again;
  //   FailedPrecondition - forced, and the manager is read-only; or a step was
  //   restored by its number, and this one is among the newer ones, forced or
  //   not; or another manager took the lease after a failure.
  // Cost, if nothing is saved: one small all-reduce; three small collectives
  // with should_save, auto_interval, a time limit, or after a save that has
  // failed.
  StatusOr<ManagedSave> Save(std::optional<int64_t> step = std::nullopt,
                             const ManagedSaveOptions& options = {});

  // Waits until the values of a save in the background are copied, as
  // AsyncSaver::WaitForSnapshot does. With SnapshotMode::kLazy, call it before
  // the program changes them. Collective.
  // Errors: those of Save.
  Status WaitForSnapshot();

  // Waits for the save in the background, if there is one. Collective. Returns
  // the outcome of the save that has ended in this call or since the previous
  // one; nothing if there was none.
  // Errors: those of Save.
  StatusOr<std::optional<ManagedSave>> Wait();

  // Waits as Wait does, and releases the lease and everything else, even after
  // an error. Collective. Calling it again does nothing.
  // Errors: those of Save; the failure of the save that has ended, even if it
  //   is tolerated.
  Status Close();

  // Restores the newest step that can be restored. Collective. `options` must
  // be equal on all ranks. A step is skipped if its index or data files are
  // damaged, missing or of a newer format, and the previous one is tried. The
  // next save may use the number of a skipped step. If a checksum revealed the
  // damage only while reading, values that the older step does not have are
  // unspecified. If there is no step at all, restoring nothing is not an error.
  // Errors: those of Checkpoint::Restore or, for a State, belay::Restore:
  //   NotFound - a value is not stored; names it and the most similar stored
  //   key; FailedPrecondition - for objects, fewer matches than
  //   ManagerOptions::restore_match requires (names the values that do not
  //   match and what is stored instead; those that match are restored);
  //   DataLoss - no step can be restored; names each and its cause.
  StatusOr<ManagedRestore> RestoreLatest(const RestoreOptions& options = {});

  // Restores the step with this number. Collective. `step` and `options` must
  // be equal on all ranks. A program that continues from there abandons the
  // newer steps, and ManagerOptions::newer_steps says what happens to them.
  // Unless it is kRefuse, they have been moved or deleted when this returns:
  // they are never taken for the latest step, and no rule considers them.
  // Errors: those of RestoreLatest; InvalidArgument - a negative step; NotFound
  //   - no such step; lists the existing ones; those of the file system, if
  //   newer steps could not be moved or deleted: the step is restored, and the
  //   next save or manager tries again.
  StatusOr<ManagedRestore> Restore(int64_t step,
                                   const RestoreOptions& options = {});

  // As RestoreLatest; if there is no step at all, calls init_fn on all ranks.
  // Collective. `options` must be equal on all ranks.
  // Errors: those of RestoreLatest, and those of init_fn on any rank.
  StatusOr<ManagedRestore> RestoreOrInitialize(
      const RestoreOptions& options = {});

  // Lists the steps on disk again. Collective. A read-only manager also rereads
  // the state of the writing one.
  // Errors: those of the file system; if read-only, also those of Create.
  Status Reload();

  // Deletes a step, whether a manager saved it or not. Collective. `step` must
  // be equal on all ranks.
  // Errors: as for Restore of the step; FailedPrecondition - the manager is
  //   read-only, or the step contains a file that belay did not write; those of
  //   the file system.
  Status Delete(int64_t step);

  // Waits for a step after `after`, or for any step if it is not set, and polls
  // every `poll_seconds`. Collective. Returns the newest step, or nothing if
  // none appears within `timeout_seconds`. All arguments must be equal on all
  // ranks.
  // Errors: those of Reload; InvalidArgument - seconds out of range.
  StatusOr<std::optional<int64_t>> WaitForNewStep(std::optional<int64_t> after,
                                                  double timeout_seconds,
                                                  double poll_seconds = 1);

  // Returns the committed steps, ascending, as of the last collective call.
  // Local.
  std::vector<int64_t> Steps() const;

  // Returns the newest committed step that is not known to be damaged; a step
  // that is being saved in the background is included once it is committed.
  // Local.
  std::optional<int64_t> LatestStep() const;

  // Returns the best of the steps with metrics, by best_fn or best_metric; the
  // latest of equal ones. Without either option: the latest step. Local.
  // Errors: Internal - best_fn threw.
  StatusOr<std::optional<int64_t>> BestStep() const;

  // Returns the metrics that were passed to Save for the step. Local.
  // Errors: NotFound - no such step of this manager, or no metrics.
  StatusOr<Metrics> StepMetrics(int64_t step) const;

  // Returns the steps of this manager that rules may still delete, ascending;
  // preserved steps are not among them. Local. (TensorFlow's `checkpoints`.)
  std::vector<StepRecord> StepRecords() const;

  // Returns the directory of a step. Local.
  std::string StepPath(int64_t step) const;

  // Returns notes recorded since Create: a lease that was taken over, leftovers
  // that were removed, steps that are not managed, the interval of
  // auto_interval and its reason, a time limit that cannot be queried, a last
  // save that was skipped. Equal on all ranks. Local.
  const std::vector<std::string>& notes() const;

  struct Impl;

 private:
  explicit CheckpointManager(std::unique_ptr<Impl> impl);
  static StatusOr<CheckpointManager> Begin(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
  std::optional<StopReason> stop_reason_;  // after Close
};

}  // namespace belay

#endif  // BELAY_CHECKPOINT_MANAGER_H_
