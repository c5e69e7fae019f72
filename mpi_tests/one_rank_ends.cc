// one_rank_ends DIR CASE: one rank fails in code of its own, while the others
// are in a save. Judged from outside: all end in seconds, with its text.

#include <mpi.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>

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
    belay::Check(absl::InternalError(error.what()));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  MPI_Init(&argc, &argv);
  const belay::Comm comm = belay::Check(belay::Comm::Duplicate(MPI_COMM_WORLD));
  const int64_t step = 1;
  belay::State state;
  state.Add("step", step);
  if (comm.rank() == 1) Fail(argv[2]);
  belay::Check(belay::Save(comm, argv[1], step, state, {.overwrite = true}));
  std::fputs("the save went on\n", stderr);
  MPI_Finalize();
  return 0;
}
