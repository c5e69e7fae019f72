#include "core/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "core/catch_exceptions.h"
#include "core/errno_status.h"
#include "core/fault.h"
#include "core/status_macros.h"

namespace belay {
namespace {

using Clock = std::chrono::steady_clock;

// A child's descriptors besides the standard ones.
constexpr int kChildSocket = 3;
constexpr int kChildMemory = 4;  // if there is shared memory
constexpr int kFirstOther = 5;

// The first message to a child.
struct ChildBegin {
  int64_t parent = 0;
  int64_t memory_bytes = 0;
  int64_t shared_bytes = 0;
};

// Precedes the bytes of a request and of an answer.
struct ChildHead {
  uint64_t bytes = 0;
  int64_t fault_count = 0;
  int64_t fault_number = 0;  // of a request
  double cpu_seconds = 0;    // of a request
  int32_t code = 0;          // of an answer
};

constexpr auto kNever = Clock::time_point::max();
constexpr char kHasBegun = 'b';  // the first byte from a child

int MillisecondsUntil(Clock::time_point until) {
  const std::chrono::duration<double, std::milli> left = until - Clock::now();
  return static_cast<int>(std::ceil(std::clamp(left.count(), 0.0, 1e6)));
}

// Waits for room in the socket. Returns true if all bytes were sent.
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

// Returns true if all bytes came before `until`.
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

void LowerLimit(int resource, double most) {
  rlimit limit = {};
  if (::getrlimit(resource, &limit) != 0) return;
  limit.rlim_cur = std::min(static_cast<rlim_t>(most), limit.rlim_max);
  ::setrlimit(resource, &limit);
}

// Limits the memory beyond what this process and its libraries already have.
void LimitMemory(int64_t bytes) {
  FILE* file = ::fopen("/proc/self/statm", "re");
  if (file == nullptr) return;
  long pages = 0;
  const int read = ::fscanf(file, "%ld", &pages);
  ::fclose(file);
  const auto used = static_cast<double>(pages) * ::sysconf(_SC_PAGESIZE);
  if (read == 1) LowerLimit(RLIMIT_AS, std::min(used + bytes, 1e18));
}

// Ends this process when the parent ends or closes its end of the socket, even
// if this process is computing. (PR_SET_PDEATHSIG would act when the thread
// that started the child ends.)
void EndWithParent() {
  const auto wait = [] {
    pollfd gone = {kChildSocket, POLLRDHUP, 0};
    while (::poll(&gone, 1, -1) < 0 && errno == EINTR) {
    }
    ::_exit(0);
  };
  try {
    std::thread(wait).detach();
  } catch (const std::system_error&) {
    // Without the thread, this process ends when it sends an answer.
  }
}

// Sets the limits of this process, and tells the parent that it has begun.
// Returns the shared memory.
std::span<std::byte> BeginAsChild() {
  ChildBegin begin;
  if (!ReceiveAll(kChildSocket, &begin, sizeof(begin), kNever) ||
      ::getppid() != begin.parent) {
    ::_exit(0);
  }
  const rlimit no_core = {};
  ::setrlimit(RLIMIT_CORE, &no_core);
  std::span<std::byte> shared;
  if (begin.shared_bytes > 0) {
    const auto bytes = static_cast<size_t>(begin.shared_bytes);
    void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                          kChildMemory, 0);
    if (memory == MAP_FAILED) ::_exit(1);
    shared = {static_cast<std::byte*>(memory), bytes};
    ::close(kChildMemory);
  }
  EndWithParent();
  LimitMemory(begin.memory_bytes);
  if (!SendAll(kChildSocket, &kHasBegun, sizeof(kHasBegun))) ::_exit(0);
  return shared;
}

// Returns false if there is no next request, or the answer cannot be sent.
bool AnswerNext(const Serve& serve, std::span<std::byte> shared) {
  ChildHead head;
  if (!ReceiveAll(kChildSocket, &head, sizeof(head), kNever)) return false;
  std::string request(head.bytes, '\0');
  if (!ReceiveAll(kChildSocket, request.data(), request.size(), kNever)) {
    return false;
  }
  LowerLimit(RLIMIT_CPU, std::ceil(std::min(head.cpu_seconds, 1e9)) + 1);
  fault::Arm(head.fault_number);
  fault::SkipTo(head.fault_count);
  const StatusOr<std::string> answer =
      CatchExceptions([&] { return serve(request, shared); });
  // Not copied: memory may not suffice for two answers.
  const std::string_view text =
      answer.ok() ? std::string_view(*answer)
                  : std::string_view(answer.status().message().data(),
                                     answer.status().message().size());
  const ChildHead back = {.bytes = text.size(),
                          .fault_count = fault::Count(),
                          .code = static_cast<int32_t>(answer.status().code())};
  return SendAll(kChildSocket, &back, sizeof(back)) &&
         SendAll(kChildSocket, text.data(), text.size());
}

}  // namespace

