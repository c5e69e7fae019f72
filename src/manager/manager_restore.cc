// Restoring: the newest step that can be.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/agreed.h"
#include "core/catch_exceptions.h"
#include "core/status_macros.h"
#include "core/wire.h"
#include "manager/manager_files.h"
#include "manager/manager_impl.h"
#include "mpi/collective.h"
#include "pipeline/result_text.h"
#include "storage/belay_files.h"
#include "storage/posix_file.h"

namespace belay {
namespace {

using Impl = CheckpointManager::Impl;

// What a failure to restore a step means.
enum class Verdict : char {
  kDamaged = 'd',  // an older step may do
  kGone = 'g',     // another manager has deleted it meanwhile
  kOther = 'o',    // the step is well, the program or the system is not
};

// Rank 0 only.
StatusOr<Verdict> JudgeStep(const std::string& path, const Status& failure) {
  BELAY_ASSIGN_OR_RETURN(const bool is_there, Exists(path));
  if (!is_there) return Verdict::kGone;
  if (absl::IsFailedPrecondition(failure)) return Verdict::kOther;
  if (absl::IsDataLoss(failure)) return Verdict::kDamaged;
  return CheckStepOpens(path).ok() ? Verdict::kOther : Verdict::kDamaged;
}

// Asks the files where the code of the failure does not say. Another dtype or
// shape is not damage. Collective.
Agreed<Verdict> JudgeFailure(const Impl& impl, int64_t step,
                             const Status& failure) {
  // A rank that finds nothing at all may have come after a deletion.
  if (!absl::IsDataLoss(failure) && !absl::IsNotFound(failure) &&
      !absl::IsUnimplemented(failure) && !absl::IsFailedPrecondition(failure)) {
    return Verdict::kOther;
  }
  CommContext context = ManagerContext(impl, "restore", true);
  BELAY_ASSIGN_OR_RETURN_AGREED(
      const std::string verdict,
      FromRoot(context, [&]() -> StatusOr<std::string> {
        BELAY_ASSIGN_OR_RETURN(const Verdict judged,
                               JudgeStep(impl.Path(step), failure));
        return std::string(1, static_cast<char>(judged));
      }));
  return static_cast<Verdict>(verdict[0]);
}

Status NothingCanBeRestored(const Impl& impl,
                            const std::vector<SkippedStep>& skipped) {
  std::string message = absl::StrFormat("restore \"%s\": ", impl.dir);
  if (skipped.size() == 1) {
    absl::StrAppend(&message, "the only step cannot be restored");
  } else {
    absl::StrAppendFormat(&message, "none of the %d steps can be restored",
                          skipped.size());
  }
  for (const SkippedStep& step : skipped) {
    absl::StrAppend(&message, "\n  step ", step.step, ": ",
                    step.status.message());
  }
  return absl::DataLossError(message);
}

// Collective; agreed.
Agreed<> CheckMatch(const Impl& impl, int64_t step,
                    const ManagedRestore& restored) {
  Status matched = impl.values.CheckMatch(restored, impl.options.restore_match);
  if (!matched.ok()) {
    matched = Status(
        matched.code(),
        absl::StrFormat("restore \"%s\": %s; ManagerOptions::restore_match "
                        "says how much has to match",
                        impl.Path(step), matched.message()));
  }
  CommContext context = ManagerContext(impl, "restore", false);
  return Agree(context, matched);
}

// A step was restored.
void RememberRestore(Impl& impl, const ManagedRestore& restored) {
  for (const SkippedStep& skipped : restored.skipped) {
    impl.history.damaged.push_back(skipped.step);
  }
  impl.is_at_work = true;
  impl.goes_on_from = restored.step;
  std::vector<int64_t>& damaged = impl.history.damaged;
  std::sort(damaged.begin(), damaged.end());
  damaged.erase(std::unique(damaged.begin(), damaged.end()), damaged.end());
  if (restored.step) std::erase(damaged, *restored.step);
  impl.history.counter = CounterOf(impl.options);
  impl.last_saved.reset();
  impl.history.restored.reset();
}

// The newest step that was not passed over.
std::optional<int64_t> NextToTry(const Impl& impl,
                                 const ManagedRestore& restored) {
  const std::vector<int64_t>& steps = impl.history.steps;
  for (size_t i = steps.size(); i-- > 0;) {
    if (std::none_of(restored.skipped.begin(), restored.skipped.end(),
                     [&](const SkippedStep& skipped) {
                       return skipped.step == steps[i];
                     })) {
      return steps[i];
    }
  }
  return std::nullopt;
}

// Collective; agreed.
Agreed<ManagedRestore> RestoreNewest(CheckpointManager& manager, Impl& impl,
                                     const RestoreOptions& options) {
  ManagedRestore restored;
  while (const std::optional<int64_t> step = NextToTry(impl, restored)) {
    Agreed<ManagedRestore> loaded = impl.values.Restore(
        impl.Path(*step), *step, impl.options.restore_match, options);
    if (loaded.ok()) {
      BELAY_RETURN_IF_AGREED(CheckMatch(impl, *step, *loaded));
      loaded->skipped = std::move(restored.skipped);
      restored = *std::move(loaded);
      RememberRestore(impl, restored);
      return restored;
    }
    BELAY_ASSIGN_OR_RETURN_AGREED(const Verdict verdict,
                                  JudgeFailure(impl, *step, loaded.status()));
    if (verdict == Verdict::kOther) return loaded.error();
    if (verdict == Verdict::kDamaged) {
      restored.skipped.push_back({*step, WithoutEarlierStep(loaded.status())});
    } else {
      BELAY_RETURN_IF_AGREED(SameOnAllRanks(manager.Reload()));
    }
  }
  if (restored.skipped.empty()) return restored;
  return SameOnAllRanks(NothingCanBeRestored(impl, restored.skipped)).error();
}

// Collective.
Agreed<ManagedRestore> RestoreOne(Impl& impl, int64_t step,
                                  const RestoreOptions& options) {
  {
    CommContext context = ManagerContext(impl, "restore", true);
    BELAY_RETURN_IF_AGREED(OnRoot(
        context, [&] { return CheckStepIsThere(impl, "restore", step); }));
  }
  BELAY_ASSIGN_OR_RETURN_AGREED(
      ManagedRestore restored,
      impl.values.Restore(impl.Path(step), step, impl.options.restore_match,
                          options));
  BELAY_RETURN_IF_AGREED(CheckMatch(impl, step, restored));
  RememberRestore(impl, restored);
  if (LatestOf(impl.history) > step) impl.history.restored = step;
  if (impl.options.newer_steps != NewerSteps::kRefuse) {
    BELAY_RETURN_IF_AGREED(RollBack(impl, step, restored));
  }
  return restored;
}

// Whether both numbers are times to wait.
Status CheckWait(double timeout_seconds, double poll_seconds) {
  if (timeout_seconds >= 0 && poll_seconds > 0 && std::isfinite(poll_seconds)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrFormat(
      "wait for a step: seconds out of range (need at least 0 and more than "
      "0, found %g and %g)",
      timeout_seconds, poll_seconds));
}

double Since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
      .count();
}

}  // namespace

