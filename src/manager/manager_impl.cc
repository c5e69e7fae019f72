#include "manager/manager_impl.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/catch_exceptions.h"
#include "core/log.h"
#include "core/process.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "format/paths.h"
#include "manager/manager_files.h"
#include "pipeline/stages.h"
#include "storage/belay_files.h"
#include "storage/commit.h"
#include "storage/posix_file.h"

namespace belay {

std::string CheckpointManager::Impl::Path(int64_t step) const {
  return JoinPath(dir, StepName(step, options.prefix));
}

Agreed<> CheckMoved(const CheckpointManager::Impl* impl,
                    std::string_view operation) {
  if (impl != nullptr) {
    return CheckComm(impl->values.comm(), operation, impl->dir);
  }
  return SameOnAllRanks(absl::FailedPreconditionError(
      Cat(operation, " \"CheckpointManager\": it was moved from")));
}

CommContext ManagerContext(const CheckpointManager::Impl& impl,
                           std::string_view operation, bool slow) {
  const Comm& comm = impl.values.comm();
  return {comm, Deadline(comm, impl.options.save.deadline_seconds,
                         Cat(operation, " \"", impl.dir, "\""), slow)};
}

StatusOr<SaveDecision> DecideHere(const CheckpointManager::Impl& impl,
                                  const SaveRequest& request) {
  return DecideHere(impl, impl.history, request);
}

StatusOr<SaveDecision> DecideHere(const CheckpointManager::Impl& impl,
                                  const SaveHistory& history,
                                  const SaveRequest& request) {
  StatusOr<SaveDecision> decision = DecideSave(impl.options, history, request);
  if (decision.ok()) return decision;
  return Status(
      decision.status().code(),
      absl::StrCat("save \"", impl.dir, "\": ", decision.status().message()));
}

Deadline WatchFiles(const CheckpointManager::Impl& impl,
                    std::string_view operation) {
  Deadline deadline(impl.values.comm(), impl.options.save.deadline_seconds,
                    Cat(operation, " \"", impl.dir, "\""));
  deadline.Enter("look");
  return deadline;
}

SaveRequest RequestOf(const CheckpointManager::Impl& impl,
                      std::optional<int64_t> step) {
  return {.step = step,
          .counter = CounterOf(impl.options),
          .save_counter = impl.values.save_counter()};
}

StatusOr<double> Now(const ManagerOptions& options) {
  if (options.clock) {
    StatusOr<double> now = CatchExceptions([&] { return options.clock(); });
    if (now.ok()) return now;
    return absl::InternalError(
        absl::StrCat("ask the clock: ", now.status().message()));
  }
  return SteadyUnixTime();
}

StatusOr<std::vector<int64_t>> StepsOnDisk(
    const CheckpointManager::Impl& impl) {
  if (impl.options.read_only) {
    BELAY_ASSIGN_OR_RETURN(const bool exists, Exists(impl.dir));
    if (!exists) return std::vector<int64_t>();
  }
  BELAY_ASSIGN_OR_RETURN(std::vector<int64_t> steps,
                         CommittedSteps(impl.dir, impl.options.prefix));
  if (impl.state.going_back) {
    steps.erase(std::ranges::upper_bound(steps, impl.state.going_back->to),
                steps.end());
  }
  return steps;
}

Status CheckStepIsThere(const CheckpointManager::Impl& impl,
                        std::string_view operation, int64_t step) {
  if (step < 0) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s \"%s\": step is out of range (need 0 to %d, found %d)",
        AbslView(operation), impl.dir, INT64_MAX, step));
  }
  BELAY_ASSIGN_OR_RETURN(const bool is_there, Exists(impl.Path(step)));
  const std::optional<GoingBack>& going_back = impl.state.going_back;
  if (is_there && !(going_back && step > going_back->to)) {
    return absl::OkStatus();
  }
  BELAY_ASSIGN_OR_RETURN(const std::vector<int64_t> steps, StepsOnDisk(impl));
  return absl::NotFoundError(absl::StrFormat("%s \"%s\": no step %d; %s",
                                             AbslView(operation), impl.dir,
                                             step, StepsText(steps)));
}

