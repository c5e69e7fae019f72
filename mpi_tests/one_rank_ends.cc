// one_rank_ends DIR CASE: one rank fails in code of its own, while the others
// are in a save. Judged from outside: all end in seconds, with its text. In the
// case "orderly" no rank fails, and all end well.

#include <mpi.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

#include "belay/check.h"
#include "belay/comm.h"
#include "belay/save_restore.h"

namespace {

// What only one rank finds.
void Fail(std::string_view name) {
  constexpr char kText[] = "the mesh is inside out";
  if (name == "throws") throw std::runtime_error(kText);
  if (name == "exits") {
    std::fprintf(stderr, "%s\n", kText);
    std::exit(EXIT_FAILURE);
  }
  try {
    throw std::runtime_error(kText);
  } catch (const std::exception& error) {
    if (name == "checks") belay::Check(absl::InternalError(error.what()));
    std::fprintf(stderr, "%s\n", error.what());
    MPI_Finalize();
    std::exit(EXIT_FAILURE);
  }
}

// Rank 0 answers for all, and goes on to MPI_Finalize while the ranks that pass
// the answer on have not made the call yet: nobody has failed.
void RestoreLate(const belay::Comm& comm, const std::string& dir) {
  constexpr std::chrono::seconds kLate{3};
  if (comm.rank() == comm.size() / 2) std::this_thread::sleep_for(kLate);
  belay::State state;
  int64_t step = 0;
  state.Add("step", step);
  const auto restored = belay::Restore(comm, dir, belay::kLatestStep, state);
  if (restored.status().code() != absl::StatusCode::kNotFound) {
    belay::Check(absl::InternalError("need NotFound, found " +
                                     restored.status().ToString()));
  }
  MPI_Finalize();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  MPI_Init(&argc, &argv);
  const std::string_view name = argv[2];
  const belay::Comm comm = belay::Check(
      belay::Comm::Duplicate(MPI_COMM_WORLD, name == "no_deadline" ? 0 : 600));
  if (name == "orderly") {
    RestoreLate(comm, std::string(argv[1]) + "_absent");
    return 0;
  }
  const int64_t step = 1;
  belay::State state;
  state.Add("step", step);
  belay::SaveOptions options{.overwrite = true};
  if (name == "no_deadline") options.deadline_seconds = 0;
  if (comm.rank() == 1) Fail(name);
  belay::Check(belay::Save(comm, argv[1], step, state, options));
  std::fputs("the save went on\n", stderr);
  MPI_Finalize();
  return 0;
}
