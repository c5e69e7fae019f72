// What a manager holds on each rank, and what its operations share.

#ifndef BELAY_MANAGER_MANAGER_IMPL_H_
#define BELAY_MANAGER_MANAGER_IMPL_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "belay/checkpoint_manager.h"
#include "core/agreed.h"
#include "core/wire.h"
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

// The saves that have failed since the last one that did not, as far as that is
// tolerated. Equal on all ranks but for the times.
struct FailedSaves {
  // Of those that the rules or the caller asked for; not those that were to
  // make up for them.
  int64_t in_a_row = 0;
  // When the last one failed, and when to make up for it, by the clock of the
  // options. Rank 0 only.
  double failed_at = 0;
  double retry_at = 0;
  // Steps that may be there all the same, or have left debris. Ascending.
  std::vector<StepRecord> steps = {};
};

// One call of Save that is to save something; rank 0 knows the rest.
struct SaveAttempt {
  SaveRequest request;
  bool may_fail = false;  // as far as the caller is concerned
  // Rank 0 only.
  StepRecord record = {};
  double began = 0;       // by the clock of the options
  bool at_files = false;  // it has come to the file system
  bool is_announced = false;
  bool was_there = false;  // the step, before
};

// A save that was begun and goes on in the background.
struct ManagedSaveUnderWay {
  SaveAttempt attempt;
  StepRecord record;
  double began = 0;  // as of WorkedBy
  std::string note;  // on its metrics
};

// Equal on all ranks but for the lease, which rank 0 has.
struct CheckpointManager::Impl {
  ManagedValues values;
  std::string dir;
  ManagerOptions options;
  Lease lease;
  std::string lease_text = {};  // what its file holds
  ManagerState state;
  SaveHistory history;
  std::vector<std::string> notes;
  size_t num_logged = 0;  // of the notes
  // It has restored or saved a step, or has warned that it does neither.
  bool is_at_work = false;
  // The step that was restored, until a step is saved or a warning says that
  // the program does not go on from there.
  std::optional<int64_t> goes_on_from = std::nullopt;
  Stopping stopping;
  FailedSaves failed = {};
  OperatorOptions operators = {};  // `dir` and `options` have them already
  // Null: saves are not done in the background.
  std::unique_ptr<BackgroundSaver, LetSaverGo> background = nullptr;
  std::optional<ManagedSaveUnderWay> under_way = std::nullopt;
  // What follows a commit in the background: writing the state, removing steps.
  // Rank 0 only; the other ranks know when it may be under way.
  mutable FileWork cleanup = {};
  bool is_cleaning_up = false;
  // What came of the last one, until a result tells of it.
  std::optional<ManagedSave> ended = std::nullopt;
  // The last step that was saved, if that was in the background and nothing was
  // restored since.
  std::optional<SaveResult> last_saved = std::nullopt;

  std::string Path(int64_t step) const;
};

// Checks that neither the manager nor its Checkpoint was moved from. Local, and
// equal on all ranks of a sound program.
// Errors: FailedPrecondition - one of them was.
Agreed<> CheckMoved(const CheckpointManager::Impl* impl,
                    std::string_view operation);

// The communicator of an operation, under the deadline of the options.
// With `slow`, calls that block are watched as well.
CommContext ManagerContext(const CheckpointManager::Impl& impl,
                           std::string_view operation, bool slow);

// Reads what an operator asks for on rank 0, puts it in the place of what the
// program says, and notes that. Collective; agreed.
// Errors: those of ParseOperatorOptions.
Agreed<> TakeOperatorOptions(CheckpointManager::Impl& impl);

// Asks the rules; the message says where. The second form for another
// history than that of the manager.
// Errors: those of DecideSave.
StatusOr<SaveDecision> DecideHere(const CheckpointManager::Impl& impl,
                                  const SaveRequest& request);
StatusOr<SaveDecision> DecideHere(const CheckpointManager::Impl& impl,
                                  const SaveHistory& history,
                                  const SaveRequest& request);

// What the caller asks for, with what is known beside it.
SaveRequest RequestOf(const CheckpointManager::Impl& impl,
                      std::optional<int64_t> step);

// The time by the clock of the options.
// Errors: Internal - it threw.
StatusOr<double> Now(const ManagerOptions& options);

// The committed steps of the manager's prefix, ascending, but for those that it
// goes back behind. A manager that only reads may begin before there is
// a directory. Errors: those of CommittedSteps.
StatusOr<std::vector<int64_t>> StepsOnDisk(const CheckpointManager::Impl& impl);

// Watches calls of the file system that one rank makes while the others wait
// for it, as the deadline of the options says.
Deadline WatchFiles(const CheckpointManager::Impl& impl,
                    std::string_view operation);

