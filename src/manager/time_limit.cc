#include "manager/time_limit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <mutex>
#include <set>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "core/errno_status.h"
#include "core/integers.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "core/threads.h"

namespace belay {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMaxOutputBytes = 64 << 10;

// Both ends of a pipe, closed by the destructor. Reading does not block.
struct Pipe {
  Pipe() {
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return;
    ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  }
  ~Pipe() {
    CloseEnd(0);
    CloseEnd(1);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  bool is_open() const { return ends[0] >= 0; }
  void CloseEnd(int which) {
    if (ends[which] >= 0) ::close(ends[which]);
    ends[which] = -1;
  }
  // Reads available output, at most 64 KiB per call. At the end of the output,
  // closes the read end.
  void Drain() {
    std::array<char, 4096> part;
    for (int reads = 0; reads < 16; ++reads) {
      const ssize_t got = ::read(ends[0], part.data(), part.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == EAGAIN) return;
      if (got <= 0) return CloseEnd(0);
      text.append(part.data(),
                  std::min<size_t>(got, kMaxOutputBytes - text.size()));
    }
  }

  std::array<int, 2> ends = {-1, -1};
  std::string text;
};

// The arguments of posix_spawn, freed by the destructor.
struct SpawnArguments {
  SpawnArguments() {
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
  }
  ~SpawnArguments() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
  SpawnArguments(const SpawnArguments&) = delete;
  SpawnArguments& operator=(const SpawnArguments&) = delete;

  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
};

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) {
    pointers.push_back(const_cast<char*>(text.c_str()));
  }
  pointers.push_back(nullptr);
  return pointers;
}

StatusOr<pid_t> Spawn(const Command& command, const Pipe& out,
                      const Pipe& err) {
  SpawnArguments with;
  posix_spawn_file_actions_addopen(&with.actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&with.actions, out.ends[1], 1);
  posix_spawn_file_actions_adddup2(&with.actions, err.ends[1], 2);
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 34)
  posix_spawn_file_actions_addclosefrom_np(&with.actions, 3);
#endif
  sigset_t none;
  sigset_t all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&with.attributes, &none);
  posix_spawnattr_setsigdefault(&with.attributes, &all);
  posix_spawnattr_setpgroup(&with.attributes, 0);
  posix_spawnattr_setflags(&with.attributes, POSIX_SPAWN_SETSIGMASK |
                                                 POSIX_SPAWN_SETSIGDEF |
                                                 POSIX_SPAWN_SETPGROUP);
  const std::vector<char*> words = Pointers(command.words);
  const std::vector<char*> environment = Pointers(command.environment);
  pid_t child = 0;
  const int error =
      posix_spawnp(&child, words[0], &with.actions, &with.attributes,
                   words.data(), environment.data());
  if (error != 0) return ErrnoStatus(error, "start", command.words[0]);
  return child;
}

int Milliseconds(Clock::time_point until) {
  const std::chrono::duration<double, std::milli> left = until - Clock::now();
  return static_cast<int>(std::ceil(std::clamp(left.count(), 0.0, 1e6)));
}

// Collects the output until both pipes are closed.
Status Listen(const Command& command, Clock::time_point until, Pipe& out,
              Pipe& err) {
  while (out.is_open() || err.is_open()) {
    std::array<pollfd, 3> wait = {{{out.ends[0], POLLIN, 0},
                                   {err.ends[0], POLLIN, 0},
                                   {command.cancel, POLLIN, 0}}};
    const int ready = ::poll(wait.data(), wait.size(), Milliseconds(until));
    if (ready < 0 && errno != EINTR) {
      return ErrnoStatus(errno, "listen to", command.words[0]);
    }
    if (ready > 0 && wait[2].revents != 0) {
      return absl::CancelledError("cancelled");
    }
    if (ready > 0 && wait[0].revents != 0) out.Drain();
    if (ready > 0 && wait[1].revents != 0) err.Drain();
    if (Clock::now() >= until && (out.is_open() || err.is_open())) {
      return absl::DeadlineExceededError(
          absl::StrCat("run \"", command.words[0], "\": no answer within ",
                       command.seconds, " s"));
    }
  }
  return absl::OkStatus();
}

// Waits for the child to end and returns its status, as from waitpid; 0 if the
// program itself collects its children. The child has closed its output and
// should end soon. It is killed if it has not ended by `until`.
int Collect(pid_t child, Clock::time_point until) {
  constexpr std::chrono::milliseconds kNap{1};
  int how = 0;
  for (;;) {
    const pid_t found = ::waitpid(child, &how, WNOHANG);
    if (found == child) return how;
    if (found < 0 && errno != EINTR) return 0;
    if (Clock::now() >= until) ::kill(-child, SIGKILL);
    std::this_thread::sleep_for(kNap);
  }
}

}  // namespace

