// Restores in C++, cut over the ranks, what fortran_test has saved.
//
// usage: read_by_cpp DIR

#include <mpi.h>

#include <algorithm>
#include <array>
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

// Lengths of the other axes of the arrays of test_kinds, of the last first.
constexpr std::array<int64_t, 6> kInner = {3, 2, 1, 2, 3, 2};

// Returns how many elements of an array with `num_axes` axes are not what their
// place in the array says, in the order of Fortran.
template <typename T>
int64_t CountWrong(const belay::Comm& comm, const std::string& dir,
                   size_t num_axes, const std::string& key, T first) {
  const int64_t begin = kLength * comm.rank() / comm.size();
  const int64_t end = kLength * (comm.rank() + 1) / comm.size();
  belay::Shape shape = {kLength};
  shape.insert(shape.end(), kInner.begin(), kInner.begin() + num_axes - 1);
  belay::Box box = belay::WholeBox(shape);
  box.offset[0] = begin;
  box.shape[0] = end - begin;
  const int64_t count = belay::NumElements(box.shape);
  std::vector<T> piece(static_cast<size_t>(count), -1);
  belay::State state;
  state.AddPiece(key, shape, box, piece);
  belay::Check(belay::Restore(comm, dir + "/kinds",
                              static_cast<int64_t>(num_axes), state));
  int64_t wrong = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t place = begin * (count / std::max<int64_t>(1, end - begin));
    wrong += piece[static_cast<size_t>(i)] != first + static_cast<T>(place + i);
  }
  return wrong;
}

int64_t CountWrongKinds(const belay::Comm& comm, const std::string& dir) {
  int64_t wrong = 0;
  for (size_t axes = 1; axes <= 7; ++axes) {
    wrong += CountWrong<double>(comm, dir, axes, "r8", 0);
    wrong += CountWrong<float>(comm, dir, axes, "r4", 0);
    wrong += CountWrong<int64_t>(comm, dir, axes, "i8", int64_t{1} << 33);
    wrong += CountWrong<int32_t>(comm, dir, axes, "i4", 0);
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
  const int64_t wrong =
      CountWrongKinds(comm, dir) + CountWrongValues(comm, dir);
  std::printf("rank %d: %lld wrong\n", comm.rank(),
              static_cast<long long>(wrong));
  belay::Check(comm.Close());
  MPI_Finalize();
  return wrong == 0 ? 0 : 1;
}
