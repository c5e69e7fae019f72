// One life of a program that crash.sh and power_loss.sh end again and again.
//
// crash DIR NOTES MODE HOW RANK N
//   DIR    of the steps
//   NOTES  names files beside DIR, for what the next life has to know
//   MODE   foreground or background: how it saves
//   HOW    count    saves three steps and says how many calls each rank made
//          one      before the N-th system call of rank RANK that changes DIR,
//          all      that rank is killed, or all are
//          moment   the same at a random moment that follows from N; for an
//                   odd N one rank, else all
//          power    before the N-th call of RANK the disk loses its power
//          rename   the same before the N-th step gets its name
//          report   the same once the N-th step is reported
//          unsynced the same, though nothing was synced
//          readonly before the N-th call the disk becomes read-only
//
// First it checks what the last life has left: the newest step is at least the
// last that was reported, and restores bit for bit on these ranks; not a byte
// of a step has changed that was there before that life. Then it saves on and
// on: a new plan, the same plan again, a step in place of another.
//
// crash DIR absent: rank 1 never enters the save. Exit codes: 3 wrong values, 4
// a committed step is gone, 5 a save failed, 6 the moment never came, 7 a step
// has changed, 8 a step is there that was never committed.

#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mount.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "belay/async_saver.h"
#include "file_calls.h"
#include "life_notes.h"
#include "small_state.h"
#include "values.h"

namespace belay::testing {
namespace {

namespace fs = std::filesystem;

struct Life {
  std::string dir;
  std::string notes;
  bool background = false;
  std::string_view how;
  int rank = 0;
  int64_t n = 0;

  LifeNotes Notes() const { return LifeNotes(dir, notes); }
  bool IsCut() const {
    return how == "power" || how == "rename" || how == "report" ||
           how == "unsynced" || how == "readonly";
  }
};

// The same bytes, however many ranks there are; the seed is the step.
class Saved {
 public:
  Saved() {
    const int rank = WorldRank();
    const int size = WorldSize();
    values_.AddCut("rows", DType::kF32, {48, 33}, 0, rank, size);
    values_.AddCut("columns", DType::kF64, {3, 24}, 1, rank, size);
    values_.AddWhole("same", DType::kI32, {129});
    values_.AddText("text", 77);
  }
  State Make(int64_t step) {
    values_.Fill(static_cast<uint64_t>(step));
    return values_.MakeState();
  }
  void Spoil(int64_t step) { values_.Spoil(static_cast<uint64_t>(step)); }

  // Collective; agreed.
  bool Restores(const Comm& comm, const std::string& dir, int64_t step) {
    Spoil(step);
    const auto result =
        Restore(comm, dir, step, values_.MakeState(), {.deadline_seconds = 30});
    return OnAllRanks(result.ok() &&
                      values_.CountWrong(static_cast<uint64_t>(step)) == 0);
  }

 private:
  Values values_;
};

// The same for all ranks, which restore the last two steps. Sets the newest.
int CheckAll(const Life& life, const Comm& comm, int64_t& newest) {
  std::vector<int64_t> steps =
      ListSteps(life.dir).value_or(std::vector<int64_t>());
  Saved saved;
  for (size_t i = steps.size(); i > 0 && i + 2 > steps.size(); --i) {
    if (!saved.Restores(comm, life.dir, steps[i - 1])) return 3;
  }
  newest = steps.empty() ? 0 : steps.back();
  MPI_Barrier(MPI_COMM_WORLD);
  int code = WorldRank() == 0 ? life.Notes().Check(steps) : 0;
  MPI_Bcast(&code, 1, MPI_INT, 0, MPI_COMM_WORLD);
  return code;
}

// --- How it ends ---

std::vector<pid_t> AllRanks() {
  const pid_t mine = getpid();
  std::vector<pid_t> ranks(WorldSize());
  MPI_Allgather(&mine, sizeof(mine), MPI_BYTE, ranks.data(), sizeof(mine),
                MPI_BYTE, MPI_COMM_WORLD);
  // Itself last.
  std::erase(ranks, mine);
  ranks.push_back(mine);
  return ranks;
}

// An ext4 stops at once, without writing what it has not written, or changes
// to read-only as after an error.
void CutDisk(const Life& life) {
  constexpr unsigned long kShutdown = 0x8004587D;
  uint32_t no_log_flush = 2;
  const std::string disk = fs::path(life.dir).parent_path();
  int result = 0;
  if (life.how == "readonly") {
    result = mount(nullptr, disk.c_str(), nullptr, MS_REMOUNT, "abort");
  } else {
    const auto fd =
        static_cast<int>(syscall(SYS_openat, AT_FDCWD, disk.c_str(), O_RDONLY));
    result = ioctl(fd, kShutdown, &no_log_flush);
    syscall(SYS_close, fd);
  }
  if (result != 0) {
    perror("crash: cannot cut the disk");
    MPI_Abort(MPI_COMM_WORLD, 9);
  }
}

// Kills at a random moment of some saves.
void KillLater(int64_t n) {
  std::minstd_rand random(static_cast<unsigned>(n * 7919));
  constexpr int kMaxMicroseconds = 20000;
  const std::chrono::microseconds wait(random() % kMaxMicroseconds);
  std::thread([wait] {
    std::this_thread::sleep_for(wait);
    file_calls.act();
  }).detach();
}

// Collective.
void Arm(const Life& life) {
  const std::vector<pid_t> ranks = AllRanks();
  const bool all =
      life.how == "all" || (life.how == "moment" && life.n % 2 == 0);
  file_calls.act = [ranks, all, life] {
    if (life.IsCut()) return CutDisk(life);
    for (const pid_t victim : ranks) {
      if (all || victim == ranks.back()) kill(victim, SIGKILL);
    }
  };
  file_calls.below = life.dir;
  MPI_Barrier(MPI_COMM_WORLD);
  file_calls.syncs = life.how != "unsynced";
  if (WorldRank() != life.rank) return;
  if (life.how == "moment") return KillLater(life.n);
  if (life.how == "rename") {
    file_calls.renames_left = life.n;
  } else if (life.how != "count" && life.how != "report" &&
             life.how != "unsynced") {
    file_calls.left = life.n;
  }
}

// --- What it does ---

class Saver {
 public:
  Saver(const Comm& comm, const Life& life) : comm_(comm), life_(life) {
    if (life.background) async_.emplace(comm);
  }

