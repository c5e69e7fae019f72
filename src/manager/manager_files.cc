#include "manager/manager_files.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/catch_exceptions.h"
#include "core/log.h"
#include "core/process.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "format/paths.h"
#include "storage/commit.h"
#include "storage/file_lock.h"
#include "storage/index_file.h"
#include "storage/posix_file.h"

namespace belay {
namespace {

constexpr int64_t kMaxAside = 1'000'000;

// Returns true for names that NextAside may choose. Other names could lead into
// a step or out of the directory.
bool IsAsideName(std::string_view name, std::string_view prefix) {
  int64_t number = 0;
  return absl::SimpleAtoi(AbslView(name.substr(name.rfind('_') + 1)),
                          &number) &&
         name == AsideName(prefix, number);
}

// Creates the directory for moved steps, which must be in `order.dir`.
StatusOr<std::string> MakeAside(const AsideOrder& order) {
  const std::string aside = JoinPath(order.dir, order.aside);
  if (!IsAsideName(order.aside, order.prefix)) {
    return absl::InvalidArgumentError(PrintableLine(absl::StrCat(
        "set steps of \"", order.dir, "\" aside: not a name for that (need ",
        AsideName(order.prefix, 1), ", found \"", order.aside, "\")")));
  }
  BELAY_RETURN_IF_ERROR(EnsureDirectory(aside, order.durable));
  std::error_code error;
  const auto status = std::filesystem::symlink_status(aside, error);
  if (status.type() == std::filesystem::file_type::directory) return aside;
  return absl::FailedPreconditionError(
      absl::StrCat("set steps of \"", order.dir, "\" aside: \"", aside,
                   "\" is a symbolic link or not a directory; move it away"));
}

Status Move(const AsideOrder& order, int64_t step) {
  BELAY_ASSIGN_OR_RETURN(const std::string aside, MakeAside(order));
  const std::string name = StepName(step, order.prefix);
  return Rename(JoinPath(order.dir, name), JoinPath(aside, name));
}

// Returns true if the step was deleted; otherwise adds a note that says why
// not.
StatusOr<bool> Delete(const AsideOrder& order, int64_t step,
                      std::vector<std::string>& notes) {
  if (!std::ranges::binary_search(order.deletable, step)) {
    notes.push_back(absl::StrFormat(
        "step %d is set aside and not deleted: no manager has saved it, or it "
        "is kept for good",
        step));
    return false;
  }
  const Status status = RemoveStep(
      JoinPath(order.dir, StepName(step, order.prefix)), order.durable);
  if (!absl::IsFailedPrecondition(status)) {
    BELAY_RETURN_IF_ERROR(status);
    return true;
  }
  notes.push_back(absl::StrFormat("step %d is set aside and not deleted: %s",
                                  step, status.message()));
  return false;
}

}  // namespace

StatusOr<std::string> NextAside(const std::string& dir,
                                std::string_view prefix) {
  for (int64_t number = 1; number < kMaxAside; ++number) {
    std::string name = AsideName(prefix, number);
    BELAY_ASSIGN_OR_RETURN(const bool is_taken, Exists(JoinPath(dir, name)));
    if (!is_taken) return name;
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "set steps of \"", dir, "\" aside: no number is left for a directory"));
}

StatusOr<AsideOutcome> SetAside(const AsideOrder& order,
                                const std::vector<int64_t>& steps) {
  AsideOutcome outcome;
  for (auto at = steps.rbegin(); at != steps.rend(); ++at) {
    const int64_t step = *at;
    bool is_gone = false;
    if (order.how == NewerSteps::kDelete) {
      BELAY_ASSIGN_OR_RETURN(is_gone, Delete(order, step, outcome.notes));
    }
    if (!is_gone) BELAY_RETURN_IF_ERROR(Move(order, step));
    (is_gone ? outcome.deleted : outcome.moved).push_back(step);
  }
  std::ranges::reverse(outcome.moved);
  std::ranges::reverse(outcome.deleted);
  if (!order.durable || outcome.moved.empty()) return outcome;
  BELAY_RETURN_IF_ERROR(SyncDirectory(JoinPath(order.dir, order.aside)));
  BELAY_RETURN_IF_ERROR(SyncDirectory(order.dir));
  return outcome;
}

// --- Manager files ---

namespace {

// Returns true if `name` is a step name of the prefix, followed by `suffix`.
bool IsOfPrefix(std::string_view name, std::string_view prefix,
                std::string_view suffix) {
  if (!name.ends_with(suffix)) return false;
  name.remove_suffix(suffix.size());
  const std::optional<StepLabel> label = ParseStepName(name);
  return label && label->prefix == prefix;
}

void RemoveAndNote(const std::string& path, std::vector<std::string>& notes) {
  const Status status = RemoveOwn(path);
  notes.push_back(status.ok() ? absl::StrCat("removed \"", path,
                                             "\", left by a job that ended")
                              : std::string(status.message()));
}

// Restores a step from its spare name if a crash interrupted its replacement.
void TakeBack(const std::string& spare, bool remove,
              std::vector<std::string>& notes) {
  const std::string committed =
      spare.substr(0, spare.size() - ReplacedName("").size());
  const StatusOr<bool> has_step = Exists(committed);
  if (has_step.ok() && *has_step) {
    if (remove) RemoveAndNote(spare, notes);
    return;
  }
  const Status status =
      has_step.ok() ? Rename(spare, committed) : has_step.status();
  notes.push_back(status.ok()
                      ? absl::StrCat("brought \"", committed,
                                     "\" back, which was being replaced when "
                                     "a job ended")
                      : std::string(status.message()));
}

}  // namespace