// A step was restored by its number, and the options say what becomes of newer
// ones: does so. Collective; agreed. Whatever it returns, once it has begun the
// newer steps count no longer, and the next save or manager finishes.
// Errors: those of WriteState, FinishGoingBack and NextAside.
Agreed<> RollBack(CheckpointManager::Impl& impl, int64_t step,
                  ManagedRestore& restored);

// Finishes what state.going_back says, also of a manager before. Rank 0 only.
// Errors: those of ReadState, SetAside and WriteState.
StatusOr<AsideOutcome> FinishGoingBack(const CheckpointManager::Impl& impl);

// Checks that the number is one of a step that is there. Rank 0 only.
// Errors: InvalidArgument - it is negative; NotFound - no such step; says which
//   there are; those of the file system.
Status CheckStepIsThere(const CheckpointManager::Impl& impl,
                        std::string_view operation, int64_t step);

// Takes `steps` for what is there, and forgets what is not.
void SetSteps(std::vector<int64_t> steps, CheckpointManager::Impl& impl);

// Writes the state once the cleanup is done, which writes it, too. Rank 0 only.
// Errors: those of WriteState.
Status WriteStateOf(const CheckpointManager::Impl& impl,
                    const ManagerState& state);

// When a save ended and what it took, for the ranks that have no clock.
struct SaveTimes {
  double end = 0;  // as of WorkedBy
  // Unset where nobody asks for times, or the clock failed.
  std::optional<double> seconds = std::nullopt;
  std::optional<double> restore = std::nullopt;  // the last one
  std::optional<double> cost = std::nullopt;     // of the saves before this one
  std::vector<std::string> notes = {};           // of asking for the time limit
};

// What became of the steps after a commit.
struct KeepOutcome {
  SaveTimes times;
  RetentionPlan plan;  // as it was carried out
  std::vector<std::string> notes;
};

// Lets rank 0 remove what need not be kept beside the step that was just
// saved, and write the state. The save has begun at `began`, as of WorkedBy on
// rank 0. In the background, the cleanup goes on after the call. Collective;
// agreed.
// Errors: only that ranks could not be told; all else is noted.
Agreed<KeepOutcome> KeepSteps(CheckpointManager::Impl& impl, int64_t saved,
                              double began, bool in_background);

// A step is committed that began at `began`, as of WorkedBy: it counts, and
// others may go. `counter` is what step_counter said. Collective.
void FinishStep(CheckpointManager::Impl& impl, const StepRecord& record,
                double began, std::optional<int64_t> counter,
                bool in_background, ManagedSave& result);

// Lists the steps again, as Reload. Collective; agreed.
Agreed<> ReloadSteps(CheckpointManager::Impl& impl);

// DecideHere once the save under way is committed, if there is one.
// Errors: those of DecideSave.
StatusOr<SaveDecision> DecideNext(const CheckpointManager::Impl& impl,
                                  const SaveRequest& request);

// Whether the clock is against it: a save is not due yet, or the last one would
// not be over before the time limit. Rank 0 only.
Status AskClock(const CheckpointManager::Impl& impl, double now,
                SaveRequest& request, std::string& against);

// Compares what the ranks pass to Save, and decides where the ranks need not
// ask rank 0: returns why not to save; nothing if the step is due, or if only
// rank 0 can say. Collective; agreed.
Agreed<std::optional<SaveDecision>> AgreeIfNotDue(CommContext& context,
                                                  CheckpointManager::Impl& impl,
                                                  const SaveRequest& request);

// Waits for the save under way if the rules ask for another one, or if the
// caller insists on this one; else looks whether it has ended, and returns why
// not to save. Collective; agreed.
Agreed<std::string> WaitIfSaveIsDue(CheckpointManager::Impl& impl,
                                    const SaveRequest& request);

// Whether the caller insists on the step that this manager has saved last, in
// the background, and nothing has been restored since: it is that step.
bool IsSavedAlready(const CheckpointManager::Impl& impl,
                    const SaveRequest& request);

// Takes what all ranks have said of the save under way, and what follows, if
// there is one. Collective; agreed.
// Errors: that it has failed, and this is not tolerated.
Agreed<> TakeFlushVote(CheckpointManager::Impl& impl, uint8_t bits);

// Looks whether the save under way has ended, for programs that never ask
// ShouldSave. Collective; agreed.
// Errors: as above.
Agreed<> PollUnderWay(CheckpointManager::Impl& impl);

// Waits for the save under way, if there is one. Collective; agreed.
// Errors: as above.
Agreed<> WaitForUnderWay(CheckpointManager::Impl& impl);

// The same before the next one, as BackgroundSaver::WaitBeforeNext.
// Collective; agreed.
// Errors: as above; FailedPrecondition.
Agreed<> WaitBeforeNextSave(CheckpointManager::Impl& impl);

