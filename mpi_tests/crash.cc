// One life of a program that crash.sh kills again and again.
//
// crash DIR RANK N: restores the newest step, compares it, saves the next one,
// and then saves on until rank RANK makes its N-th system call on a file. There
// the whole job is killed, or for odd N that rank alone. N = 0: no kill.
// crash DIR absent: rank 1 never enters the save.
// Exit codes: 3 wrong values, 4 a committed step is gone, 5 a save failed.

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdarg>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

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

// The seed of a step is its number; a step saved again is the same.
bool SaveStep(const Comm& comm, const std::string& dir, int64_t step,
              PlanCache* cache, bool overwrite) {
  SmallValues values(step);
  const State state = values.state();
  const auto result = Save(comm, dir, step, state,
                           {.overwrite = overwrite,
                            .transfer = static_cast<Transfer>(step % 4),
                            .deadline_seconds = 20,
                            .cache = cache});
  if (!result.ok() && WorldRank() == 0) {
    fprintf(stderr, "%s\n", result.status().ToString().c_str());
  }
  return result.ok();
}

void ChooseVictims(bool all) {
  const pid_t mine = getpid();
  victims.resize(WorldSize());
  MPI_Allgather(&mine, sizeof(mine), MPI_BYTE, victims.data(), sizeof(mine),
                MPI_BYTE, MPI_COMM_WORLD);
  std::erase(victims, mine);
  if (!all) victims.clear();
  victims.push_back(mine);
}

int Live(const Comm& comm, const std::string& dir, int rank, int64_t n) {
  const StatusOr<std::vector<int64_t>> steps = ListSteps(dir);
  int64_t newest = 0;
  if (steps.ok() && !steps->empty()) {
    newest = steps->back();
    if (!RestoresAs(comm, dir, kLatestStep, newest)) return 3;
  }
  if (newest < LastReported(dir)) return 4;
  MPI_Barrier(comm.raw());
  PlanCache cache;
  if (!SaveStep(comm, dir, ++newest, &cache, false)) return 5;
  ReportCommitted(dir, newest);
  ChooseVictims(n % 2 == 0);
  MPI_Barrier(comm.raw());
  if (WorldRank() == rank) calls_left = n;
  for (int i = 0; n > 0; ++i) {
    const bool again = i % 3 == 2;
    if (!SaveStep(comm, dir, again ? newest : ++newest, &cache, again)) {
      return 5;
    }
    ReportCommitted(dir, newest);
  }
  return RestoresAs(comm, dir, newest, newest) ? 0 : 3;
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
                                std::atoll(argv[3]));
  }
  if (code != 0) {
    fprintf(stderr, "crash: exit code %d\n", code);
    MPI_Abort(MPI_COMM_WORLD, code);
  }
  comm.Close().IgnoreError();
  MPI_Finalize();
  return 0;
}
