// Opens the run of a manager: its options, its files, and the operator's
// environment variables.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "belay/manager/job.h"
#include "core/agreed.h"
#include "core/catch_exceptions.h"
#include "core/log.h"
#include "core/process.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "core/wire.h"
#include "format/paths.h"
#include "manager/check_manager_options.h"
#include "manager/manager_files.h"
#include "manager/manager_impl.h"
#include "mpi/collective.h"
#include "mpi/mpi_error.h"
#include "pipeline/operator_options.h"
#include "pipeline/stages.h"
#include "storage/commit.h"
#include "storage/posix_file.h"

namespace belay {

using Impl = CheckpointManager::Impl;

namespace {

std::vector<CommonOption> AllCommonOptions(const ManagerOptions& options) {
  std::vector<CommonOption> common = CommonOptions(options);
  for (CommonOption& option : CommonOptions(options.save)) {
    common.push_back({"save." + option.name, std::move(option.bytes)});
  }
  for (CommonOption& option : common) option.name = "the option " + option.name;
  return common;
}

// The first message of a call begins with its kind, because ranks that are in a
// different call may receive it.
constexpr char kRunMessage[] = "run";
constexpr char kOperatorMessage[] = "operator options";

// The content of a run, as read by rank 0.
struct RunMessage {
  std::string kind = kRunMessage;
  std::vector<int64_t> steps;
  std::vector<std::string> notes;
  std::string lease;
  std::string state;
};
template <typename Archive>
void Fields(Archive& archive, RunMessage& message) {
  archive(message.kind, message.steps, message.notes, message.lease,
          message.state);
}

// The operator's environment variables, in the order of OperatorVariables().
struct OperatorMessage {
  std::string kind = kOperatorMessage;
  std::vector<std::string> values;
};
template <typename Archive>
void Fields(Archive& archive, OperatorMessage& message) {
  archive(message.kind, message.values);
}

// Reads and checks the operator's variables in this process. Rank 0 only.
StatusOr<OperatorMessage> ReadVariables(const std::string& dir) {
  OperatorMessage message;
  for (const char* const name : OperatorVariables()) {
    const char* const value = std::getenv(name);
    message.values.emplace_back(value == nullptr ? "" : value);
  }
  const Status valid = ParseOperatorOptions([](const char* name) {
                         return std::getenv(name);
                       }).status();
  if (valid.ok()) return message;
  return Status(valid.code(),
                absl::StrCat("manage \"", dir, "\": ", valid.message()));
}

// Warns of misspelt environment variables, which have no effect. Rank 0 only.
void WarnOfVariables() {
  std::vector<std::string> names;
  for (char** one = environ; one != nullptr && *one != nullptr; ++one) {
    const std::string_view text(*one);
    names.emplace_back(text.substr(0, text.find('=')));
  }
  for (const std::string& line : MisspeltVariables(names)) {
    Log(LogLevel::kWarning, line);
  }
}

}  // namespace

std::string Impl::StepPath(int64_t step) const {
  return JoinPath(dir_, StepName(step, options_.prefix));
}

Agreed<> CheckMoved(const Impl* impl, std::string_view operation) {
  if (impl != nullptr) {
    return CheckComm(impl->values_.comm(), operation, impl->dir_);
  }
  return SameOnAllRanks(absl::FailedPreconditionError(Cat(
      operation, " \"CheckpointManager\": it is closed, or was moved from")));
}

// Returns the context of an operation, with the deadline of the options. With
// `slow`, blocking calls are also watched.
CommContext Impl::ManagerContext(std::string_view operation, bool slow) const {
  const Comm& comm = values_.comm();
  return {comm, Deadline(comm, options_.save.deadline_seconds,
                         Cat(operation, " \"", dir_, "\""), slow)};
}

// Watches rank 0's file system calls while the other ranks wait for it.
Deadline Impl::WatchFiles(std::string_view operation) const {
  Deadline deadline(values_.comm(), options_.save.deadline_seconds,
                    Cat(operation, " \"", dir_, "\""));
  deadline.Enter("look");
  return deadline;
}

// Returns the time according to the clock of the options.
// Errors: Internal - the clock threw.
StatusOr<double> Impl::Now() const {
  if (options_.clock) {
    StatusOr<double> now = CatchExceptions([&] { return options_.clock(); });
    if (now.ok()) return now;
    return absl::InternalError(
        absl::StrCat("ask the clock: ", now.status().message()));
  }
  return SteadyUnixTime();
}

// Returns the committed steps with this prefix, in ascending order. While the
// manager is going back to an older step, newer steps are omitted. The
// directory of a read-only manager need not exist yet.
StatusOr<std::vector<int64_t>> Impl::StepsOnDisk() const {
  if (options_.read_only) {
    BELAY_ASSIGN_OR_RETURN(const bool exists, Exists(dir_));
    if (!exists) return std::vector<int64_t>();
  }
  BELAY_ASSIGN_OR_RETURN(std::vector<int64_t> steps,
                         CommittedSteps(dir_, options_.prefix));
  if (state_.going_back) {
    steps.erase(std::ranges::upper_bound(steps, state_.going_back->to),
                steps.end());
  }
  return steps;
}

// Rank 0 only.
// Errors: InvalidArgument - the step is negative; NotFound - no such step, the
//   message lists the existing ones; those of the file system.
Status Impl::CheckStepIsThere(std::string_view operation, int64_t step) const {
  if (step < 0) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s \"%s\": step is out of range (need 0 to %d, found %d)",
        AbslView(operation), dir_, INT64_MAX, step));
  }
  BELAY_ASSIGN_OR_RETURN(const bool is_there, Exists(StepPath(step)));
  const std::optional<GoingBack>& going_back = state_.going_back;
  if (is_there && !(going_back && step > going_back->to)) {
    return absl::OkStatus();
  }
  BELAY_ASSIGN_OR_RETURN(const std::vector<int64_t> steps, StepsOnDisk());
  return absl::NotFoundError(absl::StrFormat("%s \"%s\": no step %d; %s",
                                             AbslView(operation), dir_, step,
                                             StepsText(steps)));
}

