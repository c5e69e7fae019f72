#include "storage/commit.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/integers.h"
#include "core/option_table.h"
#include "core/program_words.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "storage/file_lock.h"
#include "storage/posix_file.h"

namespace belay {

namespace {

StatusOr<bool> WaitUntil(const std::string& path, double seconds,
                         absl::FunctionRef<StatusOr<bool>()> look) {
  const auto start = std::chrono::steady_clock::now();
  double pause = 0.001;
  for (;;) {
    BELAY_ASSIGN_OR_RETURN(const bool is_seen, look());
    const std::chrono::duration<double> waited =
        std::chrono::steady_clock::now() - start;
    if (is_seen || waited.count() >= seconds) return is_seen;
    std::this_thread::sleep_for(std::chrono::duration<double>(pause));
    pause = std::min(2 * pause, 0.5);
    // Opening the directories makes NFS check whether they have changed.
    ListDirectory(GetParent(GetParent(path))).IgnoreError();
    ListDirectory(GetParent(path)).IgnoreError();
  }
}

StatusOr<bool> Holds(const std::string& path, const std::string& content) {
  const auto size = static_cast<int64_t>(content.size());
  BELAY_ASSIGN_OR_RETURN(const bool is_there, Exists(path));
  if (!is_there) return false;
  BELAY_ASSIGN_OR_RETURN(PosixFile file,
                         PosixFile::Open(path, PosixFile::Mode::kRead));
  BELAY_ASSIGN_OR_RETURN(const FileStat stat, file.Stat());
  if (stat.size != size) return false;
  std::string found(content.size(), '\0');
  BELAY_RETURN_IF_ERROR(file.PreadAll(0, found.data(), size));
  return found == content;
}

}  // namespace

StatusOr<bool> WaitUntilHolds(const std::string& path,
                              const std::string& content, double seconds) {
  return WaitUntil(path, seconds, [&] { return Holds(path, content); });
}

// --- Commit ---

namespace {

// If the file system cannot swap names atomically, a crash during a replacement
// leaves the old step under another name.
Status TakeBackReplaced(const std::string& committed) {
  const std::string spare = ReplacedName(committed);
  BELAY_ASSIGN_OR_RETURN(const bool has_spare, Exists(spare));
  if (!has_spare) return absl::OkStatus();
  BELAY_ASSIGN_OR_RETURN(const bool has_step, Exists(committed));
  return has_step ? RemoveOwn(spare) : Rename(spare, committed);
}

// A file or an empty directory is not a step, whatever its name.
StatusOr<bool> HoldsFiles(const std::string& path) {
  return LookWhileReplaced(path, [&]() -> StatusOr<bool> {
    const StatusOr<std::vector<std::string>> names = ListDirectory(path);
    if (absl::IsNotFound(names.status()) ||
        absl::IsInvalidArgument(names.status())) {
      return false;
    }
    // It may be a step; restoring it reports the error.
    if (absl::IsPermissionDenied(names.status())) return true;
    BELAY_RETURN_IF_ERROR(names.status());
    return !names->empty();
  });
}

struct Found {
  std::vector<StepLabel> labels;  // ascending
  // True if `labels` lacks a step that is being replaced.
  bool lacks_replaced = false;
};

// A listing may miss a step that is being overwritten, but it then shows the
// directory of the save in progress. So each step for which any of these names
// is listed is looked up by its own name.
template <typename Counts>
StatusOr<Found> ListLabels(const std::string& run, Counts counts) {
  BELAY_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                         ListDirectory(run));
  std::vector<StepLabel> seen, replaced;
  for (std::string_view name : names) {
    WithoutInProgress(name);
    const bool is_replaced = IsReplaced(name);
    if (is_replaced) name.remove_suffix(ReplacedName("").size());
    const std::optional<StepLabel> label = ParseStepName(name);
    if (!label || !counts(*label)) continue;
    seen.push_back(*label);
    if (is_replaced) replaced.push_back(*label);
  }
  std::sort(seen.begin(), seen.end());
  seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
  Found found;
  for (const StepLabel& label : seen) {
    BELAY_ASSIGN_OR_RETURN(
        const bool holds_files,
        HoldsFiles(JoinPath(run, StepName(label.step, label.prefix))));
    if (holds_files) found.labels.push_back(label);
  }
  found.lacks_replaced =
      std::ranges::any_of(replaced, [&](const StepLabel& label) {
        return !std::ranges::binary_search(found.labels, label);
      });
  return found;
}

// Finds the steps that `counts` accepts. A listing may miss both a step that is
// just being committed and the one that is deleted in exchange, so a run counts
// as empty only after two such listings. While a step is replaced by renames it
// has another name, which a crash may leave forever.
template <typename Counts>
StatusOr<std::vector<StepLabel>> Look(const std::string& run, Counts counts) {
  constexpr int kLooks = 2, kLooksWhileReplaced = 50;
  for (int look = 1;; ++look) {
    BELAY_ASSIGN_OR_RETURN(Found found, ListLabels(run, counts));
    const int most = found.lacks_replaced   ? kLooksWhileReplaced
                     : found.labels.empty() ? kLooks
                                            : look;
    if (look >= most) return std::move(found.labels);
    if (look >= kLooks) absl::SleepFor(absl::Milliseconds(1));
  }
}

// Returns the error for a step whose name is taken.
Status InTheWay(const std::string& path) {
  BELAY_ASSIGN_OR_RETURN(const bool holds_files, HoldsFiles(path));
  const std::string other = ParseStepName(GetLastName(path))
                                ? "choose another number"
                                : "choose another name";
  std::string cause =
      "a file or an empty directory is in the way; remove it or " + other;
  if (holds_files) {
    const StatusOr<bool> has_index = Exists(JoinPath(path, IndexName()));
    // A directory that cannot be read is treated as a step.
    cause =
        has_index.value_or(true)
            ? "the step is committed already; " + other + " or " +
                  SetOption(&SaveOptions::overwrite)
            : "a directory that is not a checkpoint is in the way (it has no "
              "index.h5); move it away or " +
                  other;
  }
  return absl::AlreadyExistsError(
      absl::StrFormat("save \"%s\": %s", path, cause));
}

// Readers refuse a run whose name is that of a step in progress.
Status CheckRunName(std::string_view operation, const std::string& dir) {
  const std::string name = GetLastName(dir);
  if (!IsInProgress(name) && !IsReplaced(name)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      Cat(operation, " \"", dir,
          "\": this is the name of a step that is being saved or replaced, "
          "which no reader opens and the next save may remove; give the "
          "directory of a run another name"));
}

}  // namespace

