// Creates managers, reads their files, and applies the variables of an
// operator.
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
#include "core/log.h"
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
namespace {

using Impl = CheckpointManager::Impl;

Status CheckOptions(const Impl& impl) {
  BELAY_RETURN_IF_ERROR(CheckManagerOptions(impl.options));
  return CheckSaveOptions(Cat("manage \"", impl.dir, "\""), impl.options.save);
}

std::vector<CommonOption> CommonOptions(const ManagerOptions& options) {
  std::vector<CommonOption> common = CommonManagerOptions(options);
  for (CommonOption& option : CommonSaveOptions(options.save)) {
    common.push_back({"save." + option.name, std::move(option.bytes)});
  }
  return common;
}

// The arguments are sound, and equal on all ranks. Collective.
Agreed<> CheckArguments(CommContext& context, const Impl& impl) {
  BELAY_RETURN_IF_AGREED(Agree(context, CheckOptions(impl)));
  BELAY_RETURN_IF_AGREED(
      AgreeSameText(context, "manage: the directory", impl.dir));
  WireWriter all;
  const std::vector<CommonOption> common = CommonOptions(impl.options);
  for (const CommonOption& option : common) all.PutText(option.bytes);
  Agreed<> same =
      AgreeSame(context, "manage: an option", Fingerprint(all.bytes()));
  if (same.ok()) return same;
  for (const CommonOption& option : common) {
    BELAY_RETURN_IF_AGREED(AgreeSame(context,
                                     Cat("manage: the option ", option.name),
                                     Fingerprint(option.bytes)));
  }
  return same;
}

// Counts the steps that no manager has saved.
void NoteStrangers(const Impl& impl, std::vector<std::string>& notes) {
  const size_t strangers = impl.history.steps.size() - impl.state.steps.size();
  if (strangers == 0) return;
  notes.push_back(absl::StrFormat(
      "%d of the steps %s saved by no manager; %s never deleted", strangers,
      strangers == 1 ? "was" : "were", strangers == 1 ? "it is" : "they are"));
}

// Reads what is on disk. Rank 0 only.
Status ReadFiles(Impl& impl, std::vector<std::string>& notes) {
  BELAY_ASSIGN_OR_RETURN(std::optional<ManagerState> stored,
                         ReadState(impl.dir, impl.options.prefix));
  impl.state.going_back = stored ? stored->going_back : std::nullopt;
  BELAY_ASSIGN_OR_RETURN(std::vector<int64_t> steps, StepsOnDisk(impl));
  BELAY_ASSIGN_OR_RETURN(const double now, Now(impl.options));
  RecoveredState recovered = RecoverState(std::move(stored), steps, now);
  impl.state = std::move(recovered.state);
  SetSteps(std::move(steps), impl);
  notes.insert(notes.end(), recovered.notes.begin(), recovered.notes.end());
  NoteStrangers(impl, notes);
  if (!impl.state.going_back || impl.options.read_only) return absl::OkStatus();
  BELAY_ASSIGN_OR_RETURN(const AsideOutcome outcome, FinishGoingBack(impl));
  notes.push_back(absl::StrFormat(
      "went back to step %d, as a job that ended meanwhile had begun to",
      impl.state.going_back->to));
  notes.insert(notes.end(), outcome.notes.begin(), outcome.notes.end());
  impl.state.going_back.reset();
  return absl::OkStatus();
}

// Seconds. When a node has died, its job is started again before the file
// server knows that nobody holds the lock any more: NFS may take two minutes.
double LeasePatience(const ManagerOptions& options) {
  constexpr double kMost = 120;
  const StatusOr<JobEnvironment> job = ReadJobEnvironment();
  if (!job.ok() || job->restart_count == 0) return 0;
  const double deadline = options.save.deadline_seconds;
  return deadline > 0 ? std::min(kMost, deadline / 2) : kMost;
}

// Rank 0 only.
Status Prepare(Impl& impl) {
  const ManagerOptions& options = impl.options;
  if (options.read_only) {
    BELAY_ASSIGN_OR_RETURN(const bool exists, Exists(impl.dir));
    if (!exists) {
      impl.notes.push_back(
          absl::StrCat("there is no directory \"", impl.dir, "\" yet"));
      return absl::OkStatus();
    }
    return CheckIsNoStep("manage", impl.dir);
  }
  BELAY_RETURN_IF_ERROR(CheckIsNoStep("manage", impl.dir));
  BELAY_RETURN_IF_ERROR(EnsureRunDirectory(impl.dir, options.save.durable));
  StatusOr<Lease> lease = Lease::Take(LeasePath(impl.dir, options.prefix),
                                      ThisProcess(), LeasePatience(options));
  if (absl::IsPermissionDenied(lease.status())) {
    return absl::PermissionDeniedError(
        absl::StrCat(lease.status().message(),
                     "; a program that only restores sets the option "
                     "read_only"));
  }
  BELAY_RETURN_IF_ERROR(lease.status());
  impl.lease = *std::move(lease);
  if (!impl.lease.note().empty()) impl.notes.push_back(impl.lease.note());
  BELAY_ASSIGN_OR_RETURN(
      const std::vector<std::string> cleaned,
      CleanRunDirectory(impl.dir, options.prefix, options.remove_leftovers));
  impl.notes.insert(impl.notes.end(), cleaned.begin(), cleaned.end());
  return absl::OkStatus();
}

// How a message of rank 0 begins that may be the first one of its call.
constexpr std::string_view kRunMessage = "run";

// Rank 0 only.
StatusOr<std::string> Describe(const Impl& impl) {
  WireWriter out;
  out.PutText(kRunMessage);
  PutSteps(impl.history.steps, out);
  PutTexts(impl.notes, out);
  out.PutText(impl.lease.text());
  BELAY_ASSIGN_OR_RETURN(const std::string state,
                         StateText(impl.state, impl.options.prefix));
  out.PutText(state);
  return out.Take();
}

// Gives all ranks what rank 0 has read. Collective.
Agreed<> Share(CommContext& context, Impl& impl,
               absl::FunctionRef<Status()> read) {
  BELAY_ASSIGN_OR_RETURN_AGREED(
      const std::string bytes,
      FromRoot(context, [&]() -> StatusOr<std::string> {
        BELAY_RETURN_IF_ERROR(read());
        return Describe(impl);
      }));
  if (context.is_root()) return {};
  WireReader in(bytes);
  if (in.GetText() != kRunMessage) return SameOnAllRanks(DifferentCalls());
  std::vector<int64_t> steps = GetSteps(in);
  impl.notes = GetTexts(in);
  impl.lease_text = in.GetText();
  // Rank 0 has just written it.
  BELAY_ASSIGN_OR_RETURN_AGREED(
      impl.state, SameOnAllRanks(ParseState(in.GetText(), impl.options.prefix,
                                            "read a message")));
  SetSteps(std::move(steps), impl);
  return {};
}

// What every rank does once rank 0 holds the lease: looks for it, and begins to
// catch signals. Collective.
Agreed<> Join(CommContext& context, Impl& impl) {
  const ManagerOptions& options = impl.options;
  const double patience = SharedDirectorySeconds(options.save.deadline_seconds);
  StatusOr<bool> sees = true;
  // Not only the file: an earlier run may have left one of that name. Rank 0
  // has it open.
  if (!options.read_only && !context.is_root()) {
    sees = WaitUntilHolds(LeasePath(impl.dir, options.prefix), impl.lease_text,
                          patience);
  }
  Status mine = sees.status();
  if (mine.ok() && !options.stop_signals.empty()) {
    mine = CatchStopSignals(impl);
  }
  return AgreeOnSharedDirectory(context, mine, sees.value_or(true), false,
                                Cat("manage \"", impl.dir, "\""), patience);
}

}  // namespace

