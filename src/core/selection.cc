#include "core/selection.h"

#include <cstring>

#include "core/status_macros.h"
#include "core/strided_copy.h"
#include "core/text.h"

namespace belay {
namespace {

// Returns the number of elements per position of axis 0 within the masked axes.
int64_t MaskedWidth(const Selection& selection) {
  const Shape& shape = selection.source_shape;
  return NumElements(
      Shape(shape.begin() + 1, shape.begin() + selection.num_masked_axes));
}

// Resolves one end of a slice: a negative number counts from the end of the
// axis, and an end outside the axis is clamped to `low` or `high`.
int64_t ClipEnd(const std::optional<int64_t>& end, int64_t if_missing,
                int64_t length, int64_t low, int64_t high) {
  if (!end.has_value()) return if_missing;
  return std::clamp(*end < 0 ? *end + length : *end, low, high);
}

StatusOr<AxisRange> ResolveSlice(const Slice& slice, int64_t length,
                                 size_t axis) {
  const int64_t step = slice.step.value_or(1);
  if (step == 0) {
    return absl::InvalidArgumentError(
        Cat("slice of axis ", axis,
            " does not move (need a step other than 0, found 0)"));
  }
  // If the step is negative, the slice starts at the last position by default,
  // and stops at -1, the place before the first.
  const bool forwards = step > 0;
  const int64_t low = forwards ? 0 : -1;
  const int64_t high = forwards ? length : length - 1;
  const int64_t start =
      ClipEnd(slice.start, forwards ? low : high, length, low, high);
  const int64_t stop =
      ClipEnd(slice.stop, forwards ? high : low, length, low, high);
  const int64_t distance = forwards ? stop - start : start - stop;
  if (distance <= 0) return AxisRange{};
  // Unsigned, since the magnitude of -2^63 does not fit int64.
  const uint64_t magnitude = forwards ? step : 0 - static_cast<uint64_t>(step);
  const int64_t count = 1 + (static_cast<uint64_t>(distance) - 1) / magnitude;
  return AxisRange{
      .start = start, .step = count > 1 ? step : 1, .count = count};
}

StatusOr<AxisRange> ResolveInteger(int64_t position, int64_t length,
                                   size_t axis) {
  if (position >= -length && position < length) {
    return AxisRange{.start = position < 0 ? position + length : position,
                     .step = 1,
                     .count = 1,
                     .kept = false};
  }
  const std::string need = Cat(" (need ", -length, " to ", length - 1, ", ");
  return absl::OutOfRangeError(Cat("out of bounds of axis ", axis,
                                   length == 0 ? ", which is empty (" : need,
                                   "found ", position, ")"));
}

// Rejects a tensor of positions, although NumPy accepts one.
Status CheckIsMask(const Tensor* mask) {
  if (mask == nullptr) return absl::InvalidArgumentError("the mask is null");
  if (mask->dtype() == DType::kBool) return absl::OkStatus();
  return absl::InvalidArgumentError(
      Cat("a tensor selects elements only as a mask (need bool, found ",
          DTypeName(mask->dtype()), ")"));
}

template <typename Item>
size_t Count(const Index& index) {
  return std::count_if(index.begin(), index.end(), [](const IndexItem& item) {
    return std::holds_alternative<Item>(item);
  });
}

StatusOr<Selection> SelectByItems(const Shape& shape, const Index& index) {
  const size_t num_ellipses = Count<Ellipsis>(index);
  if (num_ellipses > 1) {
    return absl::InvalidArgumentError(Cat(
        "more than one ellipsis (need at most 1, found ", num_ellipses, ")"));
  }
  const size_t num_taken = Count<int64_t>(index) + Count<Slice>(index);
  if (num_taken > shape.size()) {
    return absl::OutOfRangeError(Cat("more items than axes (need at most ",
                                     shape.size(), ", found ", num_taken, ")"));
  }
  Selection selection;
  selection.source_shape = shape;
  std::vector<AxisRange>& axes = selection.axes;  // grows from left to right
  const auto keep = [&](const AxisRange& range) {
    if (axes.empty()) {
      selection.row_axis = static_cast<int>(selection.result_shape.size());
    }
    axes.push_back(range);
    selection.result_shape.push_back(range.count);
  };
  const auto keep_whole = [&](size_t count) {
    for (; count > 0; --count) keep({.count = shape[axes.size()]});
  };
  for (const IndexItem& item : index) {
    const size_t axis = axes.size();
    if (const auto* position = std::get_if<int64_t>(&item)) {
      BELAY_ASSIGN_OR_RETURN(const AxisRange range,
                             ResolveInteger(*position, shape[axis], axis));
      axes.push_back(range);
    } else if (const auto* slice = std::get_if<Slice>(&item)) {
      BELAY_ASSIGN_OR_RETURN(const AxisRange range,
                             ResolveSlice(*slice, shape[axis], axis));
      keep(range);
    } else if (std::holds_alternative<Ellipsis>(item)) {
      keep_whole(shape.size() - num_taken);
    } else if (std::holds_alternative<NewAxis>(item)) {
      selection.result_shape.push_back(1);
    } else {
      BELAY_RETURN_IF_ERROR(CheckIsMask(std::get<const Tensor*>(item)));
      return absl::InvalidArgumentError(
          "a mask must be the only item of an index (need 1 item, found more)");
    }
  }
  if (num_ellipses == 0) keep_whole(shape.size() - num_taken);
  return selection;
}

Status CheckMask(const Shape& shape, const Tensor* mask) {
  BELAY_RETURN_IF_ERROR(CheckIsMask(mask));
  const size_t ndim = mask->shape().size();
  if (ndim == 0) {
    return absl::InvalidArgumentError(
        "the mask is a scalar (need 1 axis or more, found 0)");
  }
  const Shape first(shape.begin(),
                    shape.begin() + std::min(ndim, shape.size()));
  if (mask->shape() == first) return absl::OkStatus();
  return absl::InvalidArgumentError(
      Cat("the mask has another shape than the first axes (need ",
          ShapeText(first), ", found ", ShapeText(mask->shape()), ")"));
}

// Has no branch per element, since masks are often random. The extra place at
// the end receives the elements after the last true one.
std::vector<int64_t> FindTrue(const Tensor& mask) {
  const std::byte* const values = mask.data();
  const int64_t num_elements = mask.num_elements();
  const int64_t num_true =
      num_elements - std::count(values, values + num_elements, std::byte{0});
  std::vector<int64_t> places(num_true + 1);
  int64_t count = 0;
  for (int64_t i = 0; i < num_elements; ++i) {
    places[count] = i;
    count += values[i] != std::byte{0};
  }
  places.pop_back();
  return places;
}

StatusOr<Selection> SelectByMask(const Shape& shape, const Tensor* mask) {
  BELAY_RETURN_IF_ERROR(CheckMask(shape, mask));
  Selection selection;
  selection.source_shape = shape;
  for (int64_t length : shape) {
    selection.axes.push_back({.start = 0, .step = 1, .count = length});
  }
  selection.row_axis = 0;
  selection.num_masked_axes = static_cast<int>(mask->shape().size());
  selection.positions = FindTrue(*mask);
  selection.result_shape.push_back(selection.positions.size());
  selection.result_shape.insert(selection.result_shape.end(),
                                shape.begin() + selection.num_masked_axes,
                                shape.end());
  return selection;
}

bool IsMask(const Index& index) {
  return index.size() == 1 && std::holds_alternative<const Tensor*>(index[0]);
}

// Returns the first row at or after position `end` of an ascending range; for a
// descending range, the first row before `end`.
int64_t FirstRowPast(const AxisRange& range, int64_t end) {
  if (range.step > 0) {
    if (end <= range.start) return 0;
    return std::min(range.count, (end - range.start - 1) / range.step + 1);
  }
  if (range.start < end) return 0;
  return std::min(range.count, (range.start - end) / -range.step + 1);
}

}  // namespace

StatusOr<Selection> Select(const Shape& shape, const Index& index) {
  StatusOr<Selection> selection =
      IsMask(index) ? SelectByMask(shape, std::get<const Tensor*>(index[0]))
                    : SelectByItems(shape, index);
  if (selection.ok()) return selection;
  return AddPrefix(selection.status(), "index ", ShapeText(shape), " by \"",
                   IndexText(index), "\"");
}

int64_t NumRows(const Selection& selection) {
  if (selection.num_masked_axes > 0) {
    return static_cast<int64_t>(selection.positions.size());
  }
  return selection.axes.empty() ? 1 : selection.axes[0].count;
}

int64_t RowElements(const Selection& selection) {
  const size_t first = std::max(1, selection.num_masked_axes);
  Shape counts;
  for (size_t axis = first; axis < selection.axes.size(); ++axis) {
    counts.push_back(selection.axes[axis].count);
  }
  return NumElements(counts);
}

RowPart RowsWithin(const Selection& selection, int64_t begin, int64_t end) {
  if (begin >= end) return RowPart{};
  if (selection.axes.empty()) {
    return RowPart{.first = 0, .count = begin <= 0 && end > 0 ? 1 : 0};
  }
  int64_t first = 0, last = 0;
  if (selection.num_masked_axes > 0) {
    const int64_t width = MaskedWidth(selection);
    const auto& positions = selection.positions;
    const auto row_at = [&](int64_t position) {
      return std::lower_bound(positions.begin(), positions.end(),
                              position * width) -
             positions.begin();
    };
    first = row_at(begin);
    last = row_at(end);
  } else {
    const AxisRange& range = selection.axes[0];
    first = FirstRowPast(range, range.step > 0 ? begin : end);
    last = FirstRowPast(range, range.step > 0 ? end : begin);
  }
  return RowPart{.first = last > first ? first : 0, .count = last - first};
}

int64_t RowPosition(const Selection& selection, int64_t row) {
  if (selection.axes.empty()) return 0;
  if (selection.num_masked_axes > 0) {
    return selection.positions[row] / MaskedWidth(selection);
  }
  return selection.axes[0].start + row * selection.axes[0].step;
}

// --- Selection copy ---

namespace {

// Calls `move(place, row, bytes)` for the rows that a mask selects; all
// arguments are in bytes from the start of either side. Adjacent rows are moved
// together, but rows of an element's size one by one.
template <typename Move>
void ForEachMasked(const Selection& selection, int64_t begin,
                   const RowPart& part, int64_t row_bytes, const Move& move) {
  const int64_t* const positions = selection.positions.data() + part.first;
  const int64_t before = begin * MaskedWidth(selection);
  VisitSize(row_bytes, [&](auto size) {
    constexpr bool kIsElement = !std::is_same_v<decltype(size), int64_t>;
    for (int64_t row = 0, end = 0; row < part.count; row = end) {
      end = row + 1;
      if constexpr (kIsElement) {
        move((positions[row] - before) * size, row * size, size);
      } else {
        while (end < part.count && positions[end] == positions[end - 1] + 1) {
          ++end;
        }
        move((positions[row] - before) * size, row * size, (end - row) * size);
      }
    }
  });
}

Shape WithoutLeadingOnes(const Shape& shape, size_t ndim) {
  auto first = shape.begin();
  while (shape.end() - first > static_cast<int64_t>(ndim) && *first == 1) {
    ++first;
  }
  return Shape(first, shape.end());
}

// Copies rows between their places in an array and a dense store.
template <bool kScatter>
void MoveSelected(const Selection& selection, int64_t element_bytes,
                  int64_t begin, const RowPart& part, const std::byte* from,
                  std::byte* to) {
  const int64_t row_bytes = RowElements(selection) * element_bytes;
  if (part.count == 0 || row_bytes == 0) return;
  if (selection.num_masked_axes > 0) {
    ForEachMasked(selection, begin, part, row_bytes,
                  [&](int64_t place, int64_t row, auto bytes) {
                    std::memcpy(to + (kScatter ? place : row),
                                from + (kScatter ? row : place), bytes);
                  });
    return;
  }
  // The layout of the rows in memory that starts at position `begin` of axis 0.
  const Shape whole = DenseStrides(selection.source_shape, element_bytes);
  Shape shape, strides;
  int64_t offset = 0;  // bytes
  for (size_t axis = 0; axis < selection.axes.size(); ++axis) {
    const AxisRange& range = selection.axes[axis];
    int64_t start = range.start;
    if (axis == 0) start += part.first * range.step - begin;
    offset += start * whole[axis];
    shape.push_back(axis == 0 ? part.count : range.count);
    strides.push_back(range.step * whole[axis]);
  }
  const Shape dense = DenseStrides(shape, element_bytes);
  if (kScatter) {
    StridedCopy(shape, element_bytes, {from, dense}, {to + offset, strides});
  } else {
    StridedCopy(shape, element_bytes, {from + offset, strides}, {to, dense});
  }
}

}  // namespace

void CopySelected(const Selection& selection, int64_t element_bytes,
                  int64_t begin, const RowPart& part, const std::byte* source,
                  std::byte* result) {
  MoveSelected<false>(selection, element_bytes, begin, part, source, result);
}

void ScatterSelected(const Selection& selection, int64_t element_bytes,
                     int64_t begin, const RowPart& part,
                     const std::byte* values, std::byte* target) {
  MoveSelected<true>(selection, element_bytes, begin, part, values, target);
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