void SetSteps(std::vector<int64_t> steps, CheckpointManager::Impl& impl) {
  TakeSteps(std::move(steps), impl.history);
  KeepOnly(impl.history.steps, impl.state.steps);
}

Status WriteStateOf(const CheckpointManager::Impl& impl,
                    const ManagerState& state) {
  impl.cleanup.Finish();
  return WriteState(impl.dir, impl.options.prefix, state,
                    impl.options.save.durable);
}

std::optional<int64_t> CounterOf(const ManagerOptions& options) {
  if (options.step_counter == nullptr) return std::nullopt;
  return *options.step_counter;
}

void PutStepRecord(const StepRecord& record, WireWriter& out) {
  out.Put(record.step);
  out.Put(record.time);
  out.Put(record.metrics.has_value());
  const Metrics metrics = record.metrics.value_or(Metrics());
  out.Put<uint64_t>(metrics.size());
  for (const auto& [name, value] : metrics) {
    out.PutText(name);
    out.Put(value);
  }
}

StepRecord GetStepRecord(WireReader& in) {
  StepRecord record{.step = in.Get<int64_t>(), .time = in.Get<double>()};
  const bool has_metrics = in.Get<bool>();
  Metrics metrics;
  const auto count = in.Get<uint64_t>();
  for (uint64_t i = 0; i < count && in.ok(); ++i) {
    const std::string name(in.GetText());
    metrics[name] = in.Get<double>();
  }
  if (has_metrics) record.metrics = std::move(metrics);
  return record;
}

void LogNotes(CheckpointManager::Impl& impl,
              const std::vector<std::string>& more) {
  const size_t first = std::exchange(impl.num_logged, impl.notes.size());
  if (impl.values.comm().rank() != 0) return;
  for (size_t i = first; i < impl.notes.size(); ++i) {
    Log(LogLevel::kInfo, impl.notes[i]);
  }
  for (const std::string& note : more) Log(LogLevel::kWarning, note);
}

void WarnIfBehind(CheckpointManager::Impl& impl, const SaveDecision& decision) {
  if (!decision.is_behind) return;
  const int64_t latest = LatestOf(impl.history).value_or(decision.step);
  const bool is_root = impl.values.comm().rank() == 0;
  if (impl.goes_on_from && decision.step < *impl.goes_on_from) {
    const int64_t restored = *std::exchange(impl.goes_on_from, std::nullopt);
    if (!is_root) return;
    Log(LogLevel::kWarning,
        absl::StrFormat(
            "save \"%s\": step %d is not saved, and no step will be up to the "
            "latest one there, %d: step %d was restored, but the program "
            "counts "
            "from before it; let its loop begin at step %d",
            impl.dir, decision.step, latest, restored, restored + 1));
    return;
  }
  if (std::exchange(impl.is_at_work, true) || !is_root) return;
  Log(LogLevel::kWarning,
      absl::StrFormat(
          "save \"%s\": step %d is not saved, and no step will be up to the "
          "latest one there, %d, because this manager has not restored "
          "anything; call Restore or RestoreOrInitialize first to go on from "
          "step %d, or use an empty directory to begin anew",
          impl.dir, decision.step, latest, latest));
}

void PutSteps(const std::vector<int64_t>& steps, WireWriter& out) {
  out.Put<uint64_t>(steps.size());
  for (const int64_t step : steps) out.Put(step);
}

std::vector<int64_t> GetSteps(WireReader& in) {
  return in.GetAll<int64_t>([&] { return in.Get<int64_t>(); });
}

void PutOptional(std::optional<int64_t> value, WireWriter& out) {
  out.Put(value.has_value());
  out.Put(value.value_or(0));
}

std::optional<int64_t> GetOptional(WireReader& in) {
  const bool has_value = in.Get<bool>();
  const auto value = in.Get<int64_t>();
  return has_value ? std::optional(value) : std::nullopt;
}

void PutTexts(const std::vector<std::string>& texts, WireWriter& out) {
  out.Put<uint64_t>(texts.size());
  for (const std::string& text : texts) out.PutText(text);
}

std::vector<std::string> GetTexts(WireReader& in) {
  return in.GetAll<std::string>([&] { return std::string(in.GetText()); });
}

}  // namespace belay