Status SavedTwice(std::string_view operation, const std::string& path,
                  std::string_view what) {
  return absl::FailedPreconditionError(
      Cat(operation, " \"", path, "\": another save of this step ", what,
          ": two jobs or processes save the same step; let only one of them "
          "save to a directory, which a CheckpointManager makes sure of, or "
          "give each its own"));
}

Status CheckIsNoStep(std::string_view operation, const std::string& dir) {
  BELAY_RETURN_IF_ERROR(CheckRunName(operation, dir));
  BELAY_ASSIGN_OR_RETURN(const bool is_step,
                         Exists(JoinPath(dir, IndexName())));
  if (!is_step) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat(
      "%s \"%s\": this is a step, which never changes, not the directory of a "
      "run; give the directory that it is in, or another one",
      operation, dir));
}

Status BeginStep(const std::string& path, bool overwrite, bool durable,
                 uint64_t nonce) {
  BELAY_RETURN_IF_ERROR(CheckIsNoStep("save to", GetParent(path)));
  BELAY_RETURN_IF_ERROR(EnsureDirectory(GetParent(path), durable));
  BELAY_RETURN_IF_ERROR(TakeBackReplaced(path));
  BELAY_ASSIGN_OR_RETURN(const bool exists, Exists(path));
  if (exists && !overwrite) return InTheWay(path);
  if (exists) {
    BELAY_RETURN_IF_ERROR(CheckReplaceable(path));
    BELAY_RETURN_IF_ERROR(LockAgainstPins("overwrite", path).status());
  }
  BELAY_RETURN_IF_ERROR(RemoveAllDebris(path));
  const std::string directory = InProgressPath(path);
  const Status made = MakeDirectory(directory);
  const Status marked =
      made.ok() ? WriteWhole(JoinPath(directory, MarkerName(nonce)), "", false)
                : made;
  if (absl::IsAlreadyExists(made)) {
    return SavedTwice("save", path, "has begun at the same time");
  }
  // The file system may also be unreachable, which a manager tolerates.
  if (made.ok() && absl::IsNotFound(marked)) {
    return absl::NotFoundError(
        SavedTwice("save", path, "has removed the directory of this one")
            .message());
  }
  BELAY_RETURN_IF_ERROR(made);
  // Nobody would know to which save the directory belongs.
  if (!marked.ok()) RemoveTree(directory).IgnoreError();
  return marked;
}

