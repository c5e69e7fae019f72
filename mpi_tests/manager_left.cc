// Programs that leave an exchange of ShouldSave under way: manager_left DIR
// CASE. With the case "ends" they just end, with 0; else a rank is missing.

#include <mpi.h>
#include <unistd.h>

#include <cstdio>
#include <string_view>

#include "belay/checkpoint_manager.h"
#include "manager_program.h"

namespace belay::testing {
namespace {

// Returns the exit code.
int Run(std::string_view dir, std::string_view name) {
  Program program;
  ManagerOptions options;
  options.save.durable = false;
  options.save.deadline_seconds = 1;
  auto manager = CheckpointManager::Create(program.checkpoint(),
                                           std::string(dir), options);
  if (!manager.ok()) return 2;
  for (int64_t step = 1; step < 10; ++step) {
    if (!manager->ShouldSave(step).ok()) return 3;
  }
  // One exchange is under way.
  if (name == "ends") return 0;
  if (WorldRank() == WorldSize() - 1) sleep(20);
  // The first call completes it, the second one finds that a rank is missing.
  (void)manager->ShouldSave(10);
  (void)manager->ShouldSave(11);
  return 4;
}

}  // namespace
}  // namespace belay::testing

int main(int argc, char** argv) {
  if (argc != 3) return 5;
  MPI_Init(&argc, &argv);
  const int code = belay::testing::Run(argv[1], argv[2]);
  if (code != 0) {
    std::fprintf(stderr, "manager_left: exit code %d\n", code);
    MPI_Abort(MPI_COMM_WORLD, code);
  }
  MPI_Finalize();
  return code;
}
