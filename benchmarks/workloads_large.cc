#include <utility>

#include "contenders.h"
#include "workloads.h"

namespace belay::bench {
namespace {

constexpr int64_t kLargeArrays = 12;
constexpr int64_t kLargeBytes = int64_t{1} << 30;
constexpr int64_t kLargeColumns = 4096;

std::shared_ptr<Arrays> Large(const Context& context, int axis) {
  const int64_t rows = Scaled(
      context, kLargeBytes / kLargeArrays / (kLargeColumns * int64_t{4}));
  // A multiple of the ranks, so that partitions by rows and by columns have the
  // same shapes.
  const int64_t ranks = context.comm->size();
  const int64_t even_rows = (rows + ranks - 1) / ranks * ranks;
  return MakeMatrices(context, kLargeArrays, even_rows, kLargeColumns, axis);
}

StatusOr<std::vector<Contender>> MakeSaves(const Context& context,
                                           const Medium& medium, int axis) {
  const auto arrays = Large(context, axis);
  const auto save = [&](const char* name, SaveOptions options) {
    return BelaySave(name, context, medium, arrays, options);
  };
  return std::vector<Contender>{
      PlainWrite(context, medium, arrays),
      save("belay", {}),
      save("belay.no_checksums", {.checksums = false}),
      save("belay.canonical", {.array_layout = ArrayLayout::kCanonical}),
      save("belay.collective", {.transfer = Transfer::kCollective}),
      save("belay.hdf5", {.transfer = Transfer::kHdf5}),
      HandmadeHdf5(context, medium, arrays)};
}

StatusOr<std::vector<Contender>> MakeRestores(const Context& context,
                                              const Medium& medium, int axis) {
  const auto arrays = Large(context, axis);
  StatusOr<Contender> plain = PlainRead(context, medium, arrays);
  if (!plain.ok()) return plain.status();
  StatusOr<std::string> dir = SaveForRestore(context, medium, arrays);
  if (!dir.ok()) return dir.status();
  return std::vector<Contender>{
      *std::move(plain), BelayRestore("belay", context, *dir, arrays),
      BelayRestore("belay.no_checksums", context, *dir, arrays,
                   {.checksums = false})};
}

// Binds the axis of one of the two functions above.
auto Along(int axis,
           StatusOr<std::vector<Contender>> (*make)(const Context&,
                                                    const Medium&, int)) {
  return [=](const Context& context, const Medium& medium) {
    return make(context, medium, axis);
  };
}

}  // namespace

Workload SaveRows() {
  return {.title = "save 12 large arrays cut by rows",
          .comparisons =
              {{"save.rows", "belay", "pwrite", 1.15},
               {"save.rows.collective", "belay.collective", "pwrite", {}},
               {"save.rows.hdf5", "belay.hdf5", "pwrite", {}},
               {"checksum.cost.save", "belay", "belay.no_checksums", 1.10},
               {"hdf5.large.rows", "belay", "HDF5 by hand", 1.0}},
          .make = Along(0, MakeSaves)};
}

Workload AsyncLarge() {
  return {.title = "save 1 GiB in the background, until the call returns",
          .comparisons = {{"async.stall.large", "belay.async", "memcpy", 1.25},
                          {"async.stall.large.save", "belay.async",
                           "belay.next", 0.25}},
          .make = [](const Context& context, const Medium& medium) {
            const auto arrays = Large(context, 0);
            return StatusOr<std::vector<Contender>>(std::vector<Contender>{
                MemoryCopy(arrays),
                BelaySave("belay.next", context, medium, arrays, {}, true),
                BelayAsyncSave("belay.async", context, medium, arrays, true)});
          }};
}

Workload RestoreRows() {
  return {.title = "restore 12 large arrays cut by rows",
          .comparisons =
              {{"restore.rows", "belay", "pread", 1.15},
               {"checksum.cost.restore", "belay", "belay.no_checksums", {}}},
          .make = Along(0, MakeRestores)};
}

Workload SavePerTask() {
  return {.title = "save 12 large arrays to one file per rank",
          .comparisons = {{"save.per_task", "belay.per_task",
                           "pwrite to own file", 1.15}},
          .make = [](const Context& context,
                     const Medium& medium) -> StatusOr<std::vector<Contender>> {
            const auto arrays = Large(context, 0);
            return std::vector<Contender>{
                PlainWriteOwnFile(context, medium, arrays),
                BelaySave("belay.per_task", context, medium, arrays,
                          {.file_layout = FileLayout::kPerTask})};
          }};
}

Workload SaveColumns() {
  return {.title = "save 12 large arrays cut by columns",
          .comparisons =
              {{"save.columns.auto", "belay", "pwrite", 1.25},
               {"save.columns.canonical", "belay.canonical", "pwrite", 2.2},
               {"save.columns.collective", "belay.collective", "pwrite", {}},
               {"save.columns.hdf5", "belay.hdf5", "pwrite", {}},
               {"hdf5.large.columns", "belay", "HDF5 by hand", 1.0}},
          .make = Along(1, MakeSaves)};
}

Workload RestoreColumns() {
  return {.title = "restore 12 large arrays cut by columns",
          .comparisons = {{"restore.columns", "belay", "pread", {}}},
          .make = Along(1, MakeRestores)};
}

}  // namespace belay::bench
