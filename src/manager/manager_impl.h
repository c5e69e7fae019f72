// The state of a manager on each rank, and its operations.

#ifndef BELAY_MANAGER_MANAGER_IMPL_H_
#define BELAY_MANAGER_MANAGER_IMPL_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "belay/checkpoint_manager.h"
#include "core/agreed.h"
#include "manager/managed_values.h"
#include "manager/manager_files.h"
#include "manager/manager_state.h"
#include "manager/manager_stop.h"
#include "manager/retention_plan.h"
#include "manager/save_decision.h"
#include "mpi/collective.h"
#include "pipeline/operator_options.h"
#include "save/background_save.h"
#include "storage/lease.h"

namespace belay {

// The tolerated failures since the last successful save. Equal on all ranks,
// except for the times.
struct FailedSaves {
  // Failures of saves that the rules or the caller asked for, without retries.
  int64_t in_a_row = 0;
  // Times of the last failure and of its retry, according to the clock of the
  // options. Rank 0 only.
  double failed_at = 0;
  double retry_at = 0;
  // Steps whose saves failed but may be committed, or have left debris;
  // ascending.
  std::vector<StepRecord> steps = {};
};

// One call of Save.
struct SaveAttempt {
  SaveRequest request;
  bool may_fail = false;  // the caller tolerates a failure
  // Rank 0 only.
  StepRecord record = {};
  double began = 0;           // on the clock of the options
  bool at_files = false;      // the save has reached the file system
  bool is_announced = false;  // written to the state
  bool was_there = false;     // the step existed before
};

// A background save.
struct ManagedSaveUnderWay {
  SaveAttempt attempt;
  StepRecord record;
  double began = 0;  // as WorkedBy
  std::string note;  // on its metrics
};

// Rank 0's decision on a call of Save.
struct SaveOrder {
  SaveDecision decision;
  StepRecord record;
  double began = 0;  // as WorkedBy
  // The steps on disk, if they differ from the steps that all ranks know.
  std::optional<std::vector<int64_t>> steps;
  bool is_back = false;   // going back to an older step is complete
  bool is_saved = false;  // nothing to do; see IsSavedAlready
};

// Rank 0's knowledge of a failed save.
struct SaveFailure {
  bool is_tolerable = false;
  bool makes_up = false;
  bool was_there = false;
  StepRecord record;
};

// The times of a save, for ranks other than rank 0, which do not ask the clock.
struct SaveTimes {
  double end = 0;  // as WorkedBy
  // Unset if no option needs times, or if the clock failed.
  std::optional<double> seconds = std::nullopt;
  std::optional<double> restore = std::nullopt;  // of the last restore
  std::optional<double> cost = std::nullopt;     // of earlier saves
  std::vector<std::string> notes = {};           // on the time limit
};

// The steps that were kept and removed after a commit.
struct KeepOutcome {
  SaveTimes times;
  RetentionPlan plan;  // as carried out
  std::vector<std::string> notes;
};

// What a call of Save does while another save is under way.
struct Meanwhile {
  enum class Action : uint8_t {
    kSave,  // once the other save has ended
    kWait,  // for the other save, which saves the same step
    kNotYet,
  };
  Action action = Action::kSave;
  std::string reason;  // of kNotYet
};

// Fields of messages from rank 0.
template <typename Archive>
void Fields(Archive& archive, StepRecord& record) {
  archive(record.step, record.time, record.metrics);
}
template <typename Archive>
void Fields(Archive& archive, SaveDecision& decision) {
  archive(decision.save, decision.step, decision.replaces_damaged,
          decision.reason);
}
template <typename Archive>
void Fields(Archive& archive, SaveOrder& order) {
  archive(order.decision, order.record, order.began, order.steps, order.is_back,
          order.is_saved);
}
template <typename Archive>
void Fields(Archive& archive, SaveFailure& failure) {
  archive(failure.is_tolerable, failure.makes_up, failure.was_there,
          failure.record);
}
template <typename Archive>
void Fields(Archive& archive, KeepOutcome& outcome) {
  SaveTimes& times = outcome.times;
  archive(times.end, times.seconds, times.restore, times.cost, times.notes,
          outcome.plan.remove, outcome.plan.preserve,
          outcome.plan.last_preserved, outcome.notes);
}
template <typename Archive>
void Fields(Archive& archive, Meanwhile& meanwhile) {
  archive(meanwhile.action, meanwhile.reason);
}
template <typename Archive>
void Fields(Archive& archive, GoingBack& going_back) {
  archive(going_back.to, going_back.aside, going_back.deletes);
}
template <typename Archive>
void Fields(Archive& archive, AsideOutcome& outcome) {
  archive(outcome.moved, outcome.deleted, outcome.notes);
}

// Functions that return Agreed are collective; comments are at the definitions.
struct CheckpointManager::Impl {
  Impl(ManagedValues values, std::string dir, const ManagerOptions& options)
      : values_(std::move(values)), dir_(std::move(dir)), options_(options) {}

