// Programs that end while a save in the background is under way: async_left DIR
// CASE. Each ends at once and with 0, whatever becomes of that save; the step
// before it stays, and the next program saves again.
//
//   destroys   the saver goes at the end of main
//   manages    a manager does
//   finalizes  the saver goes after MPI_Finalize, with the other statics
//   leaks      it never goes
//   exits      the same while the thread writes, and the program calls exit()
//   races      it goes while the thread writes and commits as fast as it can

#include <mpi.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "belay/async_saver.h"
#include "belay/checkpoint_manager.h"
#include "small_state.h"

namespace belay::testing {
namespace {

// Destroyed in the other order, after main.
std::unique_ptr<Comm> comm;
std::unique_ptr<SmallValues> values;
std::unique_ptr<AsyncSaver> saver;
std::optional<CheckpointManager> manager;

// Never done by itself.
constexpr AsyncOptions kStuck{.max_bytes_per_second = 1};
constexpr int64_t kScale = 1000;

// The step before is as it was, and there is no other unless it is whole.
bool StepsAreWhole(const std::string& dir, int64_t& newest) {
  const std::vector<int64_t> steps =
      ListSteps(dir).value_or(std::vector<int64_t>());
  newest = steps.empty() ? 0 : steps.back();
  for (const int64_t step : steps) {
    if (!RestoresAs(*comm, dir, step, step, kScale)) return false;
  }
  return true;
}

Status Begin(const std::string& dir, int64_t step) {
  values->Fill(step);
  const State state = values->state();
  return saver->Save(dir, step, state, {.overwrite = true}).status();
}

Status BeginManaged(const std::string& dir, int64_t step) {
  static const State state = values->state();
  values->Fill(step);
  auto made = CheckpointManager::Create(*comm, state, dir, {.async = kStuck});
  if (!made.ok()) return made.status();
  manager.emplace(*std::move(made));
  return manager->Save(step).status();
}

Status Run(const std::string& dir, std::string_view name) {
  int64_t newest = 0;
  if (!StepsAreWhole(dir, newest)) return absl::DataLossError("a step");
  MPI_Barrier(MPI_COMM_WORLD);
  if (WorldRank() == 0 && newest > 2) {
    std::filesystem::remove_all(StepPath(dir, newest - 2));
  }
  values = std::make_unique<SmallValues>(1, kScale);
  saver = std::make_unique<AsyncSaver>(*comm);
  Status status = Begin(dir, newest + 1);
  status.Update(saver->Close());
  if (!status.ok()) return status;
  if (name == "manages") return BeginManaged(dir, newest + 2);
  if (name != "races" && name != "exits")
    saver = std::make_unique<AsyncSaver>(*comm, kStuck);
  for (int i = 0; i < 50; ++i) {
    status.Update(Begin(dir, newest + 2));
    if (name != "races") break;
    for (int polls = 0; polls < i % 5; ++polls) {
      status.Update(saver->Poll().status());
    }
    std::this_thread::sleep_for(std::chrono::microseconds(100 * (i % 7)));
    saver = std::make_unique<AsyncSaver>(*comm);
  }
  return status;
}

void End(std::string_view name) {
  if (name == "finalizes") return;
  if (name == "leaks" || name == "exits") {
    (void)saver.release();
    (void)values.release();
    (void)comm.release();
  }
  manager.reset();
  saver.reset();
  comm.reset();
}

}  // namespace
}  // namespace belay::testing

int main(int argc, char** argv) {
  using namespace belay::testing;
  if (argc != 3) return 2;
  MPI_Init(&argc, &argv);
  comm = std::make_unique<belay::Comm>(
      belay::Comm::Duplicate(MPI_COMM_WORLD).value());
  const belay::Status status = Run(argv[1], argv[2]);
  if (!status.ok()) {
    std::fprintf(stderr, "async_left: %s\n", status.ToString().c_str());
    MPI_Abort(MPI_COMM_WORLD, 3);
  }
  End(argv[2]);
  MPI_Finalize();
  if (argv[2] == std::string_view("exits")) std::exit(0);
  return 0;
}
