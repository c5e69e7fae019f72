// One life of a program with a manager, which manager_crash.sh kills again and
// again.
//
// manager_crash [state|background] DIR N: checks what the last life left,
// restores the newest step, and saves the next one until rank 0 makes its N-th
// system call that changes the names in a directory or makes them durable.
// There it is killed. With `state` the manager is one of a State, else of a
// Checkpoint; with `background` it saves in the background. Exit codes: 3 wrong
// values, 4 a committed step is gone, 5 a step is not managed, 6 a call failed.

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "belay/checkpoint_manager.h"
#include "manager_program.h"

namespace {

std::atomic<int64_t> calls_left{0};

void Call() {
  if (calls_left > 0 && calls_left.fetch_sub(1) == 1) kill(getpid(), SIGKILL);
}

}  // namespace

// The library's calls land here, also those of std::filesystem.
extern "C" {
int mkdir(const char* path, mode_t mode) noexcept {
  Call();
  return static_cast<int>(syscall(SYS_mkdirat, AT_FDCWD, path, mode));
}
int rename(const char* from, const char* to) noexcept {
  Call();
  return static_cast<int>(
      syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}
int fsync(int fd) {
  Call();
  return static_cast<int>(syscall(SYS_fsync, fd));
}
int unlinkat(int directory, const char* path, int flags) noexcept {
  Call();
  return static_cast<int>(syscall(SYS_unlinkat, directory, path, flags));
}
}

namespace belay {
namespace {

void End(int code, const std::string& why) {
  std::fprintf(stderr, "manager_crash: %s\n", why.c_str());
  MPI_Abort(MPI_COMM_WORLD, code);
}

int64_t LastReported(const std::string& file) {
  std::ifstream in(file);
  int64_t last = 0;
  for (int64_t step = 0; in >> step;) last = step;
  return last;
}

// All steps are managed, and the newest one is at least the last that was
// reported.
void CheckWhatIsLeft(const CheckpointManager& manager,
                     const std::string& reported) {
  const std::vector<StepRecord> records = manager.StepRecords();
  if (records.size() != manager.Steps().size()) End(5, "a stranger");
  if (records.size() > 3) End(5, "too many steps");
  const int64_t last = LastReported(reported);
  if (last > manager.LatestStep().value_or(0)) {
    End(4, "step " + std::to_string(last) + " is gone");
  }
}

StatusOr<CheckpointManager> Manage(testing::Program& program,
                                   std::string_view kind,
                                   const std::string& dir) {
  ManagerOptions options = {.retention = {.max_to_keep = 2}};
  if (kind == "background") options.async = AsyncOptions();
  if (kind == "state") {
    return CheckpointManager::Create(program.comm(), program.state(), dir,
                                     options);
  }
  return CheckpointManager::Create(program.checkpoint(), dir, options);
}

// A save and its end.
StatusOr<ManagedSave> SaveStep(CheckpointManager& manager, int64_t step) {
  StatusOr<ManagedSave> saved = manager.Save(step);
  if (!saved.ok() || saved->outcome != SaveOutcome::kBegun) return saved;
  auto ended = manager.Wait();
  if (!ended.ok()) return ended.status();
  if (!*ended) return absl::InternalError("nothing was under way");
  return **std::move(ended);
}

void Live(std::string_view kind, const std::string& dir, int64_t calls) {
  const std::string reported = dir + ".reported";
  testing::Program program;
  auto manager = Manage(program, kind, dir);
  if (!manager.ok()) End(6, manager.status().ToString());
  CheckWhatIsLeft(*manager, reported);
  const auto restored = manager->RestoreOrInitialize();
  if (!restored.ok()) End(6, restored.status().ToString());
  if (!restored->skipped.empty()) End(6, restored->ToString());
  const int64_t step = restored->step.value_or(0);
  if (!program.Is(step)) End(3, "wrong values");
  if (testing::WorldRank() == 0) calls_left = calls;
  program.Set(step + 1);
  const auto saved = SaveStep(*manager, step + 1);
  if (!saved.ok()) End(6, saved.status().ToString());
  if (saved->outcome != SaveOutcome::kSaved || !saved->notes.empty()) {
    End(6, "not saved well");
  }
  calls_left = 0;
  if (testing::WorldRank() == 0) {
    std::ofstream(reported, std::ios::app) << step + 1 << '\n';
  }
}

}  // namespace
}  // namespace belay

int main(int argc, char** argv) {
  if (argc != 3 && argc != 4) return 2;
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  belay::Live(argc == 4 ? argv[1] : "", argv[argc - 2],
              std::atoll(argv[argc - 1]));
  MPI_Finalize();
  return 0;
}