// Records that `steps` are the steps on disk, and forgets all others.
void Impl::SetSteps(std::vector<int64_t> steps) {
  TakeSteps(std::move(steps), history_);
  KeepOnly(history_.steps, state_.steps);
}

// Writes the state once the cleanup has ended, because the cleanup also writes
// it. Rank 0 only.
Status Impl::StoreState(const ManagerState& state) const {
  cleanup_.Finish();
  return WriteState(dir_, options_.prefix, state, options_.save.durable);
}

// Logs new notes, and `more`, which are the notes of a result. Only rank 0
// logs.
void Impl::LogNotes(const std::vector<std::string>& more) {
  const size_t first = std::exchange(num_logged_, notes_.size());
  if (values_.comm().rank() != 0) return;
  for (size_t i = first; i < notes_.size(); ++i) {
    Log(LogLevel::kInfo, notes_[i]);
  }
  for (const std::string& note : more) Log(LogLevel::kWarning, note);
}

// Warns once that nothing will be saved: the directory has later steps, and
// either no step was restored or the program's count begins before the restored
// step. Only rank 0 logs.
void Impl::WarnIfBehind(const SaveDecision& decision) {
  if (!decision.is_behind) return;
  const int64_t latest = FindLatest(history_).value_or(decision.step);
  const bool is_root = values_.comm().rank() == 0;
  if (goes_on_from_ && decision.step < *goes_on_from_) {
    const int64_t restored = *std::exchange(goes_on_from_, std::nullopt);
    if (!is_root) return;
    Log(LogLevel::kWarning,
        absl::StrFormat(
            "save \"%s\": step %d is not saved, and no step will be up to the "
            "latest one there, %d: step %d was restored, but the program "
            "counts from before it; let its loop begin at step %d",
            dir_, decision.step, latest, restored, restored + 1));
    return;
  }
  if (std::exchange(is_at_work_, true) || !is_root) return;
  Log(LogLevel::kWarning,
      absl::StrFormat(
          "save \"%s\": step %d is not saved, and no step will be up to the "
          "latest one there, %d, because this manager has not restored "
          "anything; call Restore or RestoreOrInitialize first to go on from "
          "step %d, or use an empty directory to begin anew",
          dir_, decision.step, latest, latest));
}

