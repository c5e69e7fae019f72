#include "manager/stop_signals.h"

#include <errno.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <iterator>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/errno_status.h"

namespace belay {
namespace {

constexpr int kNumSignals = 65;  // signals 1 to 64
constexpr uint32_t kInsists = 3;

// Signals of faults in the program, and signals that libraries wait for.
constexpr int kNotRequests[] = {SIGSEGV, SIGBUS,  SIGFPE, SIGILL,
                                SIGABRT, SIGTRAP, SIGSYS, SIGCHLD};

static_assert(std::atomic<uint32_t>::is_always_lock_free);

struct Slot {
  std::atomic<uint32_t> count = 0;
  // Guarded by the mutex. The handler reads `before`, which is written only
  // while the handler is not installed.
  struct sigaction before = {};
  uint32_t count_before = 0;
  int users = 0;
  bool installed = false;
  pid_t process = 0;
};

std::array<Slot, kNumSignals> slots;
std::mutex slots_mutex;

bool HasHandler(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 ||
         (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN);
}

// Raises the signal again with `action` in place of this handler.
void RaiseWith(const struct sigaction& action, int signal) {
  ::sigaction(signal, &action, nullptr);
  ::raise(signal);  // delivered when this handler returns
}

// Makes only calls that are safe in a signal handler.
void OnSignal(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  Slot& slot = slots[signal];
  const uint32_t count = slot.count.fetch_add(1) + 1;
  if (slot.process != ::getpid()) {
    // A forked process, such as a data loader, has no manager that would react
    // to the signal, so it could not be ended.
    RaiseWith(slot.before, signal);
  } else if (signal == SIGINT && count - slot.count_before >= kInsists) {
    RaiseWith({}, signal);
  } else if ((slot.before.sa_flags & SA_SIGINFO) != 0) {
    slot.before.sa_sigaction(signal, info, context);
  } else if (HasHandler(slot.before)) {
    slot.before.sa_handler(signal);
  }
  errno = error;
}

struct sigaction Current(int signal) {
  struct sigaction now = {};
  ::sigaction(signal, nullptr, &now);
  return now;
}

bool IsOurs(int signal) {
  const struct sigaction now = Current(signal);
  return (now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == OnSignal;
}

// If the program has installed a handler over ours, both stay: installing ours
// again would make each call the other forever.
Status Install(int signal) {
  Slot& slot = slots[signal];
  if (slot.users++ > 0) return absl::OkStatus();
  const struct sigaction now = Current(signal);
  if (slot.installed && HasHandler(now)) return absl::OkStatus();
  slot.count_before = slot.count;
  slot.process = ::getpid();
  slot.before = now;
  const bool has_handler = HasHandler(slot.before);
  struct sigaction ours = {};
  ours.sa_sigaction = OnSignal;
  sigemptyset(&ours.sa_mask);
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
  if (has_handler) {
    ours.sa_mask = slot.before.sa_mask;
    ours.sa_flags =
        (slot.before.sa_flags & ~SA_RESETHAND) | SA_SIGINFO | SA_ONSTACK;
  }
  if (::sigaction(signal, &ours, nullptr) != 0) {
    --slot.users;
    return ErrnoStatus(errno, "catch", SignalText(signal));
  }
  slot.installed = true;
  return absl::OkStatus();
}

void Remove(int signal) {
  Slot& slot = slots[signal];
  if (--slot.users > 0 || !slot.installed || !IsOurs(signal)) return;
  ::sigaction(signal, &slot.before, nullptr);
  slot.installed = false;
}

}  // namespace

std::string SignalText(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name != nullptr ? absl::StrCat("SIG", name)
                         : absl::StrCat("signal ", signal);
}

std::string AgainstCatching(int signal) {
  if (signal < 1 || signal >= kNumSignals) {
    return absl::StrCat("there is no signal ", signal);
  }
  if (signal == SIGKILL || signal == SIGSTOP) {
    return absl::StrCat(SignalText(signal), " cannot be caught");
  }
  if (std::find(std::begin(kNotRequests), std::end(kNotRequests), signal) !=
      std::end(kNotRequests)) {
    return absl::StrCat(SignalText(signal), " is not a request to stop");
  }
  return "";
}

StatusOr<StopSignals> StopSignals::Catch(const std::vector<int>& signals) {
  StopSignals caught;
  const std::lock_guard<std::mutex> lock(slots_mutex);
  Status status;
  for (const int signal : signals) {
    const std::string against = AgainstCatching(signal);
    if (!against.empty()) status = absl::InvalidArgumentError(against);
    if (status.ok()) status = Install(signal);
    if (!status.ok()) break;
    caught.caught_.push_back({signal, slots[signal].count});
  }
  if (status.ok()) return caught;
  for (const Caught& one : std::exchange(caught.caught_, {})) {
    Remove(one.signal);
  }
  return status;
}

StopSignals::StopSignals(StopSignals&& other) noexcept
    : caught_(std::exchange(other.caught_, {})) {}

StopSignals& StopSignals::operator=(StopSignals&& other) noexcept {
  std::swap(caught_, other.caught_);
  return *this;
}

StopSignals::~StopSignals() {
  if (caught_.empty()) return;
  const std::lock_guard<std::mutex> lock(slots_mutex);
  for (const Caught& one : caught_) Remove(one.signal);
}

std::optional<int> StopSignals::received() const {
  for (const Caught& one : caught_) {
    if (slots[one.signal].count != one.before) return one.signal;
  }
  return std::nullopt;
}

}  // namespace belay