  // Operations of the public class.
  Agreed<> Begin();
  StatusOr<bool> ShouldSave(std::optional<int64_t> step);
  Agreed<ManagedSave> Save(std::optional<int64_t> step,
                           const ManagedSaveOptions& options);
  Agreed<> WaitForSnapshot();
  Agreed<std::optional<ManagedSave>> Wait();
  Agreed<ManagedRestore> Restore(std::optional<int64_t> step,
                                 const RestoreOptions& options);
  Agreed<> Reload();
  Agreed<> Delete(int64_t step);
  Agreed<std::optional<int64_t>> WaitForNewStep(std::optional<int64_t> after,
                                                double timeout_seconds,
                                                double poll_seconds);
  StatusOr<std::optional<int64_t>> BestStep() const;
  std::string StepPath(int64_t step) const;

  // manager_create.cc: opens a run; the directory, the clock and the log.
  Status CheckOptions() const;
  Agreed<> CheckArguments(CommContext& context) const;
  void NoteStrangers(std::vector<std::string>& notes) const;
  Status ReadFiles(std::vector<std::string>& notes);
  double LeasePatience() const;
  Status Prepare();
  StatusOr<std::string> Describe() const;
  Agreed<> Share(CommContext& context, absl::FunctionRef<Status()> read);
  Agreed<> Join(CommContext& context);
  Agreed<> ReloadSteps();
  Agreed<> TakeOperatorOptions();
  CommContext ManagerContext(std::string_view operation, bool slow) const;
  Deadline WatchFiles(std::string_view operation) const;
  StatusOr<double> Now() const;
  StatusOr<std::vector<int64_t>> StepsOnDisk() const;
  Status CheckStepIsThere(std::string_view operation, int64_t step) const;
  void SetSteps(std::vector<int64_t> steps);
  Status StoreState(const ManagerState& state) const;
  void LogNotes(const std::vector<std::string>& more = {});
  void WarnIfBehind(const SaveDecision& decision);

  // manager_save.cc: decides, saves, and handles failures.
  std::optional<int64_t> StepCounter() const;
  SaveRequest MakeRequest(std::optional<int64_t> step) const;
  StatusOr<SaveDecision> DecideHere(const SaveHistory& history,
                                    const SaveRequest& request) const;
  StatusOr<SaveDecision> DecideNext(const SaveRequest& request) const;
  StatusOr<SaveDecision> DecideOnRoot(const SaveRequest& request) const;
  std::optional<SaveDecision> DecideNotDue(const SaveRequest& request) const;
  StatusOr<Meanwhile> DecideMeanwhile(SaveRequest request) const;
  StatusOr<SaveOrder> Decide(SaveAttempt& attempt,
                             const std::optional<Metrics>& metrics);
  Status AskClock(double now, SaveRequest& request, std::string& against) const;
  Agreed<std::optional<SaveDecision>> AgreeIfNotDue(CommContext& context,
                                                    const SaveRequest& request);
  Agreed<SaveOrder> Ask(SaveAttempt& attempt,
                        const std::optional<Metrics>& metrics);
  Agreed<std::string> WaitIfSaveIsDue(const SaveRequest& request);
  bool IsSavedAlready(const SaveRequest& request) const;
  bool IsUnderWay(const SaveRequest& request) const;
  Status Announce(const std::vector<int64_t>& steps,
                  const StepRecord& record) const;
  Status PrepareFiles(SaveAttempt& attempt, SaveOrder& order);
  Agreed<PendingSave> BeginOrSave(const SaveOrder& order,
                                  const SaveOptions& how, bool in_background,
                                  bool& at_files);
  Agreed<ManagedSave> SaveAsOrdered(const SaveOrder& order,
                                    const SaveOptions& how,
                                    SaveAttempt& attempt);
  ManagedSave SavedAlready();
  void NoteCallSince(double began);
  void NoteLeftOut(const SaveRequest& request, const ManagedSave& result);
  Status CheckDelete(int64_t step) const;
  Agreed<ManagedSave> MissSave(const SaveAttempt& attempt,
                               const AgreedError& error);
  ManagedSave Missed(const SaveAttempt& attempt, const SaveFailure& failure,
                     const Status& status);
  void NoteTimesOfFailure(double began, bool makes_up);
  StatusOr<bool> IsTimeToMakeUp() const;
  Status RecoverAfterFailure();
  void PutFailed(const std::vector<int64_t>& steps,
                 std::vector<StepRecord>& records) const;
  void AdoptFailed(std::vector<int64_t> steps);
  SaveHistory HistoryWith(const std::vector<int64_t>& steps) const;

