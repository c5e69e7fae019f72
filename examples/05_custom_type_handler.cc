// Stores a custom type: a sparse matrix, partitioned by rows over the ranks.
//
//   mpirun -n 4 ./05_custom_type_handler run save
//   mpirun -n 3 ./05_custom_type_handler run load
//
// In the loading job, each rank has different rows, and does not know how many
// entries these have.

#include <mpi.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "belay/extend/type_handler_registry.h"
#include "belay/save_restore.h"

namespace {

// Rows in compressed form: entries [ends[i - 1], ends[i]) are those of row i.
struct SparseMatrix {
  int64_t num_rows = 0, num_entries = 0;  // of all ranks together
  int64_t first_row = 0;                  // of this rank, as all below
  std::vector<int64_t> ends;              // counted over all ranks
  std::vector<int32_t> columns;
  std::vector<double> values;

  int64_t first_entry() const {
    return ends.empty() ? 0 : ends.back() - std::ssize(columns);
  }
};

class SparseMatrixHandler : public belay::Handler<SparseMatrix> {
 public:
  std::string typestr() const override { return "sparse matrix"; }

  belay::Status ListForSave(SparseMatrix& m,
                            belay::State& parts) const override {
    AddEnds(m, m.first_row, parts);
    AddEntries(m, parts);
    return absl::OkStatus();
  }

  belay::Status ListForRestore(SparseMatrix& m,
                               const belay::StoredValue& stored,
                               belay::State& parts) const override {
    const belay::ValuePart* columns = stored.Find("columns");
    if (columns == nullptr || columns->shape.size() != 1) {
      return absl::FailedPreconditionError("no sparse matrix is stored");
    }
    m.num_entries = columns->shape[0];
    // The start of a row is the end of the row before.
    if (m.first_row > 0) m.ends.insert(m.ends.begin(), 0);
    AddEnds(m, m.first_row > 0 ? m.first_row - 1 : 0, parts);
    return absl::OkStatus();
  }

  // The ends are there, so the entries can be asked for.
  belay::Status Received(SparseMatrix& m, const belay::StoredValue&, int round,
                         belay::State& more) const override {
    if (round > 0) return absl::OkStatus();
    const int64_t begin = m.first_row > 0 ? m.ends.front() : 0;
    if (m.first_row > 0) m.ends.erase(m.ends.begin());
    m.columns.resize((m.ends.empty() ? begin : m.ends.back()) - begin);
    m.values.resize(m.columns.size());
    AddEntries(m, more);
    return absl::OkStatus();
  }

 private:
  static void AddEnds(SparseMatrix& m, int64_t first, belay::State& parts) {
    parts.AddPiece("ends", {m.num_rows}, {{first}, {std::ssize(m.ends)}},
                   m.ends);
  }
  static void AddEntries(SparseMatrix& m, belay::State& parts) {
    const belay::Box box{{m.first_entry()}, {std::ssize(m.columns)}};
    parts.AddPiece("columns", {m.num_entries}, box, m.columns);
    parts.AddPiece("values", {m.num_entries}, box, m.values);
  }
};

// The matrix of this example: row i has i % 7 entries.
constexpr int64_t kRows = 1000;

int64_t EntriesBefore(int64_t row) {
  return row / 7 * 21 + (row % 7) * (row % 7 - 1) / 2;
}

// Returns the rows of one rank, without their entries.
SparseMatrix RowsOf(const belay::Comm& comm) {
  SparseMatrix m;
  m.num_rows = kRows;
  m.first_row = kRows * comm.rank() / comm.size();
  m.ends.resize(kRows * (comm.rank() + 1) / comm.size() - m.first_row);
  return m;
}

SparseMatrix Make(const belay::Comm& comm) {
  SparseMatrix m = RowsOf(comm);
  m.num_entries = EntriesBefore(kRows);
  for (size_t i = 0; i < m.ends.size(); ++i) {
    const int64_t row = m.first_row + static_cast<int64_t>(i);
    m.ends[i] = EntriesBefore(row + 1);
    for (int64_t k = 0; k < row % 7; ++k) {
      m.columns.push_back(static_cast<int32_t>((row * 31 + k) % kRows));
      m.values.push_back(static_cast<double>(row) + 0.125 * k);
    }
  }
  return m;
}

belay::Status Run(const belay::Comm& comm, const std::string& dir,
                  const std::string& mode) {
  belay::Status status = belay::RegisterTypeHandler<SparseMatrix>(
      std::make_shared<SparseMatrixHandler>());
  if (!status.ok()) return status;

  SparseMatrix made = Make(comm), loaded = RowsOf(comm);
  belay::State state;
  state.Add("matrix", mode == "save" ? &made : &loaded);
  if (mode == "save") {
    return belay::Save(comm, dir, 7, state, {.overwrite = true}).status();
  }
  status = belay::Restore(comm, dir, 7, state).status();
  if (!status.ok()) return status;
  if (loaded.ends != made.ends || loaded.columns != made.columns ||
      loaded.values != made.values) {
    return absl::DataLossError("not what was saved");
  }
  std::printf("rank %d: rows from %d on, %d entries\n", comm.rank(),
              static_cast<int>(loaded.first_row),
              static_cast<int>(loaded.columns.size()));
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  auto comm = belay::Comm::Duplicate(MPI_COMM_WORLD);
  const belay::Status status =
      !comm.ok()  ? comm.status()
      : argc != 3 ? absl::InvalidArgumentError("needs DIR save|load")
                  : Run(*comm, argv[1], argv[2]);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  MPI_Finalize();
  return status.ok() ? 0 : 1;
}
