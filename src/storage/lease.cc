#include "storage/lease.h"

#include <errno.h>
#include <pwd.h>
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "belay/manager/job.h"
#include "core/integers.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "nlohmann/json.hpp"

namespace belay {
namespace {

using nlohmann::json;

std::string Text(const json& document, const char* name) {
  const auto found = document.find(name);
  if (found == document.end() || !found->is_string()) return "";
  return found->get<std::string>();
}

int64_t Number(const json& document, const char* name, int64_t otherwise = 0) {
  const auto found = document.find(name);
  if (found == document.end() || !found->is_number_integer()) return otherwise;
  return found->get<int64_t>();
}

}  // namespace

std::string LeaseText(const LeaseOwner& owner) {
  const nlohmann::ordered_json document = {
      {"belay_lease", 1},           {"host", owner.host},
      {"pid", owner.pid},           {"start_time", owner.start_time},
      {"job", owner.job},           {"cluster", owner.cluster},
      {"restarts", owner.restarts}, {"user", owner.user},
      {"since", owner.since}};
  // Host and user names may contain any bytes.
  return document.dump(-1, ' ', true, json::error_handler_t::replace) + "\n";
}

StatusOr<std::optional<LeaseOwner>> ParseLease(std::string_view text,
                                               std::string_view operation) {
  if (!kLeaseBeginning.starts_with(text.substr(0, kLeaseBeginning.size()))) {
    return absl::FailedPreconditionError(
        Cat(operation,
            ": not written by belay; move the file away if the directory is to "
            "hold checkpoints"));
  }
  constexpr int kMaxLevels = 16;
  if (!TooMuchJson(text, kMaxLevels).empty()) return std::nullopt;
  const json document = json::parse(text, nullptr, false);
  if (!document.is_object()) return std::nullopt;
  return LeaseOwner{.host = Text(document, "host"),
                    .pid = Number(document, "pid"),
                    .start_time = Number(document, "start_time"),
                    .job = Text(document, "job"),
                    .cluster = Text(document, "cluster"),
                    .restarts = Number(document, "restarts", -1),
                    .user = Text(document, "user"),
                    .since = Text(document, "since")};
}

std::string OwnerText(const LeaseOwner& owner) {
  std::vector<std::string> more;
  if (!owner.job.empty()) more.push_back(absl::StrCat("Slurm job ", owner.job));
  if (!owner.user.empty()) {
    more.push_back(absl::StrCat("user \"", owner.user, "\""));
  }
  return PrintableLine(absl::StrCat(
      "process ", owner.pid, " on host \"", owner.host, "\"",
      more.empty() ? "" : absl::StrCat(" (", absl::StrJoin(more, ", "), ")"),
      ", since ", owner.since));
}

// --- Lease ---

namespace {

constexpr size_t kMaxLeaseBytes = 64 << 10;
constexpr size_t kMaxUserBytes = 64 << 10;

using Seconds = std::chrono::duration<double>;
constexpr Seconds kBetweenTries{0.1};

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// The user's name in the system's user database; "" if there is none.
std::string ListedName(uid_t user) {
  std::vector<char> room(kMaxUserBytes);
  passwd entry = {};
  passwd* found = nullptr;
  const int error =
      ::getpwuid_r(user, &entry, room.data(), room.size(), &found);
  return error != 0 || found == nullptr ? "" : found->pw_name;
}

std::string UserName() {
  std::string name = Variable("USER");
  if (name.empty()) name = Variable("LOGNAME");
  if (name.empty()) name = ListedName(::getuid());
  return name.empty() ? absl::StrCat("number ", ::getuid()) : name;
}

// Field 22 of /proc/PID/stat; 0 if there is no such process.
int64_t StartTime(int64_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/stat"));
  std::string text;
  std::getline(file, text);
  // The second field is a name in parentheses, which may itself contain ")".
  const size_t end = text.rfind(')');
  if (end == std::string::npos) return 0;
  std::istringstream fields(text.substr(end + 1));
  std::string skipped;
  for (int field = 3; field < 22; ++field) fields >> skipped;
  int64_t ticks = 0;
  fields >> ticks;
  return ticks;
}

Status HeldBy(const std::string& path, const std::optional<LeaseOwner>& owner,
              const LeaseOwner& me) {
  const auto refuse = [&](const auto&... cause) {
    return absl::FailedPreconditionError(
        absl::StrCat("take the lease \"", path, "\": ", cause...));
  };
  if (!owner) {
    return refuse(
        "held by an unidentified process; only one manager may save here at a "
        "time");
  }
  const std::string who = OwnerText(*owner);
  if (owner->host == me.host && owner->pid == me.pid) {
    return refuse(
        "held by ", who,
        ", which is this one; only one manager may save here at a time: close "
        "the other one first, or choose another directory or prefix");
  }
  if (owner->host == me.host && !IsRunning(*owner)) {
    return refuse(
        "taken by ", who,
        ", which has ended; a process that it started still holds it: end "
        "that, or choose another directory");
  }
  return refuse(
      "held by ", who,
      "; only one manager may save here at a time: wait until that job has "
      "ended, or choose another directory or prefix");
}

// Clusters that share a file system may use the same job ID.
bool IsSameJob(const LeaseOwner& owner, const LeaseOwner& me) {
  return !me.job.empty() && owner.job == me.job && owner.cluster == me.cluster;
}

// Slurm restarts a job only after its previous run has ended, as far as Slurm
// knows.
bool IsAnEarlierRunOfMyJob(const LeaseOwner& owner, const LeaseOwner& me) {
  return IsSameJob(owner, me) && owner.restarts >= 0 &&
         owner.restarts < me.restarts;
}

// Without locks, the content of the file decides. A process on another host
// cannot be checked.
Status JudgeWithoutLocks(const std::string& path, const LeaseOwner& owner,
                         const LeaseOwner& me) {
  if (owner.host == me.host) {
    return IsRunning(owner) ? HeldBy(path, owner, me) : absl::OkStatus();
  }
  if (IsAnEarlierRunOfMyJob(owner, me)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "take the lease \"", path, "\": held by ", OwnerText(owner),
      "; this file system has no locks, so it cannot be told whether that "
      "job still runs: once it has ended, delete the file"));
}

}  // namespace

