#include "manager/manager_files.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/catch_bad_alloc.h"
#include "base/log.h"
#include "base/process/nonce.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "format/paths.h"
#include "io/files/ensure_directory.h"
#include "io/files/posix_file.h"
#include "io/files/whole_file.h"
#include "io/index/index_file.h"
#include "io/steps/belay_files.h"
#include "io/steps/commit.h"
#include "io/steps/pins.h"

namespace belay {
namespace {

// Whether `name` is that of a step of the prefix and `suffix`.
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

// A crash while a step was replaced may have left only its old name.
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
                         ReadWhole(path, kMostStateBytes));
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
  // A save of this step may begin before the rest is removed.
  std::string debris = InProgressPath(step_directory, NewNonce());
  BELAY_ASSIGN_OR_RETURN(const HeldFile held,
                         LockAgainstPins("remove", step_directory));
  BELAY_RETURN_IF_ERROR(Rename(step_directory, debris));
  // Lets go of the file: NFS keeps the directory of one that is open.
  return debris;
}

Status RemoveStep(const std::string& step_directory, bool durable) {
  BELAY_ASSIGN_OR_RETURN(const std::string debris, TakeName(step_directory));
  if (durable) BELAY_RETURN_IF_ERROR(SyncDirectory(ParentOf(step_directory)));
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