Status RemoveAllDebris(const std::string& path) {
  const std::string parent = GetParent(path);
  StatusOr<std::vector<std::string>> names = ListDirectory(parent);
  // MakeDirectory will report that no directory can be made there.
  if (absl::IsInvalidArgument(names.status()) ||
      absl::IsPermissionDenied(names.status())) {
    return absl::OkStatus();
  }
  BELAY_RETURN_IF_ERROR(names.status());
  for (const std::string& name : *names) {
    std::string_view step = name;
    if (!WithoutInProgress(step) || step != GetLastName(path)) continue;
    const Status removed = RemoveOwn(JoinPath(parent, name));
    // Another save of this step may have been faster, or may still write there.
    const bool is_rival =
        absl::IsNotFound(removed) || absl::IsAlreadyExists(removed);
    if (!is_rival) BELAY_RETURN_IF_ERROR(removed);
  }
  return absl::OkStatus();
}

StatusOr<bool> WaitForStep(const std::string& path, uint64_t nonce,
                           double seconds) {
  const std::string marker = JoinPath(InProgressPath(path), MarkerName(nonce));
  return WaitUntil(marker, seconds, [&] { return Exists(marker); });
}

Status TakeStep(const std::string& path, uint64_t nonce) {
  const std::string from = InProgressPath(path);
  const std::string own = InProgressPath(path, nonce);
  BELAY_RETURN_IF_ERROR(CheckOurs("commit", path, nonce));
  const Status moved = Rename(from, own);
  if (absl::IsNotFound(moved)) {
    BELAY_RETURN_IF_ERROR(CheckOurs("commit", path, nonce));
  }
  BELAY_RETURN_IF_ERROR(moved);
  const StatusOr<bool> ours = Exists(JoinPath(own, MarkerName(nonce)));
  if (ours.ok() && *ours) return absl::OkStatus();
  // Another save took it over between the two calls; give it back.
  const Status back = Rename(own, from);
  BELAY_RETURN_IF_ERROR(ours.status());
  BELAY_RETURN_IF_ERROR(back);
  return CheckOurs("commit", path, nonce);
}

Status AfterUndo(const std::string& path, const Status& failure,
                 const Status& undone) {
  if (undone.ok()) return failure;
  return Status(
      failure.code(),
      Cat(std::string(failure.message()), "; the step \"", path,
          "\" is committed all the same, since the commit could not be undone "
          "(",
          std::string(undone.message()),
          "): remove its directory, or save it again with overwrite"));
}

namespace {

// Does the work of CommitStep, but passes errors of the file system unchanged.
Status Commit(const std::string& path, bool overwrite, bool durable,
              uint64_t nonce) {
  const std::string from = InProgressPath(path, nonce);
  BELAY_RETURN_IF_ERROR(RemoveTree(JoinPath(from, MarkerName(nonce))));
  if (durable) BELAY_RETURN_IF_ERROR(SyncDirectory(from));
  BELAY_ASSIGN_OR_RETURN(const HeldFile held,
                         LockAgainstPins("overwrite", path));
  BELAY_ASSIGN_OR_RETURN(const bool exists, Exists(path));
  if (exists && !overwrite) return InTheWay(path);
  // Rename cannot replace a directory that has files.
  const Status moved = exists ? Swap(from, path) : Rename(from, path);
  if (absl::IsAlreadyExists(moved)) {
    return SavedTwice("commit", path, "has committed it meanwhile");
  }
  BELAY_RETURN_IF_ERROR(moved);
  if (!durable) return absl::OkStatus();
  const Status synced = SyncDirectory(GetParent(path));
  return synced.ok() ? synced
                     : AfterUndo(path, synced, UndoCommit(path, nonce));
}

}  // namespace

Status CommitStep(const std::string& path, bool overwrite, bool durable,
                  uint64_t nonce) {
  const Status status = Commit(path, overwrite, durable, nonce);
  if (!absl::IsNotFound(status)) return status;
  // The file system may also be unreachable, which a manager tolerates.
  return absl::NotFoundError(
      SavedTwice("commit", path, "has removed what this one was committing")
          .message());
}