Status Impl::CheckOptions() const {
  const auto text = operators_.find("BELAY_OPTIONS");
  if (const Status valid = CheckManagerOptions(options_); !valid.ok()) {
    if (text == operators_.end()) return valid;
    return Status(valid.code(), Cat(valid.message(),
                                    "; the environment sets "
                                    "BELAY_OPTIONS=",
                                    QuotedText(text->second)));
  }
  return CheckSaveOptions(Cat("manage \"", dir_, "\""), options_.save);
}

// Checks that arguments are valid, and equal on all ranks. Collective.
Agreed<> Impl::CheckArguments(CommContext& context) const {
  BELAY_RETURN_IF_AGREED(Agree(context, CheckOptions()));
  BELAY_RETURN_IF_AGREED(AgreeSameText(context, "manage: the directory", dir_));
  return AgreeOnArguments(context, "manage", AllCommonOptions(options_));
}

// Adds a note on the number of steps that no manager has saved.
void Impl::NoteStrangers(std::vector<std::string>& notes) const {
  const size_t strangers = history_.steps.size() - state_.steps.size();
  if (strangers == 0) return;
  notes.push_back(absl::StrFormat(
      "%d of the steps %s saved by no manager; %s never deleted", strangers,
      strangers == 1 ? "was" : "were", strangers == 1 ? "it is" : "they are"));
}

// Reads state and steps from disk. Rank 0 only.
Status Impl::ReadFiles(std::vector<std::string>& notes) {
  BELAY_ASSIGN_OR_RETURN(std::optional<ManagerState> stored,
                         ReadState(dir_, options_.prefix));
  state_.going_back = stored ? stored->going_back : std::nullopt;
  BELAY_ASSIGN_OR_RETURN(std::vector<int64_t> steps, StepsOnDisk());
  BELAY_ASSIGN_OR_RETURN(const double now, Now());
  RecoveredState recovered = RecoverState(std::move(stored), steps, now);
  state_ = std::move(recovered.state);
  SetSteps(std::move(steps));
  notes.insert(notes.end(), recovered.notes.begin(), recovered.notes.end());
  NoteStrangers(notes);
  if (!state_.going_back || options_.read_only) return absl::OkStatus();
  BELAY_ASSIGN_OR_RETURN(const AsideOutcome outcome, FinishGoingBack());
  notes.push_back(absl::StrFormat(
      "went back to step %d, as a job that ended meanwhile had begun to",
      state_.going_back->to));
  notes.insert(notes.end(), outcome.notes.begin(), outcome.notes.end());
  state_.going_back.reset();
  return absl::OkStatus();
}

// Returns the seconds to wait for the lease. After a node has died, its job may
// restart before the file server releases the lock, which may take two minutes
// on NFS.
double Impl::LeasePatience() const {
  constexpr double kMax = 120;
  const StatusOr<JobEnvironment> job = ReadJobEnvironment();
  if (!job.ok() || job->restart_count == 0) return 0;
  const double deadline = options_.save.deadline_seconds;
  return deadline > 0 ? std::min(kMax, deadline / 2) : kMax;
}

// Rank 0 only.
Status Impl::Prepare() {
  const ManagerOptions& options = options_;
  if (options.read_only) {
    BELAY_ASSIGN_OR_RETURN(const bool exists, Exists(dir_));
    if (!exists) {
      notes_.push_back(
          absl::StrCat("there is no directory \"", dir_, "\" yet"));
      return absl::OkStatus();
    }
    return CheckIsNoStep("manage", dir_);
  }
  BELAY_RETURN_IF_ERROR(CheckIsNoStep("manage", dir_));
  BELAY_RETURN_IF_ERROR(EnsureRunDirectory(dir_, options.save.durable));
  StatusOr<Lease> lease = Lease::Take(LeasePath(dir_, options.prefix),
                                      ThisProcess(), LeasePatience());
  if (absl::IsPermissionDenied(lease.status())) {
    return absl::PermissionDeniedError(
        absl::StrCat(lease.status().message(),
                     "; a program that only restores sets the option "
                     "read_only"));
  }
  BELAY_RETURN_IF_ERROR(lease.status());
  lease_ = *std::move(lease);
  if (!lease_.note().empty()) notes_.push_back(lease_.note());
  BELAY_ASSIGN_OR_RETURN(
      const std::vector<std::string> cleaned,
      CleanRunDirectory(dir_, options.prefix, options.remove_leftovers));
  notes_.insert(notes_.end(), cleaned.begin(), cleaned.end());
  return absl::OkStatus();
}