  // manager_finish.cc: what follows a commit, including one in the background.
  void FinishStep(const StepRecord& record, double began,
                  std::optional<int64_t> counter, bool in_background,
                  ManagedSave& result);
  void ForgetFailures();
  void LeaveBranch(int64_t step, ManagedSave& result);
  Agreed<> EndUnderWay(Agreed<SaveResult> saved);
  Agreed<> TakeEnd(Agreed<std::optional<SaveResult>> ended);
  Agreed<> TakeFlushVote(uint8_t bits);
  Agreed<> PollUnderWay();
  Agreed<> WaitForUnderWay();
  Agreed<> WaitBeforeNextSave();
  Agreed<> WaitForSameStep();
  Agreed<> FinishCleanup();
  Agreed<> SettleUnderWay();
  void TellOfEnded(ManagedSave& result);
  std::optional<int64_t> NewestThatOpens(int64_t saved,
                                         const std::vector<int64_t>& removed,
                                         bool is_removed) const;
  void KeepOne(int64_t saved, KeepOutcome& outcome) const;
  std::vector<std::string> RemoveSteps(bool in_background,
                                       KeepOutcome& outcome) const;
  SaveTimes MeasureSave(double began) const;
  KeepOutcome AfterCommit(int64_t saved, double began, bool in_background);
  Agreed<KeepOutcome> KeepSteps(int64_t saved, double began,
                                bool in_background);

  // manager_restore.cc: restores, and goes back to an older step.
  Status NothingCanBeRestored(const std::vector<SkippedStep>& skipped) const;
  Agreed<> CheckMatch(int64_t step, const ManagedRestore& restored) const;
  void RememberRestore(const ManagedRestore& restored);
  std::optional<int64_t> NextToTry(const ManagedRestore& restored) const;
  Agreed<ManagedRestore> RestoreNewest(const RestoreOptions& options);
  Agreed<ManagedRestore> RestoreOne(int64_t step,
                                    const RestoreOptions& options);
  StatusOr<std::optional<GoingBack>> BeginGoingBack(int64_t step) const;
  void Leave(GoingBack plan);
  StatusOr<AsideOutcome> FinishGoingBack() const;
  Agreed<> RollBack(int64_t step, ManagedRestore& restored);

  // manager_stop.cc: times, signals, and the exchange during each step.
  bool NeedsTimes() const;
  std::optional<double> SecondsLeft(double now) const;
  double WorkedBy(double now) const;
  StatusOr<double> SecondsToNextSave(double now) const;
  Status CatchStopSignals();
  Status WatchTimeLimit();
  Status WatchJob();
  Status VoteOfRoot(SaveRequest request, StopVote& vote);
  void StartExchange(const SaveRequest& request);
  Agreed<> FinishExchange();
  void Apply(const StopVote& vote);
  StatusOr<SaveDecision> DecideAsTold(SaveRequest request) const;
  void NoteTimes(const SaveTimes& times);
  std::optional<double> TimeOfRestore() const;
  void NoteRestore(std::optional<double> began);

  // Equal on all ranks, except where noted.
  ManagedValues values_;
  std::string dir_;
  ManagerOptions options_;
  Lease lease_;             // rank 0 only
  std::string lease_text_;  // content of its file
  ManagerState state_;
  SaveHistory history_;
  std::vector<std::string> notes_;
  size_t num_logged_ = 0;  // number of notes already logged
  // True after a step was restored or saved, or after the warning that neither
  // has happened.
  bool is_at_work_ = false;
  // The step that was restored. Reset once a step is saved, or after the
  // warning that the program does not continue from it.
  std::optional<int64_t> goes_on_from_;
  Stopping stopping_;
  FailedSaves failed_;
  OperatorOptions operators_;  // already applied to `dir_` and `options_`
  // Null if saves do not run in the background.
  std::unique_ptr<BackgroundSaver, LetSaverGo> background_;
  std::optional<ManagedSaveUnderWay> under_way_;
  // Writes the state and removes steps after a commit in the background. Rank 0
  // only. On all ranks, `is_cleaning_up_` tells that it may be under way.
  mutable FileWork cleanup_;
  bool is_cleaning_up_ = false;
  // The result of the last background save, until a call returns it.
  std::optional<ManagedSave> ended_;
  // The last save, if it ran in the background and nothing was restored since.
  std::optional<SaveResult> last_saved_;
};

// Checks that neither the manager nor its Checkpoint was moved from. Local, and
// equal on all ranks of a correct program.
// Errors: FailedPrecondition - one of them was moved from.
Agreed<> CheckMoved(const CheckpointManager::Impl* impl,
                    std::string_view operation);

}  // namespace belay

#endif  // BELAY_MANAGER_MANAGER_IMPL_H_