  // A step saved again is the same.
  Status Save(int64_t step, bool overwrite) {
    const State state = saved_.Make(step);
    SaveOptions options{
        .overwrite = overwrite, .deadline_seconds = 20, .cache = &cache_};
    if (async_) {
      const auto pending = async_->Save(life_.dir, step, state, options);
      saved_.Spoil(step);
      if (!pending.ok()) return pending.status();
      if (pending->finished) Committed(pending->finished->step);
      return absl::OkStatus();
    }
    options.transfer = static_cast<Transfer>(step % 4);
    const Status status =
        belay::Save(comm_, life_.dir, step, state, options).status();
    if (status.ok()) Committed(step);
    return status;
  }

  // Waits for what is under way.
  Status Finish() {
    if (!async_) return absl::OkStatus();
    const auto result = async_->Wait();
    if (!result.ok()) return result.status();
    if (*result) Committed((*result)->step);
    return absl::OkStatus();
  }

 private:
  void Committed(int64_t step) {
    ++num_committed_;
    if (WorldRank() != 0) return;
    life_.Notes().Report(step);
    const bool is_cut = life_.how == "report" || life_.how == "unsynced";
    if (is_cut && num_committed_ == life_.n) file_calls.act();
  }

  const Comm& comm_;
  const Life& life_;
  Saved saved_;
  PlanCache cache_;
  std::optional<AsyncSaver> async_;
  int64_t num_committed_ = 0;
};

// Says how many calls each rank has made. Collective.
void PrintCalls() {
  const int64_t mine[2] = {file_calls.calls, file_calls.thread_calls};
  std::vector<int64_t> all(2 * WorldSize());
  MPI_Gather(mine, 2, MPI_INT64_T, all.data(), 2, MPI_INT64_T, 0,
             MPI_COMM_WORLD);
  if (WorldRank() != 0) return;
  std::string calls = "calls:";
  std::string in_thread = "in the thread:";
  for (int rank = 0; rank < WorldSize(); ++rank) {
    calls += " " + std::to_string(all[2 * rank]);
    in_thread += " " + std::to_string(all[2 * rank + 1]);
  }
  printf("%s\n%s\n", calls.c_str(), in_thread.c_str());
}

// A job whose disk is gone ends with the same error on all ranks.
int EndOfCut(const Life& life, const Status& status) {
  const std::vector<std::string> all = GatherStatus(status);
  if (!OnAllRanks(all[0] == status.ToString())) return 5;
  if (WorldRank() != 0) return 0;
  printf("ended with: %s\n", all[0].c_str());
  if (life.how == "rename") life.Notes().ExpectNoMore();
  return 0;
}

int Live(const Comm& comm, const Life& life) {
  int64_t newest = 0;
  if (const int code = CheckAll(life, comm, newest); code != 0) return code;
  const int64_t saves = life.how == "count" ? 3 : 1000;
  Saver saver(comm, life);
  Arm(life);
  for (int64_t i = 0; i < saves; ++i) {
    const bool again = i % 3 == 2;
    const Status status = saver.Save(again ? newest : ++newest, again);
    if (!status.ok() && life.IsCut()) return EndOfCut(life, status);
    if (status.ok()) continue;
    if (WorldRank() == 0) fprintf(stderr, "%s\n", status.ToString().c_str());
    return 5;
  }
  if (life.how != "count") return 6;
  if (!saver.Finish().ok()) return 5;
  PrintCalls();
  Saved saved;
  return saved.Restores(comm, life.dir, newest) ? 0 : 3;
}

int Absent(const Comm& comm, const std::string& dir) {
  if (WorldRank() == 1) sleep(30);
  Saved saved;
  return Save(comm, dir, 1, saved.Make(1), {.deadline_seconds = 1}).ok() ? 0
                                                                         : 5;
}

}  // namespace
}  // namespace belay::testing

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  belay::Comm comm = belay::Comm::Duplicate(MPI_COMM_WORLD).value();
  int code = 2;
  if (argc == 3) code = belay::testing::Absent(comm, argv[1]);
  if (argc == 7) {
    const belay::testing::Life life{
        .dir = argv[1],
        .notes = argv[2],
        .background = argv[3] == std::string_view("background"),
        .how = argv[4],
        .rank = std::atoi(argv[5]),
        .n = std::atoll(argv[6])};
    code = belay::testing::Live(comm, life);
  }
  if (code != 0) {
    fprintf(stderr, "crash: exit code %d\n", code);
    MPI_Abort(MPI_COMM_WORLD, code);
  }
  comm.Close().IgnoreError();
  MPI_Finalize();
  return 0;
}
