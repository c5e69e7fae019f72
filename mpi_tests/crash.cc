// One life of a program that crash.sh kills again and again.
//
// crash DIR RANK N [background]: restores the newest step, compares it, saves
// the next one, and then saves on until rank RANK makes its N-th system call on
// a file. There the whole job is killed, or for odd N that rank alone. N = 0:
// no kill. With "background" the saves are those of an AsyncSaver, and the
// calls are counted on its thread as well. crash DIR absent: rank 1 never
// enters the save. Exit codes: 3 wrong values, 4 a committed step is gone, 5 a
// save failed, 6 the call was never made.

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cstdarg>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "belay/async_saver.h"
#include "small_state.h"

namespace {

std::atomic<int64_t> calls_left{0};
std::vector<pid_t> victims;

void Call() {
  if (calls_left.load() == 0 || calls_left.fetch_sub(1) != 1) return;
  for (pid_t victim : victims) kill(victim, SIGKILL);
}

}  // namespace

// The library's calls land here: every step of a save that reaches the disk.
extern "C" {
int mkdir(const char* path, mode_t mode) noexcept {
  Call();
  return static_cast<int>(syscall(SYS_mkdirat, AT_FDCWD, path, mode));
}
int fallocate(int fd, int mode, off_t offset, off_t bytes) {
  Call();
  return static_cast<int>(syscall(SYS_fallocate, fd, mode, offset, bytes));
}
ssize_t pwrite(int fd, const void* data, size_t bytes, off_t offset) {
  Call();
  return syscall(SYS_pwrite64, fd, data, bytes, offset);
}
ssize_t pwrite64(int fd, const void* data, size_t bytes, off_t offset) {
  Call();
  return syscall(SYS_pwrite64, fd, data, bytes, offset);
}
ssize_t pwritev(int fd, const iovec* parts, int count, off_t offset) {
  Call();
  return syscall(SYS_pwritev, fd, parts, count, offset, 0);
}
ssize_t pwritev64(int fd, const iovec* parts, int count, off_t offset) {
  Call();
  return syscall(SYS_pwritev, fd, parts, count, offset, 0);
}
int fsync(int fd) {
  Call();
  return static_cast<int>(syscall(SYS_fsync, fd));
}
int rename(const char* from, const char* to) noexcept {
  Call();
  return static_cast<int>(
      syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}
int renameat2(int from_dir, const char* from, int to_dir, const char* to,
              unsigned flags) noexcept {
  Call();
  return static_cast<int>(
      syscall(SYS_renameat2, from_dir, from, to_dir, to, flags));
}
int unlinkat(int dir, const char* path, int flags) noexcept {
  Call();
  return static_cast<int>(syscall(SYS_unlinkat, dir, path, flags));
}
}

namespace belay::testing {
namespace {

// The newest step that a save has reported as committed.
int64_t LastReported(const std::string& dir) {
  int64_t last = 0;
  std::ifstream in(dir + ".reported");
  for (int64_t step; in >> step;) last = step;
  return last;
}

void ReportCommitted(const std::string& dir, int64_t step) {
  if (WorldRank() != 0) return;
  std::ofstream(dir + ".reported", std::ios::app) << step << "\n" << std::flush;
}

// Saves steps, and reports those that are committed.
class Saver {
 public:
  Saver(const Comm& comm, std::string dir, bool background)
      : comm_(comm), dir_(std::move(dir)) {
    if (background) async_.emplace(comm);
  }

  // The seed of a step is its number; a step saved again is the same.
  bool Save(int64_t step, bool overwrite) {
    SmallValues values(step);
    const State state = values.state();
    SaveOptions options{
        .overwrite = overwrite, .deadline_seconds = 20, .cache = &cache_};
    if (async_) {
      const auto pending = async_->Save(dir_, step, state, options);
      if (pending.ok() && pending->finished) {
        ReportCommitted(dir_, pending->finished->step);
      }
      return IsOk(pending.status());
    }
    options.transfer = static_cast<Transfer>(step % 4);
    const Status status =
        belay::Save(comm_, dir_, step, state, options).status();
    if (status.ok()) ReportCommitted(dir_, step);
    return IsOk(status);
  }

  // Waits for what is under way.
  bool Finish() {
    if (!async_) return true;
    const auto result = async_->Wait();
    if (result.ok() && *result) ReportCommitted(dir_, (*result)->step);
    return IsOk(result.status());
  }

 private:
  static bool IsOk(const Status& status) {
    if (!status.ok() && WorldRank() == 0) {
      fprintf(stderr, "%s\n", status.ToString().c_str());
    }
    return status.ok();
  }

  const Comm& comm_;
  const std::string dir_;
  PlanCache cache_;
  std::optional<AsyncSaver> async_;
};

void ChooseVictims(bool all) {
  const pid_t mine = getpid();
  victims.resize(WorldSize());
  MPI_Allgather(&mine, sizeof(mine), MPI_BYTE, victims.data(), sizeof(mine),
                MPI_BYTE, MPI_COMM_WORLD);
  std::erase(victims, mine);
  if (!all) victims.clear();
  victims.push_back(mine);
}

int Live(const Comm& comm, const std::string& dir, int rank, int64_t n,
         bool background) {
  const StatusOr<std::vector<int64_t>> steps = ListSteps(dir);
  int64_t newest = 0;
  if (steps.ok() && !steps->empty()) {
    newest = steps->back();
    if (!RestoresAs(comm, dir, kLatestStep, newest)) return 3;
  }
  if (newest < LastReported(dir)) return 4;
  MPI_Barrier(comm.raw());
  Saver saver(comm, dir, background);
  if (!saver.Save(++newest, false) || !saver.Finish()) return 5;
  ChooseVictims(n % 2 == 0);
  MPI_Barrier(comm.raw());
  if (WorldRank() == rank) calls_left = n;
  for (int i = 0; n > 0; ++i) {
    constexpr int kMostSaves = 1000;
    if (i == kMostSaves) return 6;
    const bool again = i % 3 == 2;
    if (!saver.Save(again ? newest : ++newest, again)) return 5;
  }
  return saver.Finish() && RestoresAs(comm, dir, newest, newest) ? 0 : 3;
}

int Absent(const Comm& comm, const std::string& dir) {
  if (WorldRank() == 1) sleep(30);
  SmallValues values(1);
  const State state = values.state();
  return Save(comm, dir, 1, state, {.deadline_seconds = 1}).ok() ? 0 : 5;
}

}  // namespace
}  // namespace belay::testing

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  belay::Comm comm = belay::Comm::Duplicate(MPI_COMM_WORLD).value();
  const std::string dir = argv[1];
  int code = 0;
  if (argc == 3) {
    code = belay::testing::Absent(comm, dir);
  } else {
    code = belay::testing::Live(comm, dir, std::atoi(argv[2]),
                                std::atoll(argv[3]), argc == 5);
  }
  if (code != 0) {
    fprintf(stderr, "crash: exit code %d\n", code);
    MPI_Abort(MPI_COMM_WORLD, code);
  }
  comm.Close().IgnoreError();
  MPI_Finalize();
  return 0;
}