// The same before that step is saved again: gives the save under way up if the
// program has not waited for its snapshot. Collective; agreed.
// Errors: as for WaitForUnderWay.
Agreed<> WaitForSameStep(CheckpointManager::Impl& impl);

// The same before a restore or a deletion, which do not fail because of it.
// Collective; agreed. What has failed is noted.
Agreed<> SettleUnderWay(CheckpointManager::Impl& impl);

// Lets a result tell of the save that has ended, if one has.
void TellOfEnded(CheckpointManager::Impl& impl, ManagedSave& result);

// A save has failed with `status`, which is agreed: takes back what was
// announced, and returns the error, or that the save was missed if that is
// tolerated. Collective; agreed.
Agreed<ManagedSave> MissSave(CheckpointManager::Impl& impl,
                             const SaveAttempt& attempt,
                             const AgreedError& error);

// Whether it is time to make up for a missed save. Rank 0 only.
// Errors: Internal - the clock threw.
StatusOr<bool> IsTimeToMakeUp(const CheckpointManager::Impl& impl);

// After a failure: makes sure of the lease, and removes what failed saves have
// left, as far as that can be removed. Rank 0 only.
// Errors: those of Lease::Renew.
Status ComeBack(CheckpointManager::Impl& impl);

// Of the steps that failed, those in `steps` are committed all the same: their
// records, for the state.
void AdoptFailed(const FailedSaves& failed, const std::vector<int64_t>& steps,
                 std::vector<StepRecord>& records);

// The same for all that a manager knows of steps, with a note.
void AdoptFailed(std::vector<int64_t> steps, CheckpointManager::Impl& impl);

// What is known after a failure once `steps` are seen to be there.
SaveHistory HistoryWith(const CheckpointManager::Impl& impl,
                        const std::vector<int64_t>& steps);

// Tells the log of notes that it has not been told of, and of `more`, which are
// those of a result. Local; rank 0 does so.
void LogNotes(CheckpointManager::Impl& impl,
              const std::vector<std::string>& more = {});

// Warns, once, that nothing is saved because the directory has later steps and
// none of them was restored, or because the program counts from before the one
// that was. Local; rank 0 does so.
void WarnIfBehind(CheckpointManager::Impl& impl, const SaveDecision& decision);

// Whether the options ask for the times of saves and steps.
bool NeedsTimes(const ManagerOptions& options);

// Seconds before the time limit, at the time `now`. Rank 0 only. Nothing if it
// is not known.
std::optional<double> SecondsLeft(const CheckpointManager::Impl& impl,
                                  double now);

// The time `now` less that in which the job was suspended: what lies between
// two of these is what the job took itself. Rank 0 only.
double WorkedBy(const Stopping& stopping, double now);

// Seconds until a save is due by auto_interval: none where the clock is behind
// the last save. Rank 0 only.
// Errors: those of AdviseInterval.
StatusOr<double> SecondsToNextSave(const CheckpointManager::Impl& impl,
                                   double now);

// Begins to catch the signals of the options.
// Errors: InvalidArgument - one of them cannot be caught.
Status CatchStopSignals(CheckpointManager::Impl& impl);

// Begins to watch the time limit that the options ask for. Rank 0 only.
// Errors: those of ReadJobEnvironment; Internal - the clock threw.
Status WatchTimeLimit(CheckpointManager::Impl& impl);

// Completes the exchange of ShouldSave that is under way, if there is one, and
// takes note of its result. Collective; agreed.
// Errors: of any rank, what it had to tell; InvalidArgument - ranks had passed
//   different steps.
Agreed<> FinishExchange(CheckpointManager::Impl& impl);

// Takes note of a save's times, and of the interval that follows.
void NoteTimes(const SaveTimes& times, CheckpointManager::Impl& impl);

// The time as of WorkedBy where it is asked for, and only on rank 0, whose
// clock counts. A clock that fails fails the next save.
std::optional<double> TimeOfRestore(const CheckpointManager::Impl& impl);

// Takes note of the time of a restore that began then and ends now.
void NoteRestore(std::optional<double> began, CheckpointManager::Impl& impl);

// What step_counter says, if it is set.
std::optional<int64_t> CounterOf(const ManagerOptions& options);

// Records, lists and optional numbers in messages.
void PutStepRecord(const StepRecord& record, WireWriter& out);
StepRecord GetStepRecord(WireReader& in);
void PutSteps(const std::vector<int64_t>& steps, WireWriter& out);
std::vector<int64_t> GetSteps(WireReader& in);
void PutOptional(std::optional<int64_t> value, WireWriter& out);
std::optional<int64_t> GetOptional(WireReader& in);
void PutTexts(const std::vector<std::string>& texts, WireWriter& out);
std::vector<std::string> GetTexts(WireReader& in);

}  // namespace belay

#endif  // BELAY_MANAGER_MANAGER_IMPL_H_
