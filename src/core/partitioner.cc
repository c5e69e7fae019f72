#include "belay/variable/partitioner.h"

#include <algorithm>
#include <limits>
#include <string_view>

#include "core/integers.h"
#include "core/status_macros.h"
#include "core/text.h"

namespace belay {
namespace {

// More than anybody can want, and few enough for the memory of every rank.
constexpr int64_t kMostBoxes = int64_t{1} << 22;

Status Refuse(const Shape& shape, std::string_view partitioner,
              std::string_view cause) {
  return absl::InvalidArgumentError(
      Cat("partition \"", ShapeText(shape), "\": ", partitioner, ": ", cause));
}

// What the partitioners check and compute alike.
struct Cut {
  std::string_view partitioner;
  const Shape& shape;
  int axis;

  Status CheckPositive(std::string_view argument, int64_t value) const {
    if (value >= 1) return absl::OkStatus();
    return Refuse(
        shape, partitioner,
        Cat("Argument `", argument, "` must be positive. Received: ", value));
  }

  Status CheckAxis() const {
    if (axis >= 0 && axis < static_cast<int>(shape.size())) {
      return CheckedNumElements(shape).status();
    }
    if (shape.empty()) {
      return Refuse(shape, partitioner, "no such axis: a scalar has none");
    }
    return Refuse(shape, partitioner,
                  Cat("no such axis (need 0 to ", shape.size() - 1, ", found ",
                      axis, ")"));
  }

  int64_t length() const { return shape[axis]; }

  bool IsEmpty() const { return NumElements(shape) == 0; }

  // Bytes of one row: what has a length of 1 along the axis. Saturates, which
  // is exact enough: no limit of bytes can be larger.
  int64_t RowBytes(DType dtype, int64_t bytes_per_string) const {
    const int64_t row_elements = NumElements(shape) / length();
    const int64_t element_bytes =
        dtype == DType::kString ? bytes_per_string : DTypeSize(dtype);
    constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
    if (row_elements > kMax / element_bytes) return kMax;
    return row_elements * element_bytes;
  }

  Shape Parts(int64_t parts) const {
    Shape result(shape.size(), 1);
    result[axis] = std::max<int64_t>(1, parts);
    return result;
  }
};

// Cuts `length` into `parts` lengths; the first ones are one longer.
std::vector<std::pair<int64_t, int64_t>> CutAxis(int64_t length,
                                                 int64_t parts) {
  std::vector<std::pair<int64_t, int64_t>> pieces;
  int64_t offset = 0;
  for (int64_t i = 0; i < parts; ++i) {
    const int64_t part = length / parts + (i < length % parts);
    pieces.emplace_back(offset, part);
    offset += part;
  }
  return pieces;
}

Status CheckParts(const Shape& shape, const Shape& parts) {
  if (shape.size() != parts.size()) {
    return absl::InvalidArgumentError(Cat("wrong number of axes (need ",
                                          shape.size(), ", found ",
                                          parts.size(), ")"));
  }
  BELAY_RETURN_IF_ERROR(CheckedNumElements(shape).status());
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const int64_t most = std::max<int64_t>(1, shape[axis]);
    if (parts[axis] >= 1 && parts[axis] <= most) continue;
    return absl::InvalidArgumentError(Cat("axis ", axis, " of length ",
                                          shape[axis],
                                          " cannot be cut so (need 1 to ", most,
                                          " parts, found ", parts[axis], ")"));
  }
  int64_t boxes = 1;
  for (int64_t some : parts) {
    if (some > kMostBoxes / boxes) {
      return absl::InvalidArgumentError(
          Cat("too many boxes (need at most ", kMostBoxes, ", found more)"));
    }
    boxes *= some;
  }
  return absl::OkStatus();
}

}  // namespace

Partitioner FixedShards(int64_t num_shards) {
  return [=](const Shape& shape, DType, int axis) -> StatusOr<Shape> {
    const Cut cut{"FixedShards", shape, axis};
    BELAY_RETURN_IF_ERROR(cut.CheckPositive("num_shards", num_shards));
    BELAY_RETURN_IF_ERROR(cut.CheckAxis());
    if (cut.IsEmpty()) return cut.Parts(1);
    return cut.Parts(std::min(num_shards, cut.length()));
  };
}

Partitioner MinSize(int64_t min_shard_bytes, int64_t max_shards,
                    int64_t bytes_per_string) {
  return [=](const Shape& shape, DType dtype, int axis) -> StatusOr<Shape> {
    const Cut cut{"MinSize", shape, axis};
    BELAY_RETURN_IF_ERROR(
        cut.CheckPositive("min_shard_bytes", min_shard_bytes));
    BELAY_RETURN_IF_ERROR(cut.CheckPositive("max_shards", max_shards));
    BELAY_RETURN_IF_ERROR(
        cut.CheckPositive("bytes_per_string", bytes_per_string));
    BELAY_RETURN_IF_ERROR(cut.CheckAxis());
    if (cut.IsEmpty()) return cut.Parts(1);
    // The smallest of n even parts has length / n rows, rounded down. That is
    // enough for every n up to this one.
    const int64_t least_rows =
        CeilDivide(min_shard_bytes, cut.RowBytes(dtype, bytes_per_string));
    return cut.Parts(std::min(max_shards, cut.length() / least_rows));
  };
}

Partitioner MaxSize(int64_t max_shard_bytes, std::optional<int64_t> max_shards,
                    int64_t bytes_per_string) {
  return [=](const Shape& shape, DType dtype, int axis) -> StatusOr<Shape> {
    const Cut cut{"MaxSize", shape, axis};
    BELAY_RETURN_IF_ERROR(
        cut.CheckPositive("max_shard_bytes", max_shard_bytes));
    BELAY_RETURN_IF_ERROR(
        cut.CheckPositive("max_shards", max_shards.value_or(1)));
    BELAY_RETURN_IF_ERROR(
        cut.CheckPositive("bytes_per_string", bytes_per_string));
    BELAY_RETURN_IF_ERROR(cut.CheckAxis());
    if (cut.IsEmpty()) return cut.Parts(1);
    const int64_t most_rows = std::max<int64_t>(
        1, max_shard_bytes / cut.RowBytes(dtype, bytes_per_string));
    const int64_t parts = CeilDivide(cut.length(), most_rows);
    return cut.Parts(std::min(parts, max_shards.value_or(parts)));
  };
}

StatusOr<std::vector<Box>> PartitionBoxes(const Shape& shape,
                                          const Shape& parts) {
  const Status cause = CheckParts(shape, parts);
  if (!cause.ok()) {
    return absl::InvalidArgumentError(Cat("partition \"", ShapeText(shape),
                                          "\" into ", ShapeText(parts),
                                          " parts: ", cause.message()));
  }
  std::vector<Box> boxes = {Box{}};
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const auto pieces = CutAxis(shape[axis], parts[axis]);
    std::vector<Box> longer;
    longer.reserve(boxes.size() * pieces.size());
    for (const Box& box : boxes) {
      for (const auto& [offset, length] : pieces) {
        longer.push_back(box);
        longer.back().offset.push_back(offset);
        longer.back().shape.push_back(length);
      }
    }
    boxes = std::move(longer);
  }
  return boxes;
}

}  // namespace belay
