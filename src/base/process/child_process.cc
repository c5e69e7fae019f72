#include "base/process/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/catch_bad_alloc.h"
#include "base/catch_exceptions.h"
#include "base/errno_status.h"
#include "base/fault.h"
#include "base/status_macros.h"
#include "base/text.h"

namespace belay {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kChildSocket = 3;
constexpr uint64_t kMostAnswerBytes = uint64_t{1} << 30;

// What goes before the bytes of a request and of an answer.
struct Head {
  uint64_t bytes = 0;
  int64_t fault_count = 0;
  double cpu_seconds = 0;  // of a request
  int32_t code = 0;        // of an answer
};

Clock::time_point After(double seconds) {
  constexpr double kMost = 1e9;
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(
             std::chrono::duration<double>(std::clamp(seconds, 0.0, kMost)));
}

int MillisecondsUntil(Clock::time_point until) {
  const std::chrono::duration<double, std::milli> left = until - Clock::now();
  return static_cast<int>(std::ceil(std::clamp(left.count(), 0.0, 1e6)));
}

// Whether all bytes were sent. Waits for room.
bool SendAll(int socket, const void* data, size_t bytes) {
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t sent = ::send(socket, from, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    from += sent;
    bytes -= static_cast<size_t>(sent);
  }
  return true;
}

// Whether all bytes came before `until`.
bool ReceiveAll(int socket, void* data, size_t bytes, Clock::time_point until) {
  char* to = static_cast<char*>(data);
  while (bytes > 0) {
    pollfd wait = {socket, POLLIN, 0};
    const int ready = ::poll(&wait, 1, MillisecondsUntil(until));
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0 && Clock::now() < until) continue;
    if (ready <= 0) return false;
    const ssize_t got = ::recv(socket, to, bytes, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to += got;
    bytes -= static_cast<size_t>(got);
  }
  return true;
}

// --- In the child ---

// Bytes of address space that this process has.
int64_t AddressSpace() {
  FILE* file = ::fopen("/proc/self/statm", "re");
  if (file == nullptr) return 0;
  long pages = 0;
  const int read = ::fscanf(file, "%ld", &pages);
  ::fclose(file);
  return read == 1 ? int64_t{pages} * ::sysconf(_SC_PAGESIZE) : 0;
}

void LimitMemory(int64_t bytes) {
  rlimit limit = {};
  const int64_t used = AddressSpace();
  if (used == 0 || bytes > INT64_MAX - used) return;
  if (::getrlimit(RLIMIT_AS, &limit) != 0) return;
  const auto most = static_cast<rlim_t>(used + bytes);
  limit.rlim_cur = std::min(most, limit.rlim_max);
  ::setrlimit(RLIMIT_AS, &limit);
}

// Since the child began.
void LimitCpu(double seconds) {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_CPU, &limit) != 0) return;
  const double most = std::ceil(std::min(seconds, 1e9)) + 1;
  limit.rlim_cur = std::min(static_cast<rlim_t>(most), limit.rlim_max);
  ::setrlimit(RLIMIT_CPU, &limit);
}

// No handler of the program runs, no file of it stays open (with its locks),
// and no core is left behind. What is sent to all processes of a job is for the
// parent: of signals only those of a crash and of a limit are not blocked, as
// they were when the child began.
void LeaveParent(int socket, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(0);
  sigset_t own;
  sigemptyset(&own);
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGSYS,
                           SIGTRAP, SIGXCPU, SIGXFSZ}) {
    ::signal(signal, SIG_DFL);
    sigaddset(&own, signal);
  }
  ::sigprocmask(SIG_UNBLOCK, &own, nullptr);
  const int nowhere = ::open("/dev/null", O_RDWR);
  for (int standard = 0; standard < kChildSocket; ++standard) {
    if (nowhere >= 0 && ::fcntl(standard, F_GETFD) < 0) {
      ::dup2(nowhere, standard);
    }
  }
  if (socket != kChildSocket) ::dup2(socket, kChildSocket);
  ::close_range(kChildSocket + 1, ~0U, 0);
  const rlimit no_core = {};
  ::setrlimit(RLIMIT_CORE, &no_core);
}

[[noreturn]] void ServeAll(const ChildProcess::Serve& serve,
                           std::span<std::byte> shared) {
  const Clock::time_point never = Clock::time_point::max();
  for (;;) {
    Head head;
    if (!ReceiveAll(kChildSocket, &head, sizeof(head), never)) ::_exit(0);
    std::string request(head.bytes, '\0');
    if (!ReceiveAll(kChildSocket, request.data(), request.size(), never)) {
      ::_exit(0);
    }
    LimitCpu(head.cpu_seconds);
    fault::SkipTo(head.fault_count);
    const StatusOr<std::string> answer =
        CatchExceptions([&] { return serve(request, shared); });
    const std::string_view text =
        answer.ok() ? std::string_view(*answer)
                    : std::string_view(answer.status().message().data(),
                                       answer.status().message().size());
    const Head back = {.bytes = text.size(),
                       .fault_count = fault::Count(),
                       .code = static_cast<int32_t>(answer.status().code())};
    if (!SendAll(kChildSocket, &back, sizeof(back)) ||
        !SendAll(kChildSocket, text.data(), text.size())) {
      ::_exit(0);
    }
  }
}

