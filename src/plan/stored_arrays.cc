#include "plan/stored_arrays.h"

#include <limits>

#include "absl/container/flat_hash_map.h"
#include "absl/numeric/int128.h"
#include "core/checksum.h"
#include "core/struct_text.h"

namespace belay {
namespace {

std::vector<const Box*> Boxes(const SavedCheckpoint& saved,
                              const std::vector<int32_t>& datasets) {
  std::vector<const Box*> boxes;
  boxes.reserve(datasets.size());
  for (int32_t i : datasets) boxes.push_back(&saved.datasets[i].box);
  return boxes;
}

// Intersects `box` with `other`, which it overlaps.
void Clip(const Box& other, Box& box) {
  for (size_t i = 0; i < box.offset.size(); ++i) {
    const int64_t before =
        std::max<int64_t>(0, other.offset[i] - box.offset[i]);
    box.offset[i] += before;
    box.shape[i] = std::min(box.shape[i] - before,
                            other.shape[i] - (box.offset[i] - other.offset[i]));
  }
}

// Calls `visit` for the part of `box` in each extent of the dataset, with an
// order that `visit` may move from. `box` must overlap the dataset; extents may
// extend past it. `filtered` is the number of the dataset among those with
// filters, or -1.
void ForEachDatasetPart(const StoredDataset& dataset, int32_t filtered,
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

}  // namespace

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
    ForEachDatasetPart(saved_.datasets[datasets_[i]], filtered_[i], box,
                       element_size, visit);
  }
}

std::vector<ArrayDatasets> ListDatasets(
    const SavedCheckpoint& saved, const std::vector<int32_t>& arrays,
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

// --- Single array ---

namespace {

constexpr int64_t kMaxBytes = std::numeric_limits<int64_t>::max();

std::string NoTiling(const StoredArray& array,
                     const std::vector<const Box*>& boxes) {
  absl::uint128 found = 0;
  for (const Box* box : boxes) {
    found += static_cast<uint64_t>(NumElements(box->shape));
  }
  const absl::uint128 need =
      static_cast<uint64_t>(ArrayBytes(array) / IoElementSize(array.dtype));
  return absl::StrFormat(
      "the datasets of \"%s\" do not hold each element exactly once (need %d "
      "elements, found %d%s)",
      array.key, need, found, found == need ? ", some of them twice" : "");
}

}  // namespace

std::vector<ArrayEntry> ArrayEntries(const SavedCheckpoint& saved) {
  std::vector<ArrayEntry> entries(saved.arrays.size());
  const std::span<const StoredDataset> datasets(saved.datasets);
  size_t begin = 0;
  int64_t next_block = 0;
  for (size_t i = 0; i < entries.size(); ++i) {
    size_t end = begin;
    while (end < datasets.size() &&
           datasets[end].array == static_cast<int32_t>(i)) {
      ++end;
    }
    entries[i] = {datasets.subspan(begin, end - begin), next_block};
    begin = end;
    // Without checksums, nothing limits the number of blocks.
    if (saved.has_checksums) {
      next_block += NumBlocks(ArrayBytes(saved.arrays[i]));
    }
  }
  return entries;
}

std::string FindTilingDamage(const SavedCheckpoint& saved) {
  absl::uint128 bytes = 0;
  std::vector<const Box*> boxes;
  auto dataset = saved.datasets.begin();
  for (size_t i = 0; i < saved.arrays.size(); ++i) {
    const StoredArray& array = saved.arrays[i];
    bytes += static_cast<uint64_t>(ArrayBytes(array));
    if (bytes > kMaxBytes) {
      return absl::StrFormat(
          "the arrays up to \"%s\" have too many bytes (need at most %d, found "
          "%d)",
          array.key, kMaxBytes, bytes);
    }
    boxes.clear();
    for (; dataset != saved.datasets.end() &&
           dataset->array == static_cast<int32_t>(i);
         ++dataset) {
      boxes.push_back(&dataset->box);
    }
    const bool is_text = array.dtype == DType::kString;
    if (!IsTiling(is_text ? IoShape(array) : array.shape, boxes)) {
      return NoTiling(array, boxes);
    }
  }
  return "";
}

SavedCheckpoint IndexOfArray(const SavedCheckpoint& saved, int32_t array,
                             const ArrayEntry& entry, const Box& box) {
  SavedCheckpoint one{.step = saved.step,
                      .format_major = saved.format_major,
                      .format_minor = saved.format_minor,
                      .file_layout = saved.file_layout,
                      .has_checksums = saved.has_checksums,
                      .arrays = {saved.arrays[array]}};
  absl::flat_hash_map<int32_t, int32_t> file_numbers;
  for (const StoredDataset& dataset : entry.datasets) {
    if (!Intersect(dataset.box, box)) continue;
    const auto [file, is_new] = file_numbers.try_emplace(
        dataset.file, static_cast<int32_t>(one.files.size()));
    if (is_new) one.files.push_back(saved.files[dataset.file]);
    one.datasets.push_back(dataset);
    one.datasets.back().array = 0;
    one.datasets.back().file = file->second;
  }
  if (saved.has_checksums) {
    const auto first = saved.checksums.begin() + entry.first_block;
    one.checksums.assign(first,
                         first + NumBlocks(ArrayBytes(saved.arrays[array])));
  }
  return one;
}

// --- Stacked array ---

namespace {

// Returns the first axis along which a box is shorter than the array, or 0.
uint8_t CutAxis(const Box& box, const Shape& shape) {
  size_t axis = 0;
  while (axis < shape.size() && box.shape[axis] == shape[axis]) ++axis;
  return static_cast<uint8_t>(axis == shape.size() ? 0 : axis);
}

// Returns true if the box spans the array along all axes but `axis`.
bool IsWide(const Box& box, const Shape& shape, size_t axis) {
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i == axis) continue;
    if (box.offset[i] != 0 || box.shape[i] != shape[i]) return false;
  }
  return true;
}

}  // namespace