std::string ManagedRestore::ToString() const {
  std::string text =
      step ? absl::StrCat("restored step ", *step) : "restored nothing";
  if (result) text = result->ToString();
  for (const SkippedStep& other : skipped) {
    absl::StrAppend(&text, "\nskipped step ", other.step, ": ",
                    other.status.ToString());
  }
  if (!set_aside.empty()) {
    absl::StrAppend(&text, "\nset aside in \"", aside,
                    "\": ", absl::StrJoin(set_aside, ", "));
  }
  if (!deleted.empty()) {
    absl::StrAppend(&text, "\ndeleted: ", absl::StrJoin(deleted, ", "));
  }
  return text;
}

StatusOr<ManagedRestore> CheckpointManager::Restore(
    std::optional<int64_t> step, const RestoreOptions& options) {
  BELAY_RETURN_IF_AGREED(CheckMoved(impl_.get(), "restore"));
  Impl& impl = *impl_;
  BELAY_RETURN_IF_AGREED(SettleUnderWay(impl));
  {
    CommContext context = ManagerContext(impl, "restore", false);
    BELAY_RETURN_IF_AGREED(AgreeSameText(context, "restore: the step",
                                         step ? absl::StrCat(*step) : "none"));
  }
  const std::optional<double> began = TimeOfRestore(impl);
  if (step) {
    BELAY_ASSIGN_OR_RETURN_AGREED(ManagedRestore restored,
                                  RestoreOne(impl, *step, options));
    if (restored.step) NoteRestore(began, impl);
    return restored;
  }
  BELAY_RETURN_IF_AGREED(ReloadSteps(impl));
  BELAY_ASSIGN_OR_RETURN_AGREED(ManagedRestore restored,
                                RestoreNewest(*this, impl, options));
  if (restored.step) {
    NoteRestore(began, impl);
  } else {
    LogNoStep(ManagerContext(impl, "restore", false), impl.dir);
  }
  return restored;
}

StatusOr<ManagedRestore> CheckpointManager::RestoreOrInitialize(
    const RestoreOptions& options) {
  BELAY_ASSIGN_OR_RETURN_AGREED(ManagedRestore restored,
                                SameOnAllRanks(Restore(std::nullopt, options)));
  const auto& init_fn = impl_->options.init_fn;
  if (restored.step || init_fn == nullptr) return restored;
  const Status done = CatchExceptions([&] { return init_fn(); });
  CommContext context = ManagerContext(*impl_, "initialize", false);
  BELAY_RETURN_IF_AGREED(Agree(context, done));
  return restored;
}

StatusOr<std::optional<int64_t>> CheckpointManager::WaitForNewStep(
    std::optional<int64_t> after, double timeout_seconds, double poll_seconds) {
  BELAY_RETURN_IF_AGREED(CheckMoved(impl_.get(), "wait for a step of"));
  {
    CommContext context = ManagerContext(*impl_, "wait for a step of", false);
    BELAY_RETURN_IF_AGREED(
        Agree(context, CheckWait(timeout_seconds, poll_seconds)));
    WireWriter same;
    PutOptional(after, same);
    same.Put(timeout_seconds);
    same.Put(poll_seconds);
    BELAY_RETURN_IF_AGREED(AgreeSame(context, "wait for a step: an argument",
                                     Fingerprint(same.bytes())));
  }
  const auto start = std::chrono::steady_clock::now();
  for (;;) {
    BELAY_RETURN_IF_AGREED(SameOnAllRanks(Reload()));
    const std::vector<int64_t>& steps = impl_->history.steps;
    if (!steps.empty() && (!after || steps.back() > *after)) {
      return steps.back();
    }
    CommContext context = ManagerContext(*impl_, "wait for a step of", false);
    BELAY_ASSIGN_OR_RETURN_AGREED(
        const std::string late,
        FromRoot(context, [&]() -> StatusOr<std::string> {
          return std::string(Since(start) >= timeout_seconds ? "y" : "n");
        }));
    if (late == "y") return std::nullopt;
    const double left = std::max(timeout_seconds - Since(start), 0.001);
    std::this_thread::sleep_for(
        std::chrono::duration<double>(std::min(poll_seconds, left)));
  }
}

}  // namespace belay