LeaseOwner ThisProcess() {
  LeaseOwner me{.host = HostName(),
                .pid = ::getpid(),
                .start_time = StartTime(::getpid()),
                .user = UserName(),
                .since = absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", absl::Now(),
                                          absl::UTCTimeZone())};
  // ReadJobEnvironment fails only for the job's end time, which is not used
  // here.
  const StatusOr<JobEnvironment> job = ReadJobEnvironment();
  if (job.ok() && !job->job_id.empty()) {
    me.job = job->job_id;
    me.cluster = Variable("SLURM_CLUSTER_NAME");
    // Slurm does not set the count in the first run. A count that cannot be
    // parsed is unknown.
    const std::string count = Variable("SLURM_RESTART_COUNT");
    me.restarts =
        count.empty() ? 0 : ParseDigits(count, INT32_MAX).value_or(-1);
  }
  return me;
}

bool IsRunning(const LeaseOwner& owner) {
  if (owner.pid <= 0) return false;
  const int64_t start_time = StartTime(owner.pid);
  if (start_time != 0 && owner.start_time != 0) {
    return start_time == owner.start_time;
  }
  // Without /proc: checks only that a process with this pid exists.
  return ::kill(static_cast<pid_t>(owner.pid), 0) == 0 || errno == EPERM;
}