void ServeParent(const Serve& serve) {
  struct stat socket = {};
  if (::fstat(kChildSocket, &socket) != 0 || !S_ISSOCK(socket.st_mode)) {
    ::fputs("belay starts this program itself, to read files by HDF5\n",
            stderr);
    return;
  }
  const std::span<std::byte> shared = BeginAsChild();
  while (AnswerNext(serve, shared)) {
  }
  ::_exit(0);
}

// --- In the parent ---

namespace {

constexpr int kCrashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL,
                            SIGABRT, SIGSYS, SIGTRAP};
constexpr uint64_t kMaxAnswerBytes = uint64_t{1} << 30;

Clock::time_point After(double seconds) {
  constexpr double kMax = 1e9;
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(
             std::chrono::duration<double>(std::clamp(seconds, 0.0, kMax)));
}

// A descriptor numbered above those of a child, even if the program has closed
// its standard files. Closed by the destructor.
class HighDescriptor {
 public:
  // Takes ownership of `low`; a negative `low` is an error.
  explicit HighDescriptor(int low)
      : number_(low < 0 ? low : ::fcntl(low, F_DUPFD_CLOEXEC, kFirstOther)) {
    const int error = errno;
    if (low >= 0) ::close(low);
    errno = error;
  }
  ~HighDescriptor() {
    if (number_ >= 0) ::close(number_);
  }
  HighDescriptor(const HighDescriptor&) = delete;
  HighDescriptor& operator=(const HighDescriptor&) = delete;

  int get() const { return number_; }
  int Release() { return std::exchange(number_, -1); }

 private:
  int number_;
};

// Sets the size of a file. If the size exceeds the program's limit, returns an
// error instead of raising SIGXFSZ, which would end the program.
int SetSize(int file, int64_t bytes) {
  sigset_t too_large;
  sigset_t before;
  sigset_t pending;
  sigemptyset(&too_large);
  sigaddset(&too_large, SIGXFSZ);
  sigpending(&pending);
  ::pthread_sigmask(SIG_BLOCK, &too_large, &before);
  const int result = ::ftruncate(file, bytes);
  const int error = errno;
  if (result != 0 && error == EFBIG && sigismember(&pending, SIGXFSZ) == 0) {
    const timespec now = {};
    ::sigtimedwait(&too_large, nullptr, &now);
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error;
  return result;
}

// Blocks all signals except those of crashes and limits, and resets all
// handlers: signals to all processes of a job are for the parent.
void SetSignals(posix_spawnattr_t& attributes) {
  sigset_t all;
  sigset_t blocked;
  sigfillset(&all);
  sigfillset(&blocked);
  for (const int signal : kCrashes) sigdelset(&blocked, signal);
  for (const int signal : {SIGXCPU, SIGXFSZ}) sigdelset(&blocked, signal);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setsigmask(&attributes, &blocked);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
}

// Starts the program. It inherits no open files of this process, nor their
// locks, except standard error. Returns an error number.
int Spawn(const std::vector<std::string>& command, int socket, int memory,
          pid_t& pid) {
  std::vector<char*> words;
  for (const std::string& word : command) {
    words.push_back(const_cast<char*>(word.c_str()));
  }
  words.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  constexpr char kNull[] = "/dev/null";
  posix_spawn_file_actions_addopen(&actions, 0, kNull, O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, kNull, O_WRONLY, 0);
  if (::fcntl(2, F_GETFD) < 0) {
    posix_spawn_file_actions_addopen(&actions, 2, kNull, O_WRONLY, 0);
  }
  posix_spawn_file_actions_adddup2(&actions, socket, kChildSocket);
  if (memory >= 0) {
    posix_spawn_file_actions_adddup2(&actions, memory, kChildMemory);
  }
  posix_spawn_file_actions_addclosefrom_np(
      &actions, memory >= 0 ? kFirstOther : kChildMemory);
  SetSignals(attributes);
  const int error = ::posix_spawn(&pid, words[0], &actions, &attributes,
                                  words.data(), ::environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  return error;
}

// Returns the error for a child that has ended. `how` is the status from
// waitpid, if known.
Status ErrorOfEnd(const std::string& name, std::optional<int> how) {
  if (how.has_value() && WIFEXITED(*how)) {
    return absl::UnavailableError(Cat(
        name, ": its process has ended (exit code ", WEXITSTATUS(*how), ")"));
  }
  const int signal = how.has_value() && WIFSIGNALED(*how) ? WTERMSIG(*how) : 0;
  if (signal == SIGXCPU) {
    return absl::ResourceExhaustedError(
        Cat(name,
            ": it takes too long to compute: the file needs more than is usual "
            "for its size, is damaged, or was made to do so"));
  }
  if (signal == SIGKILL) {
    return absl::ResourceExhaustedError(
        Cat(name, ": its process was killed, perhaps for want of memory"));
  }
  if (std::ranges::count(kCrashes, signal) > 0) {
    return absl::DataLossError(
        Cat(name, ": its process has crashed (signal ", signal,
            "): the file is damaged, or was made to do so"));
  }
  return absl::UnavailableError(
      Cat(name, ": its process has ended (signal ", signal, ")"));
}

}  // namespace

StatusOr<ChildProcess> ChildProcess::Start(
    std::string name, const std::vector<std::string>& command,
    const ChildLimits& limits) {
  ChildProcess child;
  child.name_ = std::move(name);
  const bool has_memory = limits.shared_bytes > 0;
  const HighDescriptor memory(
      has_memory ? ::memfd_create("belay", MFD_CLOEXEC | MFD_ALLOW_SEALING)
                 : -1);
  if (has_memory) {
    // The size is sealed: if a child could shrink the memory, accesses to it
    // would crash this process.
    constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    const auto bytes = static_cast<size_t>(limits.shared_bytes);
    void* shared = MAP_FAILED;
    if (memory.get() >= 0 && SetSize(memory.get(), limits.shared_bytes) == 0 &&
        ::fcntl(memory.get(), F_ADD_SEALS, kSeals) == 0) {
      shared = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                      memory.get(), 0);
    }
    if (shared == MAP_FAILED) return ErrnoStatus(errno, "map", child.name_);
    child.shared_ = {static_cast<std::byte*>(shared), bytes};
  }
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return ErrnoStatus(errno, "make sockets for", child.name_);
  }
  HighDescriptor mine(ends[0]);
  const HighDescriptor its(ends[1]);
  if (mine.get() < 0 || its.get() < 0) {
    return ErrnoStatus(errno, "make sockets for", child.name_);
  }
  child.socket_ = mine.Release();
  const ChildBegin begin = {.parent = ::getpid(),
                            .memory_bytes = limits.memory_bytes,
                            .shared_bytes = limits.shared_bytes};
  SendAll(child.socket_, &begin, sizeof(begin));
  pid_t pid = -1;
  const int error = Spawn(command, its.get(), memory.get(), pid);
  if (error == 0) {
    child.pid_ = pid;
    return child;
  }
  return ErrnoStatus(error, Cat("start \"", command[0], "\" to"), child.name_);
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept {
  *this = std::move(other);
}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  std::swap(name_, other.name_);
  std::swap(pid_, other.pid_);
  std::swap(socket_, other.socket_);
  std::swap(has_begun_, other.has_begun_);
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
  // The program may have reaped the child already.
  if (pid <= 0 || ::waitpid(pid, nullptr, WNOHANG) != 0) return;
  ::kill(pid, SIGKILL);
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

