// Restores in C++, cut over the ranks, what fortran_test has saved.
//
// usage: read_by_cpp DIR

#include <mpi.h>

#include <complex>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "belay/check.h"
#include "belay/comm.h"
#include "belay/save_restore.h"

namespace {

// Of the axis that Fortran has cut: its last one, the first one here.
constexpr int64_t kLength = 7;

// Returns how many elements of u3(2, 3, 7) are not where they should be.
int64_t CountWrong(const belay::Comm& comm, const std::string& dir) {
  const int64_t begin = kLength * comm.rank() / comm.size();
  const int64_t end = kLength * (comm.rank() + 1) / comm.size();
  const belay::Box box = {.offset = {begin, 0, 0},
                          .shape = {end - begin, 3, 2}};
  std::vector<double> u3(static_cast<size_t>((end - begin) * 6), -1);
  belay::State state;
  state.AddPiece("u3", {kLength, 3, 2}, box, u3);
  belay::Check(belay::Restore(comm, dir + "/ranks", belay::kLatestStep, state));
  int64_t wrong = 0;
  for (int64_t i = 0; i < end - begin; ++i) {
    for (int64_t j = 0; j < 3; ++j) {
      for (int64_t k = 0; k < 2; ++k) {
        const auto needed = static_cast<double>(((begin + i) * 3 + j) * 2 + k);
        wrong += u3[static_cast<size_t>((i * 3 + j) * 2 + k)] != needed;
      }
    }
  }
  return wrong;
}

// The same for values that all ranks hold.
int64_t CountWrongValues(const belay::Comm& comm, const std::string& dir) {
  int64_t step = 0;
  std::vector<int32_t> logicals;
  std::vector<std::complex<double>> numbers;
  std::string name;
  belay::State values, strings;
  values.Add("step", step);
  values.Add("l4", logicals);
  values.Add("c8", numbers);
  strings.Add("name", name);
  belay::Check(
      belay::Restore(comm, dir + "/types", belay::kLatestStep, values));
  belay::Check(
      belay::Restore(comm, dir + "/strings", belay::kLatestStep, strings));
  int64_t wrong = step != 10;
  wrong += logicals != std::vector<int32_t>{1, 0, 1};
  wrong += numbers != std::vector<std::complex<double>>(2, {0.1, 7});
  wrong += name != "two words";
  return wrong;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  belay::Comm comm = belay::Check(belay::Comm::Duplicate(MPI_COMM_WORLD));
  const std::string dir = argc > 1 ? argv[1] : "run";
  const int64_t wrong = CountWrong(comm, dir) + CountWrongValues(comm, dir);
  std::printf("rank %d: %lld wrong\n", comm.rank(),
              static_cast<long long>(wrong));
  belay::Check(comm.Close());
  MPI_Finalize();
  return wrong == 0 ? 0 : 1;
}
