#include "job/run_command.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <string_view>
#include <thread>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/errno_status.h"
#include "base/status_macros.h"

namespace belay {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMaxBytes = 64 << 10;

// Both ends of a pipe, closed at the end. Reading does not block.
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
  // Takes what has come, a part at a time of what never ends. Closes the end
  // for reading once there is no more.
  void Drain() {
    std::array<char, 4096> part;
    for (int reads = 0; reads < 16; ++reads) {
      const ssize_t got = ::read(ends[0], part.data(), part.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == EAGAIN) return;
      if (got <= 0) return CloseEnd(0);
      text.append(part.data(), std::min<size_t>(got, kMaxBytes - text.size()));
    }
  }

  std::array<int, 2> ends = {-1, -1};
  std::string text;
};

// The parts of a spawn, freed at the end.
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

// Collects the output until both ends are closed.
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

// Waits for the end of the child and returns its status as of waitpid; 0 where
// the program collects its children itself. It has closed its output, so that
// the end is near; if not it is killed.
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

}  // namespace belay