// Why a child has ended, by the signal that ended it; 0: nobody knows.
Status WhyEnded(const std::string& name, int signal) {
  switch (signal) {
    case SIGXCPU:
      return absl::ResourceExhaustedError(
          Cat(name,
              ": it takes too long to compute: the file needs more than "
              "is usual for its size, is damaged, or was made to do so"));
    case SIGKILL:
      return absl::ResourceExhaustedError(
          Cat(name, ": its process was killed, perhaps for want of memory"));
    case SIGSEGV:
    case SIGBUS:
    case SIGFPE:
    case SIGILL:
    case SIGABRT:
    case SIGSYS:
    case SIGTRAP:
      return absl::DataLossError(
          Cat(name, ": its process has crashed (signal ", signal,
              "): the file is damaged, or was made to do so"));
    default:
      return absl::UnavailableError(
          Cat(name, ": its process has ended (signal ", signal, ")"));
  }
}

}  // namespace

StatusOr<ChildProcess> ChildProcess::Start(std::string name,
                                           const ChildLimits& limits,
                                           Serve serve) {
  ChildProcess child;
  child.name_ = std::move(name);
  if (limits.shared_bytes > 0) {
    const auto bytes = static_cast<size_t>(limits.shared_bytes);
    void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return ErrnoStatus(errno, "map", child.name_);
    child.shared_ = {static_cast<std::byte*>(memory), bytes};
  }
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return ErrnoStatus(errno, "make sockets for", child.name_);
  }
  // Where the program has closed its standard files, these are none of them.
  for (int& end : ends) {
    const int above = ::fcntl(end, F_DUPFD_CLOEXEC, kChildSocket);
    ::close(std::exchange(end, above));
  }
  child.socket_ = ends[0];
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t parent = ::getpid();
  const pid_t pid = ends[0] < 0 || ends[1] < 0 ? -1 : ::fork();
  if (pid == 0) {
    LeaveParent(ends[1], parent);
    LimitMemory(limits.memory_bytes);
    ServeAll(serve, child.shared_);
  }
  const int error = errno;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (ends[1] >= 0) ::close(ends[1]);
  if (pid < 0) return ErrnoStatus(error, "start a process for", child.name_);
  child.pid_ = pid;
  return child;
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : name_(std::move(other.name_)),
      pid_(std::exchange(other.pid_, -1)),
      socket_(std::exchange(other.socket_, -1)),
      shared_(std::exchange(other.shared_, {})) {}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  std::swap(name_, other.name_);
  std::swap(pid_, other.pid_);
  std::swap(socket_, other.socket_);
  std::swap(shared_, other.shared_);
  return *this;
}

ChildProcess::~ChildProcess() {
  End();
  if (!shared_.empty()) ::munmap(shared_.data(), shared_.size());
}

void ChildProcess::End() {
  if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  const pid_t pid = std::exchange(pid_, -1);
  // One that the program has waited for itself is not there any more.
  if (pid <= 0 || ::waitpid(pid, nullptr, WNOHANG) != 0) return;
  ::kill(pid, SIGKILL);
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

StatusOr<std::string> ChildProcess::Ask(std::string_view request,
                                        double cpu_seconds,
                                        double deadline_seconds) {
  const Clock::time_point until = After(deadline_seconds);
  const Head head = {.bytes = request.size(),
                     .fault_count = fault::Count(),
                     .cpu_seconds = cpu_seconds};
  Head back;
  if (!is_running() || !SendAll(socket_, &head, sizeof(head)) ||
      !SendAll(socket_, request.data(), request.size()) ||
      !ReceiveAll(socket_, &back, sizeof(back), until)) {
    return Lost(deadline_seconds);
  }
  // A child that has gone wrong may say anything.
  if (back.bytes > kMostAnswerBytes) return Lost(deadline_seconds);
  std::string answer;
  BELAY_RETURN_IF_ERROR(CatchBadAlloc(name_, [&] {
    answer.resize(back.bytes);
    return absl::OkStatus();
  }));
  if (!ReceiveAll(socket_, answer.data(), answer.size(), until)) {
    return Lost(deadline_seconds);
  }
  fault::SkipTo(back.fault_count);
  const auto code = static_cast<absl::StatusCode>(back.code);
  if (code == absl::StatusCode::kOk) return answer;
  return Status(code, answer);
}

// The child does not answer as it should: says why, and ends it.
Status ChildProcess::Lost(double deadline_seconds) {
  if (!is_running()) {
    return absl::FailedPreconditionError(
        Cat(name_, ": its process has ended before"));
  }
  // One that has closed its end is about to end.
  int how = 0;
  pid_t ended = 0;
  pollfd gone = {socket_, POLLRDHUP, 0};
  const bool has_closed = ::poll(&gone, 1, 0) > 0;
  do {
    ended = ::waitpid(pid_, &how, has_closed ? 0 : WNOHANG);
  } while (ended < 0 && errno == EINTR);
  const bool is_reaped = ended != 0;
  if (is_reaped) pid_ = -1;
  End();
  if (!is_reaped) {
    return absl::DeadlineExceededError(
        Cat(name_, ": no answer within ", deadline_seconds, " s"));
  }
  return WhyEnded(name_, ended > 0 && WIFSIGNALED(how) ? WTERMSIG(how) : 0);
}

}  // namespace belay