Status UndoCommit(const std::string& path, uint64_t nonce) {
  const std::string own = InProgressPath(path, nonce);
  BELAY_ASSIGN_OR_RETURN(const bool has_old, Exists(own));
  return has_old ? Swap(path, own) : Rename(path, own);
}

Status CheckOurs(std::string_view operation, const std::string& path,
                 uint64_t nonce) {
  const std::string directory = InProgressPath(path);
  BELAY_ASSIGN_OR_RETURN(const bool ours,
                         Exists(JoinPath(directory, MarkerName(nonce))));
  if (ours) return absl::OkStatus();
  const StatusOr<std::vector<std::string>> names = ListDirectory(directory);
  if (!names.ok() && !absl::IsNotFound(names.status())) return names.status();
  const std::vector<std::string> found =
      names.value_or(std::vector<std::string>());
  const auto is_other = [&](const std::string& name) {
    return IsMarker(name) && name != MarkerName(nonce);
  };
  if (std::any_of(found.begin(), found.end(), is_other)) {
    return SavedTwice(operation, path, "has taken over its directory");
  }
  if (found.empty() && Exists(JoinPath(path, IndexName())).value_or(false)) {
    return SavedTwice(operation, path, "has committed it, or removed this one");
  }
  return absl::NotFoundError(absl::StrFormat(
      "%s \"%s\": the %s was removed during the save, by hand or by another "
      "save of this step, or this host no longer sees it",
      std::string(operation), directory,
      found.empty() ? "directory" : "file " + MarkerName(nonce) + " there"));
}

void RemoveDebris(const std::string& path, uint64_t nonce) {
  RemoveTree(InProgressPath(path, nonce)).IgnoreError();
}

StatusOr<std::vector<StepLabel>> CommittedLabels(const std::string& run) {
  return Look(run, [](const StepLabel&) { return true; });
}

StatusOr<std::vector<int64_t>> CommittedSteps(const std::string& run,
                                              std::string_view prefix) {
  BELAY_ASSIGN_OR_RETURN(
      const std::vector<StepLabel> labels,
      Look(run, [&](const StepLabel& l) { return l.prefix == prefix; }));
  std::vector<int64_t> steps;
  for (const StepLabel& label : labels) steps.push_back(label.step);
  return steps;
}

StatusOr<bool> IsStep(const std::string& path) {
  const std::string index = JoinPath(path, IndexName());
  return LookWhileReplaced(path, [&] { return Exists(index); });
}

// --- Files of belay ---

namespace {

constexpr size_t kMaxShown = 5;

// A marker has a prefix and 16 hexadecimal digits.
bool IsWholeMarker(std::string_view name) {
  return name.size() == MarkerName(0).size() &&
         name.starts_with(MarkerName(0).substr(0, 7));
}

// NFS gives a file such a name if it is removed while a process has it open.
bool IsOpenElsewhere(std::string_view name) { return name.starts_with(".nfs"); }

bool IsOwn(std::string_view name) {
  return name == IndexName() || name == MetadataName() || IsDataFile(name) ||
         IsWholeMarker(name);
}

// Returns an error that lists these names, if there are any.
Status NoForeign(std::string_view operation, const std::string& path,
                 std::string_view consequence, std::vector<std::string> names) {
  if (names.empty()) return absl::OkStatus();
  if (names.size() > kMaxShown) names.resize(kMaxShown);
  return absl::FailedPreconditionError(
      PrintableLine(Cat(operation, " \"", path, "\": not written by belay: \"",
                        absl::StrJoin(names, "\", \""), "\"; ", consequence)));
}

}  // namespace

bool IsDataFile(std::string_view name) {
  constexpr std::string_view kOf = "_of_";
  if (!name.starts_with("data_") || !name.ends_with(".h5")) return false;
  name.remove_prefix(5);
  name.remove_suffix(3);
  const size_t of = name.find(kOf);
  return of != std::string_view::npos &&
         ParseDigits(name.substr(0, of), INT64_MAX).has_value() &&
         ParseDigits(name.substr(of + kOf.size()), INT64_MAX).has_value();
}

Status CheckOnlyOwn(std::string_view operation, const std::string& path,
                    std::string_view consequence) {
  BELAY_ASSIGN_OR_RETURN(std::vector<std::string> names, ListDirectory(path));
  std::erase_if(names, IsOwn);
  return NoForeign(operation, path, consequence, std::move(names));
}