std::vector<std::string> EnvironmentWithout(const std::string& without) {
  std::vector<std::string> kept;
  for (char** entry = ::environ; *entry != nullptr; ++entry) {
    if (!std::string_view(*entry).starts_with(without)) kept.push_back(*entry);
  }
  return kept;
}

StatusOr<std::string> RunCommand(const Command& command) {
  Pipe out;
  Pipe err;
  if (!out.is_open() || !err.is_open()) {
    return ErrnoStatus(errno, "make a pipe for", command.words[0]);
  }
  const auto until =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(
                         std::chrono::duration<double>(command.seconds));
  BELAY_ASSIGN_OR_RETURN(const pid_t child, Spawn(command, out, err));
  out.CloseEnd(1);
  err.CloseEnd(1);
  const Status heard = Listen(command, until, out, err);
  if (!heard.ok()) ::kill(-child, SIGKILL);
  const int how = Collect(child, until);
  BELAY_RETURN_IF_ERROR(heard);
  if (how == 0) return out.text;
  return absl::InternalError(absl::StrCat(
      "run \"", command.words[0], "\": ",
      WIFEXITED(how) ? absl::StrCat("exit code ", WEXITSTATUS(how))
                     : absl::StrCat("ended by signal ", WTERMSIG(how)),
      err.text.empty() ? "" : ": ", absl::StripAsciiWhitespace(err.text)));
}

// --- Time limit ---

namespace {

using Clock = std::chrono::steady_clock;

// Much longer times overflow clocks.
constexpr double kMaxSeconds = 3e9;
constexpr double kMaxGap = 2000;

Status NoTime(std::string_view text) {
  return absl::InvalidArgumentError(Cat(
      "not a time (need D-HH:MM:SS, HH:MM:SS or MM:SS, found \"", text, "\")"));
}

}  // namespace

StatusOr<double> ParseTimeLeft(std::string_view text) {
  constexpr int64_t kMaxDays = 1000000;
  if (text == "UNLIMITED") return std::numeric_limits<double>::infinity();
  std::string_view rest = text;
  std::optional<int64_t> days = 0;
  const size_t dash = rest.find('-');
  const bool has_days = dash != std::string_view::npos;
  if (has_days) {
    days = ParseDigits(rest.substr(0, dash), kMaxDays);
    rest = rest.substr(dash + 1);
  }
  const std::vector<std::string_view> parts = Split(rest, ':');
  if (!days || parts.size() > 3 || parts.size() < (has_days ? 3 : 2)) {
    return NoTime(text);
  }
  int64_t seconds = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const bool is_hours = parts.size() == 3 && i == 0;
    const auto part = ParseDigits(parts[i], is_hours ? 23 : 59);
    if (!part) return NoTime(text);
    seconds = seconds * 60 + *part;
  }
  return static_cast<double>(*days * 86400 + seconds);
}

StatusOr<double> LeastTimeLeft(const std::string& text) {
  const std::string lines(absl::StripAsciiWhitespace(text));
  double least = std::numeric_limits<double>::infinity();
  for (const std::string_view line : Split(lines, '\n')) {
    BELAY_ASSIGN_OR_RETURN(const double seconds, ParseTimeLeft(line));
    least = std::min(least, seconds);
  }
  return least;
}

std::vector<std::string> TimeLeftCommand(const JobEnvironment& job) {
  return {"squeue",
          "-h",
          "-j",
          job.array_job_id != job.job_id
              ? job.job_id
              : absl::StrCat(job.array_job_id, "_", job.array_task_id),
          "-o",
          "%L"};
}

struct TimeLimit::Impl {
  explicit Impl(TimeLimitOptions with);
  ~Impl();

  // Called in the thread.
  void Run();
  void SetLooks(bool value);
  // Both return false if the thread must stop asking.
  bool Ask();
  bool Sleep();

  void Set(double seconds_left);
  void Note(const std::string& text);

  // Called often in the thread. Returns true if the job was suspended since the
  // last call.
  bool Look();
  // Returns the length of a suspension that ends at `now`, or zero. Requires
  // the mutex.
  Clock::duration Gap(Clock::time_point now) const;

  const TimeLimitOptions options;
  const double most_gap;  // seconds
  Command command;
  const int wake;