StackedArray::StackedArray(const StoredArray& array)
    : key_(array.key),
      shape_(IoShape(array)),
      element_size_(IoElementSize(array.dtype)) {}

bool StackedArray::Add(const StoredDataset& dataset) {
  if (shape_.empty() || dataset.box.shape.size() != shape_.size() ||
      !dataset.filters.empty()) {
    return false;
  }
  const bool is_first = ends_.size() == 0;
  if (is_first) {
    axis_ = CutAxis(dataset.box, shape_);
    chunk_ = dataset.chunk;
  }
  const int64_t end = is_first ? 0 : ends_.back();
  if (dataset.box.offset[axis_] != end || dataset.chunk != chunk_ ||
      !IsWide(dataset.box, shape_, axis_)) {
    return false;
  }
  ends_.Append(end + dataset.box.shape[axis_]);
  files_.Append(dataset.file);
  offsets_.Append(dataset.offset);
  return true;
}

bool StackedArray::is_whole() const {
  return ends_.size() > 0 && ends_.back() == shape_[axis_];
}

int64_t StackedArray::told_bytes() const {
  constexpr size_t kRunBytes = 4 * sizeof(int64_t);
  constexpr size_t kRest = 64;
  return static_cast<int64_t>(
      kRest + key_.size() + 2 * shape_.size() * sizeof(int64_t) +
      kRunBytes * (ends_.num_runs() + files_.num_runs() + offsets_.num_runs()));
}

void StackedArray::AddReads(int32_t shard, const Box& box,
                            std::vector<ReadOrder>& orders) const {
  const int64_t begin = box.offset[axis_];
  const int64_t end = begin + box.shape[axis_];
  StoredDataset dataset{.box = WholeBox(shape_), .chunk = chunk_};
  for (int64_t i = ends_.UpperBound(begin); i < ends_.size(); ++i) {
    const int64_t first = i == 0 ? 0 : ends_[i - 1];
    if (first >= end) break;
    dataset.box.offset[axis_] = first;
    dataset.box.shape[axis_] = ends_[i] - first;
    if (dataset.box.shape[axis_] == 0) continue;
    dataset.file = static_cast<int32_t>(files_[i]);
    dataset.offset = offsets_[i];
    ForEachDatasetPart(dataset, -1, box, element_size_, [&](ReadOrder& order) {
      order.shard = shard;
      order.first_block = first_block_;
      orders.push_back(std::move(order));
    });
  }
}

// --- Stored structs ---

namespace {

bool HasWholeStructs(const StoredDataset& dataset, const StoredArray& array) {
  const int64_t bytes = array.shape.back();
  return dataset.box.shape.back() == bytes &&
         (dataset.chunk.empty() || dataset.chunk.back() == bytes);
}

bool CanHave(const StoredArray& array, const std::string& fields) {
  return array.dtype == DType::kU8 && array.shape.size() == 2 &&
         CountStructBytes(fields) == array.shape.back();
}

}  // namespace

StructColumns ToStructColumns(const std::vector<StoredArray>& arrays) {
  StructColumns columns;
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (arrays[i].fields.empty()) continue;
    columns.array.push_back(static_cast<uint32_t>(i));
    columns.fields.push_back(arrays[i].fields);
  }
  return columns;
}

std::string FromStructColumns(const StructColumns& columns,
                              SavedCheckpoint& saved) {
  ColumnDamage damage("structs");
  damage.CheckLength("fields", columns.fields, columns.array.size());
  damage.CheckRange("array", columns.array, 0, saved.arrays.size());
  damage.CheckRows("array", columns.array, [&](size_t i) {
    return i == 0 || columns.array[i - 1] < columns.array[i];
  });
  damage.CheckRows("fields", columns.fields, [&](size_t i) {
    StoredArray& array = saved.arrays[columns.array[i]];
    if (!CanHave(array, columns.fields[i])) return false;
    array.fields = columns.fields[i];
    return true;
  });
  if (std::string text = damage.Take(); !text.empty()) return text;
  if (columns.array.empty()) return "";
  for (const StoredDataset& dataset : saved.datasets) {
    const StoredArray& array = saved.arrays[dataset.array];
    if (array.fields.empty() || HasWholeStructs(dataset, array)) continue;
    return absl::StrFormat("a dataset of \"%s\" has parts of structs",
                           array.key);
  }
  return "";
}

Status CheckWholeStructs(const SavePlan& plan) {
  for (const StoredDataset& dataset : plan.datasets) {
    const StoredArray& array = plan.arrays[dataset.array];
    if (array.fields.empty() || HasWholeStructs(dataset, array)) continue;
    return absl::InvalidArgumentError(absl::StrFormat(
        "plan \"%s\": its structs are cut, by a sharding policy or the chunk "
        "shape of its arguments (need all %d bytes of the last axis, found box "
        "\"%s\", chunk %s)",
        array.key, array.shape.back(), BoxText(dataset.box),
        ShapeText(dataset.chunk)));
  }
  return absl::OkStatus();
}

}  // namespace belay