std::string StatePath(const std::string& dir, std::string_view prefix) {
  return JoinPath(dir, Cat(prefix, ".manager.json"));
}

std::string LeasePath(const std::string& dir, std::string_view prefix) {
  return JoinPath(dir, Cat(prefix, ".lease"));
}

Status EnsureRunDirectory(const std::string& dir, bool durable) {
  BELAY_RETURN_IF_ERROR(EnsureDirectory(dir, durable));
  return ListDirectory(dir).status();
}

StatusOr<std::optional<ManagerState>> ReadState(const std::string& dir,
                                                std::string_view prefix) {
  const std::string path = StatePath(dir, prefix);
  BELAY_ASSIGN_OR_RETURN(const bool exists, Exists(path));
  if (!exists) return std::nullopt;
  BELAY_ASSIGN_OR_RETURN(const std::string text,
                         ReadWhole(path, kMaxStateBytes));
  BELAY_ASSIGN_OR_RETURN(
      ManagerState state,
      CatchBadAlloc(absl::StrCat("the state \"", path, "\""), [&] {
        return ParseState(text, prefix, absl::StrCat("read \"", path, "\""));
      }));
  return state;
}

Status WriteState(const std::string& dir, std::string_view prefix,
                  const ManagerState& state, bool durable) {
  BELAY_ASSIGN_OR_RETURN(const std::string text, StateText(state, prefix));
  const std::string path = StatePath(dir, prefix);
  const std::string temporary = path + ".new";
  BELAY_RETURN_IF_ERROR(RemoveTree(temporary));
  BELAY_RETURN_IF_ERROR(WriteWhole(temporary, text, durable));
  BELAY_RETURN_IF_ERROR(Rename(temporary, path));
  return durable ? SyncDirectory(dir) : absl::OkStatus();
}

Status CheckStepOpens(const std::string& step_directory) {
  BELAY_ASSIGN_OR_RETURN(const SavedCheckpoint saved,
                         ReadIndex(step_directory));
  return CheckDataFiles(step_directory, saved);
}

StatusOr<std::string> TakeName(const std::string& step_directory) {
  BELAY_RETURN_IF_ERROR(
      CheckOnlyOwn("remove", step_directory,
                   "the step stays, and so does the file: move it away"));
  BELAY_RETURN_IF_ERROR(RemoveAllDebris(step_directory));
  // A unique name, because a save of this step may begin before the rest is
  // removed.
  std::string debris = InProgressPath(step_directory, NewNonce());
  BELAY_ASSIGN_OR_RETURN(const HeldFile held,
                         LockAgainstPins("remove", step_directory));
  BELAY_RETURN_IF_ERROR(Rename(step_directory, debris));
  // Returning closes the file: NFS keeps the directory of an open file.
  return debris;
}

Status RemoveStep(const std::string& step_directory, bool durable) {
  BELAY_ASSIGN_OR_RETURN(const std::string debris, TakeName(step_directory));
  if (durable) BELAY_RETURN_IF_ERROR(SyncDirectory(GetParent(step_directory)));
  return RemoveTree(debris);
}

FileWork::~FileWork() {
  if (!IsUnderWay()) return;
  thread_->Hurry();
  if (most_seconds_ > 0 && !thread_->WaitFor(std::chrono::milliseconds(
                               static_cast<int64_t>(1000 * most_seconds_)))) {
    Log(LogLevel::kWarning,
        Cat("removing old steps has not ended within ", most_seconds_, " s"));
    return;
  }
  Finish();
}

void FileWork::Begin(std::function<Status()> work, double most_seconds) {
  Finish();
  if (thread_ == nullptr || process_ != ::getpid()) {
    thread_ = std::make_unique<WorkerThread>();
  }
  process_ = ::getpid();
  most_seconds_ = most_seconds;
  is_told_ = false;
  thread_->Begin(std::move(work));
}

void FileWork::Finish() {
  if (!IsUnderWay()) return;
  thread_->Hurry();
  thread_->Finish();
  is_told_ = true;
  const Status status = thread_->result();
  if (status.ok()) return;
  failures_.emplace_back(status.message());
  Log(LogLevel::kWarning, failures_.back());
}

bool FileWork::IsUnderWay() const {
  return thread_ != nullptr && process_ == ::getpid() && !is_told_;
}

StatusOr<std::vector<std::string>> CleanRunDirectory(const std::string& dir,
                                                     std::string_view prefix,
                                                     bool remove) {
  BELAY_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                         ListDirectory(dir));
  std::vector<std::string> notes;
  for (const std::string& name : names) {
    const std::string path = JoinPath(dir, name);
    if (IsOfPrefix(name, prefix, ReplacedName(""))) {
      TakeBack(path, remove, notes);
      continue;
    }
    std::string_view step = name;
    if (remove && WithoutInProgress(step) && IsOfPrefix(step, prefix, "")) {
      RemoveAndNote(path, notes);
    }
  }
  return notes;
}

}  // namespace belay
