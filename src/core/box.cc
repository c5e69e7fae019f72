#include "belay/arrays/box.h"

#include <cassert>
#include <limits>

#include "core/integers.h"
#include "core/status_macros.h"
#include "core/text.h"

namespace belay {
namespace {

constexpr int64_t kMaxInt64 = std::numeric_limits<int64_t>::max();

// Returns one past the last index of an axis. Saturates: an overhanging box may
// reach past 2^63 - 1, where no array has elements.
int64_t End(const Box& box, size_t axis) {
  if (box.offset[axis] > kMaxInt64 - box.shape[axis]) return kMaxInt64;
  return box.offset[axis] + box.shape[axis];
}

// Errors are made in separate functions: millions of boxes are checked at a
// time, and the compiler inlines a check that makes no message.
Status NegativeError(std::string_view what, size_t axis, int64_t value) {
  return absl::InvalidArgumentError(Cat(what, " of axis ", axis,
                                        " is negative (need 0 or more, found ",
                                        value, ")"));
}

Status NumAxesError(size_t need, size_t found) {
  return absl::InvalidArgumentError(
      Cat("wrong number of axes (need ", need, ", found ", found, ")"));
}

Status PastAxisError(const Box& box, const Shape& shape, size_t axis) {
  // The unsigned sum of two non-negative int64 does not overflow.
  const uint64_t need = static_cast<uint64_t>(box.offset[axis]) +
                        static_cast<uint64_t>(box.shape[axis]);
  return absl::OutOfRangeError(Cat("box reaches past axis ", axis, " of ",
                                   ShapeText(shape), " (need ", need,
                                   ", found ", shape[axis], ")"));
}

Status CheckAxis(const Box& box, const Shape& shape, size_t axis) {
  const int64_t offset = box.offset[axis];
  const int64_t length = box.shape[axis];
  if (shape[axis] < 0) return NegativeError("array length", axis, shape[axis]);
  if (offset < 0) return NegativeError("offset", axis, offset);
  if (length < 0) return NegativeError("length", axis, length);
  return length <= shape[axis] - offset ? absl::OkStatus()
                                        : PastAxisError(box, shape, axis);
}

Status CheckBoxCause(const Box& box, const Shape& shape) {
  for (const Shape* part : {&box.offset, &box.shape}) {
    if (part->size() != shape.size()) {
      return NumAxesError(shape.size(), part->size());
    }
  }
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    BELAY_RETURN_IF_ERROR(CheckAxis(box, shape, axis));
  }
  return absl::OkStatus();
}

StatusOr<int64_t> NumElementsOrCause(const Shape& shape) {
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] < 0) return NegativeError("length", axis, shape[axis]);
  }
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  int64_t count = 1;
  for (int64_t length : shape) {
    if (length > kMaxInt64 / count) {
      return absl::InvalidArgumentError(
          Cat("too many elements (need at most ", kMaxInt64, ")"));
    }
    count *= length;
  }
  return count;
}

StatusOr<int64_t> ParseLength(std::string_view text) {
  if (const auto value = ParseDigits(text, kMaxInt64)) return *value;
  return absl::InvalidArgumentError(
      Cat("\"", text, "\" is not a number from 0 to ", kMaxInt64));
}

// Appends one axis, "-" or "offset,length", to `box`.
Status ParseAxis(std::string_view text, int64_t full_length, Box& box) {
  if (text == "-") {
    box.offset.push_back(0);
    box.shape.push_back(full_length);
    return absl::OkStatus();
  }
  const std::vector<std::string_view> pair = Split(text, ',');
  if (pair.size() != 2) {
    return absl::InvalidArgumentError(
        Cat("\"", text, "\" is not \"-\" or \"offset,length\""));
  }
  BELAY_ASSIGN_OR_RETURN(const int64_t offset, ParseLength(pair[0]));
  BELAY_ASSIGN_OR_RETURN(const int64_t length, ParseLength(pair[1]));
  box.offset.push_back(offset);
  box.shape.push_back(length);
  return absl::OkStatus();
}

