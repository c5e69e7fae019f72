#include "plan/stored/array_datasets.h"

#include <algorithm>
#include <utility>

namespace belay {
namespace {

std::vector<const Box*> Boxes(const SavedCheckpoint& saved,
                              const std::vector<int32_t>& datasets) {
  std::vector<const Box*> boxes;
  boxes.reserve(datasets.size());
  for (int32_t i : datasets) boxes.push_back(&saved.datasets[i].box);
  return boxes;
}

// Makes `box`, which meets `other`, the part that they have in common.
void Clip(const Box& other, Box& box) {
  for (size_t i = 0; i < box.offset.size(); ++i) {
    const int64_t before =
        std::max<int64_t>(0, other.offset[i] - box.offset[i]);
    box.offset[i] += before;
    box.shape[i] = std::min(box.shape[i] - before,
                            other.shape[i] - (box.offset[i] - other.offset[i]));
  }
}

}  // namespace

void ForEachPartOf(const StoredDataset& dataset, int32_t filtered,
                   const Box& box, int64_t element_size,
                   absl::FunctionRef<void(ReadOrder&)> visit) {
  if (dataset.chunk.empty() && filtered < 0) {
    ReadOrder order{.file = dataset.file,
                    .box = box,
                    .extent = {.box = dataset.box, .offset = dataset.offset}};
    Clip(dataset.box, order.box);
    visit(order);
    return;
  }
  ReadOrder order{.file = dataset.file, .filtered = filtered};
  const Box part = *Intersect(dataset.box, box);
  ForEachExtent(dataset, part, element_size, [&](Extent& extent) {
    if (filtered < 0) extent.offset += dataset.offset;
    order.box = *Intersect(extent.box, part);
    order.extent = std::move(extent);
    visit(order);
  });
}

ArrayDatasets::ArrayDatasets(const SavedCheckpoint& saved,
                             std::vector<int32_t> datasets,
                             std::vector<FilteredDataset>& filtered)
    : saved_(saved),
      datasets_(std::move(datasets)),
      index_(Boxes(saved, datasets_)) {
  filtered_.reserve(datasets_.size());
  for (const int32_t i : datasets_) {
    const StoredDataset& dataset = saved.datasets[i];
    if (dataset.filters.empty()) {
      filtered_.push_back(-1);
      continue;
    }
    filtered_.push_back(static_cast<int32_t>(filtered.size()));
    filtered.push_back({.path = dataset.path,
                        .dtype = saved.arrays[dataset.array].dtype,
                        .box = dataset.box,
                        .filters = dataset.filters,
                        .fields = saved.arrays[dataset.array].fields});
  }
}

void ArrayDatasets::ForEachPart(
    const Box& box, int64_t element_size,
    absl::FunctionRef<void(ReadOrder&)> visit) const {
  for (size_t i : index_.Find(box)) {
    ForEachPartOf(saved_.datasets[datasets_[i]], filtered_[i], box,
                  element_size, visit);
  }
}

std::vector<ArrayDatasets> DatasetsOf(const SavedCheckpoint& saved,
                                      const std::vector<int32_t>& arrays,
                                      std::vector<FilteredDataset>& filtered) {
  if (arrays.empty()) return {};
  std::vector<std::vector<int32_t>> datasets(saved.arrays.size());
  for (size_t i = 0; i < saved.datasets.size(); ++i) {
    datasets[saved.datasets[i].array].push_back(static_cast<int32_t>(i));
  }
  std::vector<ArrayDatasets> result;
  result.reserve(arrays.size());
  for (int32_t array : arrays) {
    result.emplace_back(saved, std::move(datasets[array]), filtered);
  }
  return result;
}

}  // namespace belay