  mutable std::mutex mutex;  // guards the next seven members
  std::optional<double> left;
  Clock::time_point left_at;
  bool looks = false;  // the thread sleeps between two commands
  Clock::time_point looked_at;
  Clock::duration suspended = {};
  std::vector<std::string> notes;
  std::set<std::string> noted;

  std::thread thread;
};

TimeLimit::Impl::Impl(TimeLimitOptions with)
    : options(std::move(with)),
      most_gap(std::min(2 * options.command_seconds, kMaxGap)),
      // Some variables that squeue reads would hide the job.
      command{.words = options.command,
              .environment = EnvironmentWithout("SQUEUE_"),
              .seconds = options.command_seconds},
      wake(::eventfd(0, EFD_CLOEXEC)) {
  command.cancel = wake;
  if (options.seconds_left) Set(*options.seconds_left);
  if (wake >= 0) thread = StartThreadWithoutSignals([this] { Run(); });
  if (!thread.joinable()) {
    Note("the time limit is not known: the system has no thread to ask for it");
  }
}

TimeLimit::Impl::~Impl() {
  if (wake < 0) return;
  const uint64_t one = 1;
  // The write could fail only if the counter overflowed.
  if (thread.joinable() && ::write(wake, &one, sizeof(one)) > 0) thread.join();
  ::close(wake);
}

void TimeLimit::Impl::Run() {
  bool goes_on = true;
  while (goes_on && Ask()) {
    SetLooks(true);
    goes_on = Sleep();
    SetLooks(false);
  }
}

void TimeLimit::Impl::SetLooks(bool value) {
  const std::lock_guard<std::mutex> lock(mutex);
  looked_at = Clock::now();
  looks = value;
}

Clock::duration TimeLimit::Impl::Gap(Clock::time_point now) const {
  const Clock::duration since = now - looked_at;
  const bool is_gap = since > std::chrono::duration<double>(most_gap);
  return looks && is_gap ? since : Clock::duration::zero();
}

bool TimeLimit::Impl::Look() {
  const std::lock_guard<std::mutex> lock(mutex);
  const Clock::time_point now = Clock::now();
  const Clock::duration gap = Gap(now);
  looked_at = now;
  left_at += gap;
  suspended += gap;
  return gap > Clock::duration::zero();
}

bool TimeLimit::Impl::Ask() {
  const StatusOr<std::string> text = options.run(command);
  if (absl::IsCancelled(text.status())) return false;
  Status status = text.status();
  if (status.ok()) {
    const StatusOr<double> seconds = LeastTimeLeft(*text);
    if (seconds.ok()) Set(*seconds);
    status = seconds.status();
  }
  if (status.ok()) return true;
  Note(absl::StrCat("ask ", options.command[0],
                    " for the time left: ", status.message()));
  // If there is no such command now, there will not be one later.
  return !absl::IsNotFound(status);
}

// Returns true if it is time to ask again: the interval has passed, or the job
// was suspended.
bool TimeLimit::Impl::Sleep() {
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(std::min(
                                          options.every_seconds, kMaxSeconds)));
  for (;;) {
    const std::chrono::duration<double, std::milli> rest = end - Clock::now();
    if (rest.count() <= 0) return true;
    pollfd wait = {wake, POLLIN, 0};
    const double most = std::min(rest.count(), 1000 * most_gap / 4) + 1;
    if (::poll(&wait, 1, static_cast<int>(most)) > 0) return false;
    if (Look()) return true;
  }
}

void TimeLimit::Impl::Set(double seconds_left) {
  const std::lock_guard<std::mutex> lock(mutex);
  left = seconds_left;
  left_at = Clock::now();
}

void TimeLimit::Impl::Note(const std::string& text) {
  const std::lock_guard<std::mutex> lock(mutex);
  if (noted.insert(text).second) notes.push_back(text);
}

TimeLimit::TimeLimit(TimeLimitOptions options)
    : impl_(std::make_unique<Impl>(std::move(options))) {}

TimeLimit::~TimeLimit() = default;

std::optional<double> TimeLimit::SecondsLeft() const {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  if (!impl_->left) return std::nullopt;
  const Clock::time_point now = Clock::now();
  const std::chrono::duration<double> past =
      now - impl_->Gap(now) - impl_->left_at;
  return *impl_->left - past.count();
}

double TimeLimit::SecondsSuspended() const {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  const std::chrono::duration<double> all =
      impl_->suspended + impl_->Gap(Clock::now());
  return all.count();
}

std::vector<std::string> TimeLimit::TakeNotes() {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  return std::exchange(impl_->notes, {});
}

}  // namespace belay