StatusOr<SliceSpec> ParseSliceSpecOrCause(std::string_view text) {
  SliceSpec spec;
  if (text.empty()) return spec;
  std::vector<std::string_view> dims = Split(text, ' ');
  if (dims.size() < 2) {
    return absl::InvalidArgumentError(
        "no box after the shape (need 2 parts or more, found 1)");
  }
  const std::vector<std::string_view> items = Split(dims.back(), ':');
  dims.pop_back();
  for (std::string_view dim : dims) {
    BELAY_ASSIGN_OR_RETURN(const int64_t length, ParseLength(dim));
    spec.full_shape.push_back(length);
  }
  BELAY_RETURN_IF_ERROR(NumElementsOrCause(spec.full_shape).status());
  if (dims.size() != items.size()) {
    return NumAxesError(dims.size(), items.size());
  }
  for (size_t axis = 0; axis < items.size(); ++axis) {
    BELAY_RETURN_IF_ERROR(
        ParseAxis(items[axis], spec.full_shape[axis], spec.box));
  }
  BELAY_RETURN_IF_ERROR(CheckBoxCause(spec.box, spec.full_shape));
  return spec;
}

}  // namespace

StatusOr<int64_t> CheckedNumElements(const Shape& shape) {
  StatusOr<int64_t> count = NumElementsOrCause(shape);
  if (count.ok()) return count;
  return AddPrefix(count.status(), "check shape \"", ShapeText(shape), "\"");
}

int64_t NumElements(const Shape& shape) {
  // The product of the lengths before a zero may overflow.
  uint64_t count = 1;
  for (const int64_t length : shape) {
    if (length == 0) return 0;
    count *= static_cast<uint64_t>(length);
  }
  return static_cast<int64_t>(count);
}

Box WholeBox(const Shape& shape) {
  return Box{.offset = Shape(shape.size(), 0), .shape = shape};
}

bool IsEmpty(const Box& box) {
  return std::find(box.shape.begin(), box.shape.end(), 0) != box.shape.end();
}

Status CheckBox(const Box& box, const Shape& shape) {
  const Status cause = CheckBoxCause(box, shape);
  if (cause.ok()) return cause;
  return AddPrefix(cause, "check box \"", BoxText(box), "\"");
}

std::optional<Box> Intersect(const Box& a, const Box& b) {
  assert(a.shape.size() == b.shape.size());
  Box common = a;
  for (size_t axis = 0; axis < a.shape.size(); ++axis) {
    const int64_t begin = std::max(a.offset[axis], b.offset[axis]);
    const int64_t end = std::min(End(a, axis), End(b, axis));
    if (begin >= end) return std::nullopt;
    common.offset[axis] = begin;
    common.shape[axis] = end - begin;
  }
  return common;
}

bool Contains(const Box& outer, const Box& inner) {
  assert(outer.shape.size() == inner.shape.size());
  if (IsEmpty(inner)) return true;
  for (size_t axis = 0; axis < inner.shape.size(); ++axis) {
    if (inner.offset[axis] < outer.offset[axis]) return false;
    if (End(inner, axis) > End(outer, axis)) return false;
  }
  return true;
}

std::vector<Box> Subtract(const Box& a, const Box& b) {
  if (IsEmpty(a)) return {};
  const std::optional<Box> common = Intersect(a, b);
  if (!common.has_value()) return {a};
  std::vector<Box> pieces;
  Box rest = a;  // shrinks to `common` axis by axis
  for (size_t axis = 0; axis < a.shape.size(); ++axis) {
    const int64_t before = common->offset[axis] - rest.offset[axis];
    const int64_t after = End(rest, axis) - End(*common, axis);
    if (before > 0) {
      pieces.push_back(rest);
      pieces.back().shape[axis] = before;
    }
    if (after > 0) {
      pieces.push_back(rest);
      pieces.back().offset[axis] = End(*common, axis);
      pieces.back().shape[axis] = after;
    }
    rest.offset[axis] = common->offset[axis];
    rest.shape[axis] = common->shape[axis];
  }
  return pieces;
}

std::string ShapeText(const Shape& shape) {
  return Cat("[", absl::StrJoin(shape, ", "), "]");
}

std::string BoxText(const Box& box) {
  std::string text;
  // A box that CheckBox rejects may have an offset and a shape of unequal
  // lengths, and is printed as well.
  const size_t num_axes = std::min(box.offset.size(), box.shape.size());
  for (size_t axis = 0; axis < num_axes; ++axis) {
    absl::StrAppend(&text, axis == 0 ? "" : ":", box.offset[axis], ",",
                    box.shape[axis]);
  }
  return text;
}

std::string FormatSliceSpec(const Shape& full_shape, const Box& box) {
  if (full_shape.empty()) return "";
  return Cat(absl::StrJoin(full_shape, " "), " ", BoxText(box));
}

StatusOr<SliceSpec> ParseSliceSpec(std::string_view text) {
  StatusOr<SliceSpec> spec = ParseSliceSpecOrCause(StripBlanks(text));
  if (spec.ok()) return spec;
  return AddPrefix(spec.status(), "parse slice spec \"", text, "\"");
}

}  // namespace belay