StatusOr<std::string> ChildProcess::Ask(std::string_view request,
                                        double cpu_seconds,
                                        double deadline_seconds) {
  const Clock::time_point until = After(deadline_seconds);
  const ChildHead head = {.bytes = request.size(),
                          .fault_count = fault::Count(),
                          .fault_number = fault::Armed(),
                          .cpu_seconds = cpu_seconds};
  ChildHead back;
  if (!is_running() || !SendAll(socket_, &head, sizeof(head)) ||
      !SendAll(socket_, request.data(), request.size())) {
    return Lost(deadline_seconds);
  }
  if (char first = 0; !has_begun_) {
    has_begun_ =
        ReceiveAll(socket_, &first, sizeof(first), until) && first == kHasBegun;
  }
  if (!has_begun_ || !ReceiveAll(socket_, &back, sizeof(back), until)) {
    return Lost(deadline_seconds);
  }
  // A corrupted child may send any size.
  if (back.bytes > kMaxAnswerBytes) return Lost(deadline_seconds);
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

// Ends a child that did not answer properly, and returns the reason.
Status ChildProcess::Lost(double deadline_seconds) {
  if (!is_running()) {
    return absl::FailedPreconditionError(
        Cat(name_, ": its process has ended before"));
  }
  // If a child has closed its end, it is about to end.
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
  const bool is_known = ended > 0;
  if (!has_begun_) {
    return absl::UnavailableError(
        Cat(name_, ": the program for it has ended before it began (",
            is_known && WIFSIGNALED(how) ? Cat("signal ", WTERMSIG(how))
            : is_known                   ? Cat("exit code ", WEXITSTATUS(how))
                                         : std::string("nobody knows why"),
            "): it, or a library that it loads, may be damaged"));
  }
  return ErrorOfEnd(name_, is_known ? std::optional<int>(how) : std::nullopt);
}

}  // namespace belay