StatusOr<Lease> Lease::Take(const std::string& path, const LeaseOwner& me,
                            double patience, const TryLock& try_lock) {
  const auto start = std::chrono::steady_clock::now();
  Lease lease;
  BELAY_ASSIGN_OR_RETURN(FileLock file, FileLock::Open(path, kLeaseBeginning));
  FileLock::Result result;
  std::optional<LeaseOwner> owner;
  Seconds waited(0);
  for (;; std::this_thread::sleep_for(kBetweenTries)) {
    BELAY_ASSIGN_OR_RETURN(result, try_lock(file));
    BELAY_ASSIGN_OR_RETURN(const std::string content,
                           file.Read(kMaxLeaseBytes));
    BELAY_ASSIGN_OR_RETURN(
        owner,
        ParseLease(content, absl::StrCat("take the lease \"", path, "\"")));
    if (result != FileLock::Result::kHeld) break;
    // The previous run of the same job may have died with its node.
    const bool may_be_dead =
        owner && IsSameJob(*owner, me) && owner->host != me.host;
    if (!may_be_dead || waited.count() >= patience) {
      return HeldBy(path, owner, me);
    }
    waited = std::chrono::steady_clock::now() - start;
  }
  if (result == FileLock::Result::kUnsupported && owner) {
    BELAY_RETURN_IF_ERROR(JudgeWithoutLocks(path, *owner, me));
  }
  const std::string mine = LeaseText(me);
  BELAY_RETURN_IF_ERROR(file.Write(mine));
  // Without locks two may have come here at once.
  BELAY_ASSIGN_OR_RETURN(const std::string found, file.Read(kMaxLeaseBytes));
  if (found != mine) {
    return absl::FailedPreconditionError(
        absl::StrCat("take the lease \"", path,
                     "\": another process has taken it at the same time"));
  }
  if (owner) {
    lease.note_ = absl::StrCat("the lease was taken over from ",
                               OwnerText(*owner), ", which has ended");
  }
  lease.file_ = std::move(file);
  lease.pid_ = ::getpid();
  lease.text_ = mine;
  return lease;
}

namespace {

Status TakenMeanwhile(const std::string& path, const std::string& content) {
  const std::string start = absl::StrCat("renew the lease \"", path, "\"");
  BELAY_ASSIGN_OR_RETURN(const std::optional<LeaseOwner> owner,
                         ParseLease(content, start));
  return absl::FailedPreconditionError(absl::StrCat(
      start, ": taken meanwhile by ",
      owner ? OwnerText(*owner) : "a process that does not say who it is",
      "; only one manager may save here at a time"));
}

}  // namespace

Status Lease::Renew(const std::string& path, const TryLock& try_lock) {
  if (text_.empty()) return absl::OkStatus();
  const StatusOr<FileLock::Result> before = try_lock(file_);
  BELAY_ASSIGN_OR_RETURN(FileLock again, FileLock::Open(path, kLeaseBeginning));
  BELAY_ASSIGN_OR_RETURN(const std::string content, again.Read(kMaxLeaseBytes));
  if (!content.empty() && content != text_) {
    return TakenMeanwhile(path, content);
  }
  if (before.ok() && *before != FileLock::Result::kHeld && !content.empty()) {
    is_unsure_ = false;
    return absl::OkStatus();
  }
  // The old open file is no longer usable.
  file_ = FileLock();
  BELAY_ASSIGN_OR_RETURN(const FileLock::Result now, try_lock(again));
  is_unsure_ = now == FileLock::Result::kHeld;
  if (content.empty()) {
    if (is_unsure_) return TakenMeanwhile(path, content);
    BELAY_RETURN_IF_ERROR(again.Write(text_));
  }
  file_ = std::move(again);
  return absl::OkStatus();
}

Lease& Lease::operator=(Lease&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(is_unsure_, other.is_unsure_);
  std::swap(pid_, other.pid_);
  std::swap(text_, other.text_);
  std::swap(note_, other.note_);
  return *this;
}

Lease::~Lease() {
  if (!file_.is_open() || pid_ != ::getpid()) return;
  // An empty file has no owner. If this fails, the next process takes over.
  file_.Write("").IgnoreError();
  file_.Free();
}

}  // namespace belay
