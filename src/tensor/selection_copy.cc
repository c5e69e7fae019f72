#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/status_macros.h"
#include "base/text.h"
#include "geometry/strided_copy.h"
#include "tensor/selection.h"
#include "tensor/strided_copy.h"

namespace belay {
namespace {

// Where the rows of a part lie in the memory from position `begin` on.
struct Places {
  Shape shape;
  int64_t offset;  // bytes
  Shape strides;
};

Places PlacesOf(const Selection& selection, int64_t element_bytes,
                int64_t begin, const RowPart& part) {
  const Shape dense = DenseStrides(selection.source_shape, element_bytes);
  Places places{.shape = {}, .offset = 0, .strides = {}};
  for (size_t axis = 0; axis < selection.axes.size(); ++axis) {
    const AxisRange& range = selection.axes[axis];
    int64_t start = range.start;
    if (axis == 0) start += part.first * range.step - begin;
    places.offset += start * dense[axis];
    places.shape.push_back(axis == 0 ? part.count : range.count);
    places.strides.push_back(range.step * dense[axis]);
  }
  return places;
}

// The masked axes' side of a copy: which of the selected positions, and what to
// take off them because the memory begins later.
struct MaskPart {
  const int64_t* positions;
  int64_t count;
  int64_t before;
  int64_t row_bytes;
};

// Calls `move(place, row, bytes)` for each row, all in bytes from the beginning
// of either side. Rows of a few bytes are moved one by one, with a number of
// bytes that the compiler knows.
template <size_t kBytes, typename Move>
void ForEachMaskRow(const MaskPart& part, const Move& move) {
  for (int64_t row = 0; row < part.count; ++row) {
    move((part.positions[row] - part.before) * kBytes, row * kBytes,
         std::integral_constant<size_t, kBytes>());
  }
}

// The same, with neighbours moved as one.
template <typename Move>
void ForEachMaskRun(const MaskPart& part, const Move& move) {
  const int64_t* const positions = part.positions;
  for (int64_t row = 0; row < part.count;) {
    int64_t end = row + 1;
    while (end < part.count && positions[end] == positions[end - 1] + 1) ++end;
    move((positions[row] - part.before) * part.row_bytes, row * part.row_bytes,
         (end - row) * part.row_bytes);
    row = end;
  }
}

template <typename Move>
void ForEachMasked(const MaskPart& part, const Move& move) {
  switch (part.row_bytes) {
    case 1:
      return ForEachMaskRow<1>(part, move);
    case 2:
      return ForEachMaskRow<2>(part, move);
    case 4:
      return ForEachMaskRow<4>(part, move);
    case 8:
      return ForEachMaskRow<8>(part, move);
    case 16:
      return ForEachMaskRow<16>(part, move);
    default:
      return ForEachMaskRun(part, move);
  }
}

MaskPart MaskPartOf(const Selection& selection, int64_t row_bytes,
                    int64_t begin, const RowPart& part) {
  const Shape& shape = selection.source_shape;
  const int64_t width = NumElements(
      Shape(shape.begin() + 1, shape.begin() + selection.num_masked_axes));
  return {.positions = selection.positions.data() + part.first,
          .count = part.count,
          .before = begin * width,
          .row_bytes = row_bytes};
}

Shape WithoutLeadingOnes(const Shape& shape, size_t ndim) {
  auto first = shape.begin();
  while (shape.end() - first > static_cast<int64_t>(ndim) && *first == 1) {
    ++first;
  }
  return Shape(first, shape.end());
}

}  // namespace

void CopySelected(const Selection& selection, int64_t element_bytes,
                  int64_t begin, const RowPart& part, const std::byte* source,
                  std::byte* result) {
  const int64_t row_bytes = RowElements(selection) * element_bytes;
  if (part.count == 0 || row_bytes == 0) return;
  if (selection.num_masked_axes > 0) {
    ForEachMasked(MaskPartOf(selection, row_bytes, begin, part),
                  [&](int64_t place, int64_t row, auto bytes) {
                    std::memcpy(result + row, source + place, bytes);
                  });
    return;
  }
  const Places places = PlacesOf(selection, element_bytes, begin, part);
  StridedCopy(places.shape, element_bytes,
              {source + places.offset, places.strides},
              {result, DenseStrides(places.shape, element_bytes)});
}

void ScatterSelected(const Selection& selection, int64_t element_bytes,
                     int64_t begin, const RowPart& part,
                     const std::byte* values, std::byte* target) {
  const int64_t row_bytes = RowElements(selection) * element_bytes;
  if (part.count == 0 || row_bytes == 0) return;
  if (selection.num_masked_axes > 0) {
    ForEachMasked(MaskPartOf(selection, row_bytes, begin, part),
                  [&](int64_t place, int64_t row, auto bytes) {
                    std::memcpy(target + place, values + row, bytes);
                  });
    return;
  }
  const Places places = PlacesOf(selection, element_bytes, begin, part);
  StridedCopy(places.shape, element_bytes,
              {values, DenseStrides(places.shape, element_bytes)},
              {target + places.offset, places.strides});
}

Status CheckBroadcast(const Shape& value_shape, const Shape& result_shape) {
  const Shape value = WithoutLeadingOnes(value_shape, result_shape.size());
  bool fits = value.size() <= result_shape.size();
  for (size_t i = 1; fits && i <= value.size(); ++i) {
    const int64_t length = value[value.size() - i];
    fits = length == 1 || length == result_shape[result_shape.size() - i];
  }
  if (fits) return absl::OkStatus();
  return absl::InvalidArgumentError(
      Cat("broadcast \"", ShapeText(value_shape),
          "\": the shape does not fit the selection (need ",
          ShapeText(result_shape), ", found ", ShapeText(value_shape), ")"));
}

StatusOr<Tensor> BroadcastToRows(const Selection& selection,
                                 const Tensor& value, const RowPart& part) {
  BELAY_RETURN_IF_ERROR(CheckBroadcast(value.shape(), selection.result_shape));
  const int64_t element_bytes = DTypeSize(value.dtype());
  Shape shape = selection.result_shape;
  const Shape lengths = WithoutLeadingOnes(value.shape(), shape.size());
  const Shape dense = DenseStrides(lengths, element_bytes);
  const size_t num_added = shape.size() - lengths.size();
  Shape strides(shape.size(), 0);
  for (size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] > 1) strides[num_added + i] = dense[i];
  }
  int64_t offset = 0;
  if (selection.row_axis >= 0) {
    shape[selection.row_axis] = part.count;
    offset = part.first * strides[selection.row_axis];
  }
  Tensor rows(value.dtype(), {part.count, RowElements(selection)});
  if (part.count == 0) return rows;
  StridedCopy(shape, element_bytes, {value.data() + offset, strides},
              {rows.data(), DenseStrides(shape, element_bytes)});
  return rows;
}

}  // namespace belay