CheckpointManager::CheckpointManager(std::unique_ptr<Impl> impl)
    : impl_(std::move(impl)) {}

CheckpointManager::CheckpointManager(CheckpointManager&&) noexcept = default;
CheckpointManager& CheckpointManager::operator=(CheckpointManager&&) noexcept =
    default;
CheckpointManager::~CheckpointManager() = default;

StatusOr<CheckpointManager> CheckpointManager::Create(
    Checkpoint& checkpoint, const std::string& dir,
    const ManagerOptions& options) {
  return Begin(std::make_unique<Impl>(Impl{
      .values = ManagedValues(checkpoint), .dir = dir, .options = options}));
}

StatusOr<CheckpointManager> CheckpointManager::Create(
    const Comm& comm, const State& state, const std::string& dir,
    const ManagerOptions& options) {
  return Begin(std::make_unique<Impl>(Impl{
      .values = ManagedValues(comm, state), .dir = dir, .options = options}));
}

// Collective; agreed.
StatusOr<CheckpointManager> CheckpointManager::Begin(
    std::unique_ptr<Impl> impl) {
  BELAY_RETURN_IF_AGREED(CheckMoved(impl.get(), "manage"));
  BELAY_RETURN_IF_AGREED(TakeOperatorOptions(*impl));
  CommContext context = ManagerContext(*impl, "manage", true);
  BELAY_RETURN_IF_AGREED(CheckArguments(context, *impl));
  const auto begin = [&]() -> Status {
    BELAY_RETURN_IF_ERROR(Prepare(*impl));
    BELAY_RETURN_IF_ERROR(WatchTimeLimit(*impl));
    return ReadFiles(*impl, impl->notes);
  };
  BELAY_RETURN_IF_AGREED(Share(context, *impl, begin));
  BELAY_RETURN_IF_AGREED(Join(context, *impl));
  LogNotes(*impl);
  if (impl->options.async) {
    impl->background.reset(
        new BackgroundSaver(impl->values.comm(), *impl->options.async));
  }
  return CheckpointManager(std::move(impl));
}

