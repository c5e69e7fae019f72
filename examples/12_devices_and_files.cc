// Sharded variables, from the devices that hold them to the files that store
// them.
//
//   mpirun -n 4 ./12_devices_and_files run
//   belay ls --shards run
//   python3 read_merged_index.py run/step_00000001/index.h5
//
// Each rank is a task with two devices, and each device holds some rows of the
// model. A custom policy sorts the pieces of each task into groups. All ranks
// write with collective HDF5 to one file per task and group. Rank 0 writes the
// index, which merges the pieces and has the object graph.

#include <mpi.h>

#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "belay/checkpoint.h"
#include "belay/extend/state.h"
#include "belay/extend/type_handler_registry.h"

namespace {

constexpr int kDevices = 2;  // of each task
constexpr int64_t kColumns = 3;

// The rows of an array that one rank holds, with a part on each device.
struct Table {
  Table(int rank, int ranks, float first) {
    num_rows = int64_t{kDevices} * 2 * ranks;
    for (int device = 0; device < kDevices; ++device) {
      const int64_t row = int64_t{kDevices} * 2 * rank + 2 * device;
      boxes.push_back({{row, 0}, {2, kColumns}});
      for (int64_t i = 0; i < 2 * kColumns; ++i) {
        on_device[device].push_back(first + row * kColumns + i);
      }
    }
  }

  int64_t num_rows = 0;  // of all ranks
  std::vector<belay::Box> boxes;
  std::vector<float> on_device[kDevices];  // copies of device memory
};

// Lists one shard for each device, under the name of that device.
class TableHandler : public belay::Handler<Table> {
 public:
  std::string typestr() const override { return "table on devices"; }

  belay::Status ListForSave(Table& table, belay::State& parts) const override {
    for (int device = 0; device < kDevices; ++device) {
      AddShard(parts, {.key = "",
                       .dtype = belay::DType::kF32,
                       .global_shape = {table.num_rows, kColumns},
                       .box = table.boxes[device],
                       .device = {.device_type = "GPU", .device_index = device},
                       .data = table.on_device[device].data()});
    }
    return absl::OkStatus();
  }

  belay::Status ListForRestore(Table& table, const belay::StoredValue&,
                               belay::State& parts) const override {
    return ListForSave(table, parts);
  }

  bool HasFinalize() const override { return false; }
};

struct Model {
  void Track(belay::Tracker& tracker) {
    tracker.Value("weights", weights);
    tracker.Value("momentum", momentum);
    tracker.Value("rate", rate);
  }

  Table weights, momentum;
  double rate = 0.125;
};

// Makes one group for each device of a node, and one for pieces on no device; a
// task writes each group to its own file. It is called on rank 0, for one task
// after another, and prints its input.
belay::StatusOr<belay::Grouping> GroupByDevice(
    const std::vector<belay::ShardableTensor>& pieces) {
  std::map<std::pair<std::string, int>, belay::ShardGroup> groups;
  for (const belay::ShardableTensor& piece : pieces) {
    const bool is_number = piece.global_shape.empty();
    std::printf("node %d  %s  %-9s %s\n", piece.node,
                belay::DeviceText(piece.device).c_str(),
                is_number ? "a number" : belay::BoxText(piece.box).c_str(),
                piece.key.c_str());
    groups[{piece.device.device_type.value_or(""),
            piece.device.device_index.value_or(0)}]
        .push_back(piece);
  }
  belay::Grouping grouping;
  for (auto& [device, group] : groups) {
    grouping.groups.push_back(std::move(group));
  }
  return grouping;
}

belay::Status SaveAndRestore(const belay::Comm& comm, const std::string& dir) {
  belay::Status status =
      belay::RegisterTypeHandler<Table>(std::make_shared<TableHandler>());
  if (!status.ok()) return status;

  const auto table = [&](float first) {
    return Table(comm.rank(), comm.size(), first);
  };
  Model model{.weights = table(0), .momentum = table(1000)};
  belay::Checkpoint checkpoint(comm, {{"model", model}});
  belay::SaveOptions options;
  options.overwrite = true;
  options.file_layout = belay::FileLayout::kPerTask;
  options.transfer = belay::Transfer::kHdf5;
  options.sharding_policy = {
      .description = "one group for each device of a node",
      .parameters = {{"version", "1"}},
      .group = GroupByDevice};
  const auto saved = checkpoint.Save(dir, options);
  if (!saved.ok()) return saved.status();
  if (comm.rank() == 0) {
    std::printf("%d arrays in %d files, by %s\n\n",
                static_cast<int>(saved->num_arrays),
                static_cast<int>(saved->counters.files),
                saved->transfer == belay::Transfer::kHdf5 ? "collective HDF5"
                                                          : "another way");
  }

  Model other{.weights = table(-1), .momentum = table(-1), .rate = 0};
  belay::Checkpoint later(comm, {{"model", other}});
  const auto restored = later.Restore(dir);
  if (!restored.ok()) return restored.status();
  for (int device = 0; device < kDevices; ++device) {
    if (other.weights.on_device[device] != model.weights.on_device[device] ||
        other.momentum.on_device[device] != model.momentum.on_device[device]) {
      return absl::DataLossError("restore: other values than saved");
    }
  }
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  belay::Status status;
  {
    auto comm = belay::Comm::Duplicate(MPI_COMM_WORLD);
    status = comm.ok() ? SaveAndRestore(*comm, argc > 1 ? argv[1] : "run")
                       : comm.status();
    if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  }
  MPI_Finalize();
  return status.ok() ? 0 : 1;
}
