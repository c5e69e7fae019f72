// The measurements of python_bench.py in C++: saves and restores of the same
// arrays with the same options. Prints one line "NAME SECONDS..." for each.
//
//   mpirun -n 2 python_peer DIR MODEL.tsv REPETITIONS

#include <mpi.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "belay/belay.h"

namespace {

// This rank's rows of an array of f32.
struct Rows {
  std::string name;
  belay::Shape shape;
  belay::Box box;
  std::vector<float> values;
};

Rows RowsOf(const belay::Comm& comm, const std::string& name,
            const belay::Shape& shape) {
  Rows rows{.name = name, .shape = shape, .box = {}, .values = {}};
  rows.box = {belay::Shape(shape.size(), 0), shape};
  const int64_t begin = shape[0] * comm.rank() / comm.size();
  const int64_t end = shape[0] * (comm.rank() + 1) / comm.size();
  rows.box.offset[0] = begin;
  rows.box.shape[0] = end - begin;
  int64_t elements = 1;
  for (const int64_t length : rows.box.shape) elements *= length;
  rows.values.assign(static_cast<size_t>(elements), 1.0F);
  return rows;
}

// Reads the tensors of a table in tests/data/models, whose first columns are
// name, dtype and shape.
std::vector<Rows> ModelRows(const belay::Comm& comm, const std::string& file) {
  std::ifstream table(file);
  std::string line;
  std::getline(table, line);
  std::vector<Rows> all;
  while (std::getline(table, line)) {
    const std::vector<std::string> fields = absl::StrSplit(line, '\t');
    belay::Shape shape;
    for (const auto& length : absl::StrSplit(fields[2], ',')) {
      int64_t number = 0;
      if (absl::SimpleAtoi(length, &number)) shape.push_back(number);
    }
    all.push_back(RowsOf(comm, fields[0], shape));
  }
  return all;
}

std::vector<Rows> SmallRows(const belay::Comm& comm) {
  constexpr int kArrays = 1000;
  constexpr int64_t kElements = 256;
  std::vector<Rows> all;
  for (int i = 0; i < kArrays; ++i) {
    all.push_back(RowsOf(comm, absl::StrCat("a", i), {kElements}));
  }
  return all;
}

void Time(const std::string& name, const belay::Comm& comm, int repetitions,
          const std::function<void(int)>& call) {
  std::string line = name;
  for (int i = 0; i <= repetitions; ++i) {
    MPI_Barrier(comm.raw());
    const double begin = MPI_Wtime();
    call(i);
    MPI_Barrier(comm.raw());
    if (i > 0) absl::StrAppend(&line, " ", MPI_Wtime() - begin);
  }
  if (comm.rank() == 0) std::printf("%s\n", line.c_str());
}

void Measure(const std::string& name, const belay::Comm& comm,
             std::vector<Rows> rows, const std::string& dir, int repetitions) {
  belay::State state;
  for (Rows& one : rows) {
    state.AddPiece(one.name, one.shape, one.box, one.values);
  }
  belay::PlanCache cache;
  const belay::SaveOptions options{
      .overwrite = true, .durable = false, .cache = &cache};
  Time("save." + name, comm, repetitions,
       [&](int) { belay::Check(belay::Save(comm, dir, 0, state, options)); });
  Time("restore." + name, comm, repetitions,
       [&](int) { belay::Check(belay::Restore(comm, dir, 0, state)); });
  if (comm.rank() == 0) std::filesystem::remove_all(dir);
  MPI_Barrier(comm.raw());
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc != 4) {
    std::fprintf(stderr, "usage: python_peer DIR MODEL.tsv REPETITIONS\n");
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  {
    belay::Comm comm = belay::Check(belay::Comm::Duplicate(MPI_COMM_WORLD));
    const std::string dir = argv[1];
    const int repetitions = std::atoi(argv[3]);
    Measure("model", comm, ModelRows(comm, argv[2]), dir, repetitions);
    Measure("small", comm, SmallRows(comm), dir, repetitions);
    belay::Check(comm.Close());
  }
  MPI_Finalize();
  return 0;
}