Status RemoveOwn(const std::string& path) {
  BELAY_ASSIGN_OR_RETURN(std::vector<std::string> names, ListDirectory(path));
  std::erase_if(names, [](const std::string& name) {
    return IsOwn(name) || IsOpenElsewhere(name);
  });
  BELAY_RETURN_IF_ERROR(
      NoForeign("remove", path, "nothing is removed", std::move(names)));
  // Renames first, so that a save that is about to commit it gets all of it or
  // nothing.
  std::string_view step = path;
  WithoutInProgress(step);
  const std::string aside = InProgressPath(step, NewNonce());
  BELAY_RETURN_IF_ERROR(Rename(path, aside));
  return RemoveTree(aside);
}

Status CheckReplaceable(const std::string& path) {
  BELAY_ASSIGN_OR_RETURN(const bool is_checkpoint,
                         Exists(JoinPath(path, IndexName())));
  const Status own = CheckOnlyOwn("overwrite", path, "nothing is removed");
  // A step without its index may still contain only belay's files.
  const bool is_foreign =
      absl::IsFailedPrecondition(own) || absl::IsInvalidArgument(own);
  if (is_checkpoint || !is_foreign) return own;
  return absl::FailedPreconditionError(
      absl::StrFormat("overwrite \"%s\": not a checkpoint; nothing is removed; "
                      "move it away or choose another one",
                      path));
}

// --- Missing step ---

namespace {

constexpr size_t kMaxStepsToList = 10;
constexpr int kNewestToList = 5;
constexpr std::string_view kUseEarlier = "; use an earlier step, such as ";
constexpr std::string_view kNoEarlier = "; no earlier step is there";

std::string WhatIsThere(const std::string& path) {
  const std::string dir = GetParent(path);
  if (Exists(JoinPath(dir, IndexName())).value_or(false)) {
    return Cat("\"", dir, "\" is a step itself, which ",
               kLatestStepWord.InProgram(), " takes");
  }
  const std::optional<StepLabel> label = ParseStepName(GetLastName(path));
  if (!label) return "nothing has this name";
  const StatusOr<std::vector<int64_t>> steps =
      CommittedSteps(dir, label->prefix);
  return steps.ok() ? StepsText(*steps) : std::string(steps.status().message());
}

}  // namespace

std::string StepsText(const std::vector<int64_t>& steps) {
  if (steps.empty()) return "there are no steps";
  if (steps.size() == 1) return absl::StrCat("the only step is ", steps[0]);
  if (steps.size() <= kMaxStepsToList) {
    return absl::StrCat("the steps are ", absl::StrJoin(steps, ", "));
  }
  return absl::StrCat(
      "there are ", steps.size(), " steps, the newest ",
      absl::StrJoin(steps.end() - kNewestToList, steps.end(), ", "));
}

Status NoIndex(std::string_view operation, const std::string& path) {
  return absl::NotFoundError(Cat(operation, " \"", path, "\": the step has no ",
                                 IndexName(),
                                 "; parts of it were deleted, or not copied"));
}

Status NoSuchStep(std::string_view operation, const std::string& path) {
  if (Exists(path).value_or(false)) return NoIndex(operation, path);
  return absl::NotFoundError(
      Cat(operation, " \"", path, "\": no such step; ", WhatIsThere(path)));
}

std::string EarlierStepHint(const std::string& path) {
  const std::optional<StepLabel> label = ParseStepName(GetLastName(path));
  if (!label) return "";
  const StatusOr<std::vector<int64_t>> steps =
      CommittedSteps(GetParent(path), label->prefix);
  if (!steps.ok()) return "";
  const auto end = std::ranges::lower_bound(*steps, label->step);
  if (end == steps->begin()) return std::string(kNoEarlier);
  return Cat(kUseEarlier, *(end - 1));
}

Status WithEarlierStep(const Status& status, const std::string& path) {
  const bool has_hint = WithoutEarlierStep(status) != status;
  if (!absl::IsDataLoss(status) || has_hint) return status;
  return Status(status.code(), Cat(status.message(), EarlierStepHint(path)));
}

Status WithoutEarlierStep(const Status& status) {
  std::string message(status.message());
  for (const std::string_view hint : {kUseEarlier, kNoEarlier}) {
    const size_t at = message.rfind(hint);
    if (at == message.npos) continue;
    const size_t end =
        message.find_first_not_of("0123456789", at + hint.size());
    message.erase(at, end == message.npos ? end : end - at);
  }
  return Status(status.code(), message);
}

}  // namespace belay