// Reads the run on rank 0, and sends the result to all ranks. Collective.
Agreed<> Impl::Share(CommContext& context, absl::FunctionRef<Status()> read) {
  BELAY_ASSIGN_OR_RETURN_AGREED(
      RunMessage message,
      ShareFromRoot<RunMessage>(context, [&]() -> StatusOr<RunMessage> {
        BELAY_RETURN_IF_ERROR(read());
        BELAY_ASSIGN_OR_RETURN(std::string state,
                               StateText(state_, options_.prefix));
        return RunMessage{.steps = history_.steps,
                          .notes = notes_,
                          .lease = lease_.text(),
                          .state = std::move(state)};
      }));
  if (context.is_root()) return {};
  if (message.kind != kRunMessage) return SameOnAllRanks(DifferentCalls());
  notes_ = std::move(message.notes);
  lease_text_ = std::move(message.lease);
  BELAY_ASSIGN_OR_RETURN_AGREED(
      state_, SameOnAllRanks(ParseState(message.state, options_.prefix,
                                        "read a message")));
  SetSteps(std::move(message.steps));
  return {};
}

// Waits until this rank sees the lease that rank 0 holds, and starts to catch
// signals. Collective.
Agreed<> Impl::Join(CommContext& context) {
  const ManagerOptions& options = options_;
  const double patience = SharedDirectorySeconds(options.save.deadline_seconds);
  StatusOr<bool> sees = true;
  // An earlier run may have left a file with this name, so its content is
  // compared.
  if (!options.read_only && !context.is_root()) {
    sees =
        WaitUntilHolds(LeasePath(dir_, options.prefix), lease_text_, patience);
  }
  Status mine = sees.status();
  if (mine.ok() && !options.stop_signals.empty()) {
    mine = CatchStopSignals();
  }
  return AgreeOnSharedDirectory(context, mine, sees.value_or(true), false,
                                Cat("manage \"", dir_, "\""), patience);
}

CheckpointManager::CheckpointManager(std::unique_ptr<Impl> impl)
    : impl_(std::move(impl)) {}

CheckpointManager::CheckpointManager(CheckpointManager&&) noexcept = default;
CheckpointManager& CheckpointManager::operator=(CheckpointManager&&) noexcept =
    default;
CheckpointManager::~CheckpointManager() = default;

StatusOr<CheckpointManager> CheckpointManager::Create(
    Checkpoint& checkpoint, const std::string& dir,
    const ManagerOptions& options) {
  return Begin(std::make_unique<Impl>(ManagedValues(checkpoint), dir, options));
}

StatusOr<CheckpointManager> CheckpointManager::Create(
    const Comm& comm, const State& state, const std::string& dir,
    const ManagerOptions& options) {
  return Begin(
      std::make_unique<Impl>(ManagedValues(comm, state), dir, options));
}

// Collective; agreed.
StatusOr<CheckpointManager> CheckpointManager::Begin(
    std::unique_ptr<Impl> impl) {
  BELAY_RETURN_IF_AGREED(CheckMoved(impl.get(), "manage"));
  BELAY_RETURN_IF_AGREED(impl->Begin());
  return CheckpointManager(std::move(impl));
}

Agreed<> Impl::Begin() {
  BELAY_RETURN_IF_AGREED(TakeOperatorOptions());
  CommContext context = ManagerContext("manage", true);
  BELAY_RETURN_IF_AGREED(CheckArguments(context));
  BELAY_RETURN_IF_AGREED(Share(context, [&]() -> Status {
    BELAY_RETURN_IF_ERROR(Prepare());
    BELAY_RETURN_IF_ERROR(WatchTimeLimit());
    return ReadFiles(notes_);
  }));
  BELAY_RETURN_IF_AGREED(Join(context));
  LogNotes();
  if (options_.async) {
    background_.reset(new BackgroundSaver(values_.comm(), *options_.async));
  }
  return {};
}

