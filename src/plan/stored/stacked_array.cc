#include "plan/stored/stacked_array.h"

#include <algorithm>
#include <utility>

#include "plan/stored/array_datasets.h"

namespace belay {
namespace {

// The first axis along which a box is shorter than the array; 0 if none is.
uint8_t CutAxis(const Box& box, const Shape& shape) {
  size_t axis = 0;
  while (axis < shape.size() && box.shape[axis] == shape[axis]) ++axis;
  return static_cast<uint8_t>(axis == shape.size() ? 0 : axis);
}

// Whether the box is as wide as the array along all axes but one.
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
    ForEachPartOf(dataset, -1, box, element_size_, [&](ReadOrder& order) {
      order.shard = shard;
      order.first_block = first_block_;
      orders.push_back(std::move(order));
    });
  }
}

void StackedArray::Put(WireWriter& out) const {
  out.PutText(key_);
  out.PutShape(shape_);
  out.Put(element_size_);
  out.Put(first_block_);
  out.Put(axis_);
  out.PutShape(chunk_);
  ends_.Put(out);
  files_.Put(out);
  offsets_.Put(out);
}

StackedArray StackedArray::Get(WireReader& in) {
  StackedArray array;
  array.key_ = in.GetText();
  array.shape_ = in.GetShape();
  array.element_size_ = in.Get<int64_t>();
  array.first_block_ = in.Get<int64_t>();
  array.axis_ = in.Get<uint8_t>();
  array.chunk_ = in.GetShape();
  array.ends_ = Progressions::Get(in);
  array.files_ = Progressions::Get(in);
  array.offsets_ = Progressions::Get(in);
  return array;
}

}  // namespace belay