Agreed<> ReloadSteps(CheckpointManager::Impl& impl) {
  CommContext context = ManagerContext(impl, "reload", true);
  return Share(context, impl, [&]() -> Status {
    std::vector<std::string> ignored;
    if (impl.options.read_only) return ReadFiles(impl, ignored);
    // Nobody else may change the state.
    BELAY_ASSIGN_OR_RETURN(std::vector<int64_t> steps, StepsOnDisk(impl));
    SetSteps(std::move(steps), impl);
    return absl::OkStatus();
  });
}

Status CheckpointManager::Reload() {
  BELAY_RETURN_IF_AGREED(CheckMoved(impl_.get(), "reload"));
  BELAY_RETURN_IF_AGREED(SettleUnderWay(*impl_));
  return ReloadSteps(*impl_);
}

std::vector<int64_t> CheckpointManager::AllSteps() const {
  if (impl_ == nullptr) return {};
  return impl_->history.steps;
}

std::optional<int64_t> CheckpointManager::Latest() const {
  if (impl_ == nullptr) return std::nullopt;
  return LatestOf(impl_->history);
}

StatusOr<std::optional<int64_t>> CheckpointManager::BestStep() const {
  BELAY_RETURN_IF_ERROR(CheckMoved(impl_.get(), "find the best step of"));
  if (!HasBest(impl_->options)) return Latest();
  std::vector<StepRecord> records = impl_->state.steps;
  const std::vector<int64_t>& damaged = impl_->history.damaged;
  std::erase_if(records, [&](const StepRecord& record) {
    return std::binary_search(damaged.begin(), damaged.end(), record.step);
  });
  return BestOf(impl_->options, records);
}

StatusOr<Metrics> CheckpointManager::MetricsOf(int64_t step) const {
  BELAY_RETURN_IF_ERROR(CheckMoved(impl_.get(), "find metrics of"));
  for (const StepRecord& record : impl_->state.steps) {
    if (record.step == step && record.metrics) return *record.metrics;
  }
  return absl::NotFoundError(
      absl::StrFormat("find metrics of \"%s\": there are none", Path(step)));
}

std::vector<StepRecord> CheckpointManager::Checkpoints() const {
  if (impl_ == nullptr) return {};
  std::vector<StepRecord> active = impl_->state.steps;
  std::erase_if(active,
                [](const StepRecord& record) { return record.preserved; });
  return active;
}

std::string CheckpointManager::Path(int64_t step) const {
  return impl_ == nullptr ? std::string() : impl_->Path(step);
}

const std::vector<std::string>& CheckpointManager::notes() const {
  static const std::vector<std::string> none;
  return impl_ == nullptr ? none : impl_->notes;
}

// What an operator says by the environment, on all ranks.

namespace {

using Impl = CheckpointManager::Impl;

// How the message of rank 0 begins. It is the first one of its call.
constexpr std::string_view kOperatorMessage = "operator options";

// The variables of this process, once they are known to be sound. Rank 0 only.
StatusOr<std::string> ReadVariables(const std::string& dir) {
  std::vector<std::string> texts;
  for (const char* const name : kOperatorVariables) {
    const char* const value = std::getenv(name);
    texts.emplace_back(value == nullptr ? "" : value);
  }
  WireWriter out;
  out.PutText(kOperatorMessage);
  PutTexts(texts, out);
  const Status sound = ParseOperatorOptions([](const char* name) {
                         return std::getenv(name);
                       }).status();
  if (sound.ok()) return out.Take();
  return Status(sound.code(),
                absl::StrCat("manage \"", dir, "\": ", sound.message()));
}

// Nobody sees otherwise that a variable was not read. Rank 0 only.
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

Agreed<> TakeOperatorOptions(Impl& impl) {
  CommContext context = ManagerContext(impl, "manage", false);
  BELAY_ASSIGN_OR_RETURN_AGREED(const std::string bytes, FromRoot(context, [&] {
                                  return ReadVariables(impl.dir);
                                }));
  WireReader in(bytes);
  if (in.GetText() != kOperatorMessage) return SameOnAllRanks(DifferentCalls());
  const std::vector<std::string> texts = GetTexts(in);
  BELAY_ASSIGN_OR_RETURN_AGREED(
      impl.operators,
      SameOnAllRanks(
          ParseOperatorOptions([&](const char* wanted) -> const char* {
            for (size_t i = 0; i < texts.size(); ++i) {
              if (std::string_view(kOperatorVariables[i]) == wanted) {
                return texts[i].c_str();
              }
            }
            return nullptr;
          })));
  if (context.is_root()) WarnOfVariables();
  impl.notes = ApplyOperatorOptions(impl.operators, impl.dir, impl.options);
  return {};
}

}  // namespace belay