// Lists the steps on disk again.
Agreed<> Impl::ReloadSteps() {
  CommContext context = ManagerContext("reload", true);
  return Share(context, [&]() -> Status {
    std::vector<std::string> ignored;
    if (options_.read_only) return ReadFiles(ignored);
    // The state need not be read: nobody else may change it.
    BELAY_ASSIGN_OR_RETURN(std::vector<int64_t> steps, StepsOnDisk());
    SetSteps(std::move(steps));
    return absl::OkStatus();
  });
}

Agreed<> Impl::Reload() {
  BELAY_RETURN_IF_AGREED(SettleUnderWay());
  return ReloadSteps();
}

Status CheckpointManager::Reload() {
  BELAY_RETURN_IF_AGREED(CheckMoved(impl_.get(), "reload"));
  return impl_->Reload();
}

std::vector<int64_t> CheckpointManager::Steps() const {
  if (impl_ == nullptr) return {};
  return impl_->history_.steps;
}

std::optional<int64_t> CheckpointManager::LatestStep() const {
  if (impl_ == nullptr) return std::nullopt;
  return FindLatest(impl_->history_);
}

StatusOr<std::optional<int64_t>> CheckpointManager::BestStep() const {
  BELAY_RETURN_IF_ERROR(CheckMoved(impl_.get(), "find the best step of"));
  return HasBest(impl_->options_.retention) ? impl_->BestStep() : LatestStep();
}

StatusOr<std::optional<int64_t>> Impl::BestStep() const {
  std::vector<StepRecord> records = state_.steps;
  std::erase_if(records, [&](const StepRecord& record) {
    return std::ranges::binary_search(history_.damaged, record.step);
  });
  return FindBest(options_.retention, records);
}

StatusOr<Metrics> CheckpointManager::StepMetrics(int64_t step) const {
  BELAY_RETURN_IF_ERROR(CheckMoved(impl_.get(), "find metrics of"));
  for (const StepRecord& record : impl_->state_.steps) {
    if (record.step == step && record.metrics) return *record.metrics;
  }
  return absl::NotFoundError(absl::StrFormat(
      "find metrics of \"%s\": there are none", StepPath(step)));
}

std::vector<StepRecord> CheckpointManager::StepRecords() const {
  if (impl_ == nullptr) return {};
  std::vector<StepRecord> active = impl_->state_.steps;
  std::erase_if(active,
                [](const StepRecord& record) { return record.preserved; });
  return active;
}

std::string CheckpointManager::StepPath(int64_t step) const {
  return impl_ == nullptr ? std::string() : impl_->StepPath(step);
}

const std::vector<std::string>& CheckpointManager::notes() const {
  static const std::vector<std::string> none;
  return impl_ == nullptr ? none : impl_->notes_;
}

// Reads the operator's variables on rank 0. They override the program's
// options, which is noted. Collective; agreed.
// Errors: those of ParseOperatorOptions.
Agreed<> Impl::TakeOperatorOptions() {
  CommContext context = ManagerContext("manage", false);
  BELAY_ASSIGN_OR_RETURN_AGREED(const OperatorMessage message,
                                ShareFromRoot<OperatorMessage>(context, [&] {
                                  return ReadVariables(dir_);
                                }));
  if (message.kind != kOperatorMessage ||
      message.values.size() != OperatorVariables().size()) {
    return SameOnAllRanks(DifferentCalls());
  }
  BELAY_ASSIGN_OR_RETURN_AGREED(
      operators_, SameOnAllRanks(ParseOperatorOptions(
                      [&](std::string_view name) -> const char* {
                        const auto& known = OperatorVariables();
                        const auto found = std::ranges::find(known, name);
                        if (found == known.end()) return nullptr;
                        return message.values[found - known.begin()].c_str();
                      })));
  if (context.is_root()) WarnOfVariables();
  notes_ = ApplyOperatorOptions(operators_, dir_, options_);
  return {};
}

}  // namespace belay
