// Writes the golden checkpoints of the present format; see README.md.
//
//   SOURCE_DATE_EPOCH=1700000000 mpirun -n 2 ./write_golden DIRECTORY

#include <mpi.h>

#include <cstdio>
#include <string>
#include <vector>

#include "../graph_index.h"
#include "belay/checkpoint.h"
#include "belay/save_restore.h"
#include "format/paths.h"
#include "graph/live_graph.h"
#include "handled.h"
#include "objects.h"
#include "rows.h"
#include "structs.h"
#include "values.h"

namespace {

belay::Status WriteArrays(const belay::Comm& comm, const std::string& dir) {
  const belay::Box box = belay::golden::PieceOfW(comm.rank());
  std::vector<int32_t> piece = belay::golden::ValuesOfW(box);
  belay::golden::Values values;
  belay::State state;
  state.AddPiece("w", {belay::golden::kRows, belay::golden::kColumns}, box,
                 belay::AtAddress(piece.data()));
  values.AddTo(state);
  belay::SaveOptions options;
  auto saved =
      belay::Save(comm, dir, belay::golden::kSharedStep, state, options);
  if (!saved.ok()) return saved.status();
  options.sharding_policy = belay::MaxShardSize(belay::golden::kGroupBytes);
  saved = belay::Save(comm, dir, belay::golden::kGroupsStep, state, options);
  if (!saved.ok()) return saved.status();
  options.sharding_policy = belay::ShardByTask();
  options.file_layout = belay::FileLayout::kPerTask;
  saved = belay::Save(comm, dir, belay::golden::kPerTaskStep, state, options);
  if (!saved.ok()) return saved.status();
  const std::vector<belay::Filter> filters = belay::Deflate(6);
  return belay::Save(
             comm, dir, belay::golden::kFiltersStep, state,
             {.args = {{"w", {.chunk_byte_size = 40, .filters = filters}},
                       {"types/[fi].*", {.filters = filters}}}})
      .status();
}

// Of two ranks that hold the same objects, so that the graph of either is the
// graph of both.
belay::Status WriteObjects(const belay::Comm& comm, const std::string& dir) {
  belay::golden::Objects objects(comm.rank());
  auto live = belay::TrackObjects(objects, comm.rank());
  if (!live.ok()) return live.status();
  belay::Status status = belay::FetchOpaqueStates(*live);
  if (!status.ok()) return status;
  const belay::State state = belay::ListValues(*live, belay::OwnKeys(*live));
  status =
      belay::Save(comm, dir, belay::golden::kGraphStep, state, {}).status();
  if (!status.ok() || comm.rank() > 0) return status;
  const std::string step = belay::StepName(belay::golden::kGraphStep);
  return belay::PutGraph(belay::JoinPath(dir, step), live->graph);
}

belay::Status WriteValues(const belay::Comm& comm, const std::string& dir) {
  belay::golden::Field field;
  const belay::TypeHandlerRegistry handlers = belay::golden::Handlers();
  belay::Checkpoint checkpoint(comm, {{"field", field}});
  return checkpoint
      .SaveAs(belay::StepPath(dir, belay::golden::kValuesStep),
              {.handlers = &handlers})
      .status();
}

belay::Status WriteRows(const belay::Comm& comm, const std::string& dir) {
  belay::golden::Rows rows(comm.rank());
  belay::State state;
  rows.AddTo(state);
  return belay::Save(comm, dir, belay::golden::kRowsStep, state).status();
}

belay::Status WriteStructs(const belay::Comm& comm, const std::string& dir) {
  std::vector<belay::golden::Body> bodies = belay::golden::Bodies(comm.rank());
  belay::State state;
  state.AddRows("bodies", bodies);
  return belay::Save(comm, dir, belay::golden::kStructsStep, state).status();
}

belay::Status Write(const std::string& dir) {
  belay::StatusOr<belay::Comm> comm = belay::Comm::Duplicate(MPI_COMM_WORLD);
  if (!comm.ok()) return comm.status();
  if (comm->size() != 2) return absl::InvalidArgumentError("needs 2 ranks");
  belay::Status status = WriteArrays(*comm, dir);
  if (status.ok()) status = WriteObjects(*comm, dir);
  if (status.ok()) status = WriteValues(*comm, dir);
  if (status.ok()) status = WriteRows(*comm, dir);
  if (status.ok()) status = WriteStructs(*comm, dir);
  return status.ok() ? comm->Close() : status;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const belay::Status status =
      argc == 2 ? Write(argv[1])
                : absl::InvalidArgumentError("usage: write_golden DIRECTORY");
  if (rank == 0 && !status.ok()) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
  }
  MPI_Finalize();
  return status.ok() ? 0 : 1;
}
