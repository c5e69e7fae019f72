#include "job/time_limit.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/process/thread_without_signals.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "geometry/digits.h"

namespace belay {
namespace {

using Clock = std::chrono::steady_clock;

// Much longer and clocks overflow.
constexpr double kMostSeconds = 3e9;
constexpr double kMostGap = 2000;

Status NoTime(std::string_view text) {
  return absl::InvalidArgumentError(Cat(
      "not a time (need D-HH:MM:SS, HH:MM:SS or MM:SS, found \"", text, "\")"));
}

}  // namespace

StatusOr<double> ParseTimeLeft(std::string_view text) {
  constexpr int64_t kMostDays = 1000000;
  if (text == "UNLIMITED") return std::numeric_limits<double>::infinity();
  std::string_view rest = text;
  std::optional<int64_t> days = 0;
  const size_t dash = rest.find('-');
  const bool has_days = dash != std::string_view::npos;
  if (has_days) {
    days = ParseDigits(rest.substr(0, dash), kMostDays);
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

  // In the thread.
  void Run();
  void SetLooks(bool value);
  // Whether to ask again.
  bool Ask();
  bool Sleep();

  void Set(double seconds_left);
  void Note(const std::string& text);

  // In the thread, often. Returns whether the job was suspended meanwhile.
  bool Look();
  // How long it has been suspended now. Under the mutex.
  Clock::duration Gap(Clock::time_point now) const;

  const TimeLimitOptions options;
  const double most_gap;  // seconds
  Command command;
  const int wake;

  mutable std::mutex mutex;  // guards the next seven
  std::optional<double> left;
  Clock::time_point left_at;
  bool looks = false;  // the thread sleeps between two questions
  Clock::time_point looked_at;
  Clock::duration suspended = {};
  std::vector<std::string> notes;
  std::set<std::string> noted;

  std::thread thread;
};

TimeLimit::Impl::Impl(TimeLimitOptions with)
    : options(std::move(with)),
      most_gap(std::min(2 * options.command_seconds, kMostGap)),
      // Of squeue's own variables some would hide the job.
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
  // Only a counter at its end could fail.
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
  // Where there is no such command, there will be none later.
  return !absl::IsNotFound(status);
}

// Whether to ask again, because the time has passed or a limit that did not
// come nearer meanwhile has to be known anew.
bool TimeLimit::Impl::Sleep() {
  const auto end =
      Clock::now() +
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(
          std::min(options.every_seconds, kMostSeconds)));
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
