#include "plan/plan.h"

#include <iterator>

#include "absl/strings/str_cat.h"
#include "core/status_macros.h"

namespace belay {
namespace {

// Returns the first dataset of this file or of a later one.
int32_t FirstDataset(const SavePlan& plan, int32_t file) {
  const auto first = std::lower_bound(
      plan.datasets.begin(), plan.datasets.end(), file,
      [](const StoredDataset& dataset, int32_t f) { return dataset.file < f; });
  return static_cast<int32_t>(first - plan.datasets.begin());
}

}  // namespace

bool HasFilters(absl::Span<const StoredDataset> datasets) {
  return std::any_of(
      datasets.begin(), datasets.end(),
      [](const StoredDataset& dataset) { return !dataset.filters.empty(); });
}

int64_t IoElementSize(DType dtype) {
  return dtype == DType::kString ? 1 : DTypeSize(dtype);
}

Shape IoShape(const StoredArray& array) {
  return array.dtype == DType::kString ? Shape{array.string_bytes}
                                       : array.shape;
}

int64_t ArrayBytes(const StoredArray& array) {
  if (array.dtype == DType::kString) return array.string_bytes;
  return NumElements(array.shape) * DTypeSize(array.dtype);
}

std::vector<std::string> FindLayouts(const SavedCheckpoint& saved) {
  std::vector<std::string> layouts;
  for (const StoredArray& array : saved.arrays) {
    layouts.push_back(array.layout);
  }
  const StoredGraph& graph = saved.graph;
  for (size_t i = 0; i < graph.attribute_array.size(); ++i) {
    std::string& layout = layouts[graph.attribute_array[i]];
    if (layout.empty()) layout = graph.attribute_layout[i];
  }
  return layouts;
}

Box IoBox(const ShardInfo& shard) {
  return shard.dtype == DType::kString ? WholeBox({shard.string_bytes})
                                       : shard.box;
}

Shape ChunkGrid(const StoredDataset& dataset) {
  Shape grid(dataset.chunk.size());
  for (size_t i = 0; i < grid.size(); ++i) {
    grid[i] = (dataset.box.shape[i] + dataset.chunk[i] - 1) / dataset.chunk[i];
  }
  return grid;
}

Extent ChunkExtent(const StoredDataset& dataset, const Shape& position,
                   int64_t element_size) {
  const Shape grid = ChunkGrid(dataset);
  Extent extent{.box = {dataset.box.offset, dataset.chunk}};
  int64_t index = 0;
  for (size_t i = 0; i < grid.size(); ++i) {
    index = index * grid[i] + position[i];
    extent.box.offset[i] += position[i] * dataset.chunk[i];
  }
  extent.offset = index * NumElements(dataset.chunk) * element_size;
  return extent;
}

Box FindChunks(const StoredDataset& dataset, const Box& piece) {
  Box chunks = piece;
  for (size_t i = 0; i < dataset.chunk.size(); ++i) {
    const int64_t begin = piece.offset[i] - dataset.box.offset[i];
    const int64_t last = (begin + piece.shape[i] - 1) / dataset.chunk[i];
    chunks.offset[i] = begin / dataset.chunk[i];
    chunks.shape[i] = last - chunks.offset[i] + 1;
  }
  return chunks;
}

void ForEachExtent(const StoredDataset& dataset, const Box& box,
                   int64_t element_size,
                   absl::FunctionRef<void(Extent&)> visit) {
  (void)TryForEachExtent(dataset, box, element_size, [&](Extent& extent) {
    visit(extent);
    return absl::OkStatus();
  });
}

Status TryForEachExtent(const StoredDataset& dataset, const Box& box,
                        int64_t element_size,
                        absl::FunctionRef<Status(Extent&)> visit) {
  const std::optional<Box> wanted = Intersect(dataset.box, box);
  if (!wanted) return absl::OkStatus();
  if (dataset.chunk.empty()) {
    Extent whole{.box = dataset.box, .offset = 0};
    return visit(whole);
  }

  const Box chunks = FindChunks(dataset, *wanted);
  for (Shape position = chunks.offset;;) {
    Extent extent = ChunkExtent(dataset, position, element_size);
    BELAY_RETURN_IF_ERROR(visit(extent));
    int axis = static_cast<int>(position.size()) - 1;
    while (axis >= 0 &&
           position[axis] == chunks.offset[axis] + chunks.shape[axis] - 1) {
      position[axis] = chunks.offset[axis];
      --axis;
    }
    if (axis < 0) return absl::OkStatus();
    ++position[axis];
  }
}

std::pair<int32_t, int32_t> FindTeamFiles(const SavePlan& plan, int32_t team) {
  const auto [first, last] = std::equal_range(
      plan.files.begin(), plan.files.end(), StoredFile{.team = team},
      [](const StoredFile& a, const StoredFile& b) { return a.team < b.team; });
  return {static_cast<int32_t>(first - plan.files.begin()),
          static_cast<int32_t>(last - plan.files.begin())};
}

std::vector<std::string> DescribeWork(const SavePlan& plan) {
  std::vector<std::string> work;
  for (const RankWrites& writes : plan.ranks) {
    if (writes.orders.empty()) {
      work.emplace_back("writes nothing");
      continue;
    }
    int64_t more = -1;
    int32_t last = -1;
    for (const WriteOrder& order : writes.orders) {
      more += order.dataset != last ? 1 : 0;
      last = order.dataset;
    }
    const StoredDataset& first = plan.datasets[writes.orders[0].dataset];
    work.push_back(
        absl::StrCat("writes \"", plan.arrays[first.array].key, "\""));
    if (more > 0) {
      absl::StrAppend(&work.back(), " and ", more,
                      more == 1 ? " more dataset" : " more datasets");
    }
  }
  return work;
}

std::vector<RankWrites> TakeWritesByFile(SavePlan& plan, int32_t rank) {
  const auto [first_file, last_file] = FindTeamFiles(plan, plan.teams[rank]);
  std::vector<RankWrites> files(last_file - first_file);
  auto begin = plan.ranks[rank].orders.begin();
  for (int32_t file = first_file; file < last_file; ++file) {
    const int32_t first = FirstDataset(plan, file);
    const auto end = std::lower_bound(
        begin, plan.ranks[rank].orders.end(), FirstDataset(plan, file + 1),
        [](const WriteOrder& order, int32_t d) { return order.dataset < d; });
    RankWrites& writes = files[file - first_file];
    writes.orders.assign(std::make_move_iterator(begin),
                         std::make_move_iterator(end));
    for (WriteOrder& order : writes.orders) {
      const StoredDataset& dataset = plan.datasets[order.dataset];
      writes.bytes += NumElements(order.box.shape) *
                      IoElementSize(plan.arrays[dataset.array].dtype);
      order.dataset -= first;
    }
    begin = end;
  }
  plan.ranks[rank] = {};
  return files;
}

}  // namespace belay
