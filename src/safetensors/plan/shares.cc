#include "safetensors/plan/shares.h"

#include <algorithm>

namespace belay::safetensors {
namespace {

constexpr int64_t kMostUnitBytes = int64_t{1} << 20;

// How many elements lie in one step along `axis`.
int64_t Stride(const Shape& shape, size_t axis) {
  int64_t elements = 1;
  for (size_t i = axis + 1; i < shape.size(); ++i) elements *= shape[i];
  return elements;
}

// total * part / parts, which may not fit while it is multiplied.
int64_t ShareOf(int64_t total, int64_t part, int64_t parts) {
  return total / parts * part + total % parts * part / parts;
}

// The element of the tensor, whose first byte is at `first`, at which to cut so
// that the parts meet at about the byte `target`.
int64_t CutNear(const FileTensor& tensor, int64_t first, int64_t target) {
  const int64_t bytes = tensor.end - tensor.begin;
  const int64_t size = DTypeSize(tensor.dtype);
  const int64_t unit = UnitElements(tensor) * size;
  const int64_t wanted = std::clamp<int64_t>(target - first, 0, bytes);
  const int64_t units = wanted / unit + (wanted % unit > unit / 2 ? 1 : 0);
  return std::min(units * unit, bytes) / size;
}

}  // namespace

int64_t UnitElements(const FileTensor& tensor) {
  const int64_t size = DTypeSize(tensor.dtype);
  for (size_t axis = 0; axis < tensor.shape.size(); ++axis) {
    const int64_t elements = Stride(tensor.shape, axis);
    if (elements > 0 && elements <= kMostUnitBytes / size) return elements;
  }
  return 1;
}

std::vector<std::vector<TensorRange>> EvenShares(
    const std::vector<FileTensor>& tensors, int num_ranks) {
  int64_t total = 0;
  for (const FileTensor& tensor : tensors) total += tensor.end - tensor.begin;
  std::vector<std::vector<TensorRange>> shares(num_ranks);
  int64_t first = 0;
  int rank = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const int64_t bytes = tensors[i].end - tensors[i].begin;
    const auto number = static_cast<int64_t>(i);
    if (bytes == 0) {
      shares[0].push_back({.tensor = number});
      continue;
    }
    const int64_t elements = bytes / DTypeSize(tensors[i].dtype);
    for (int64_t begin = 0; begin < elements;) {
      const int64_t until = ShareOf(total, rank + 1, num_ranks);
      const int64_t end =
          rank + 1 == num_ranks
              ? elements
              : std::max(begin, CutNear(tensors[i], first, until));
      if (end > begin) shares[rank].push_back({number, begin, end});
      if (end < elements) ++rank;
      begin = end;
    }
    first += bytes;
  }
  return shares;
}

void ForEachBoxOfRange(const Shape& shape, int64_t begin, int64_t end,
                       absl::FunctionRef<void(const Box&)> visit) {
  if (shape.empty() && begin < end) visit({});
  while (begin < end && !shape.empty()) {
    // The outermost axis along which whole steps follow.
    size_t axis = 0;
    int64_t stride = Stride(shape, 0);
    while (begin % stride != 0 || end - begin < stride) {
      ++axis;
      stride = Stride(shape, axis);
    }
    Box box = WholeBox(shape);
    int64_t rest = begin;
    for (size_t i = 0; i <= axis; ++i) {
      box.offset[i] = rest / Stride(shape, i);
      box.shape[i] = 1;
      rest %= Stride(shape, i);
    }
    box.shape[axis] =
        std::min(shape[axis] - box.offset[axis], (end - begin) / stride);
    visit(box);
    begin += box.shape[axis] * stride;
  }
}

}  // namespace belay::safetensors
