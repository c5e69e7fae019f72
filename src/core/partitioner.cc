#include "belay/variable/partitioner.h"

#include <initializer_list>

#include "absl/functional/function_ref.h"
#include "core/integers.h"
#include "core/status_macros.h"
#include "core/text.h"

namespace belay {
namespace {

// Small enough that all boxes fit the memory of every rank.
constexpr int64_t kMaxBoxes = int64_t{1} << 22;

Status Refuse(const Shape& shape, std::string_view partitioner,
              std::string_view cause) {
  return absl::InvalidArgumentError(
      Cat("partition \"", ShapeText(shape), "\": ", partitioner, ": ", cause));
}

// The argument of a partitioner and its name.
struct Positive {
  std::string_view name;
  int64_t value;
};

// Checks the arguments as all partitioners do, then calls `count`, which
// returns the number of parts.
StatusOr<Shape> CutAxis(std::string_view partitioner, const Shape& shape,
                        int axis, std::initializer_list<Positive> arguments,
                        absl::FunctionRef<int64_t(int64_t length)> count) {
  for (const auto& [name, value] : arguments) {
    if (value >= 1) continue;
    return Refuse(
        shape, partitioner,
        Cat("Argument `", name, "` must be positive. Received: ", value));
  }
  if (shape.empty()) {
    return Refuse(shape, partitioner, "no such axis: a scalar has none");
  }
  if (axis < 0 || axis >= std::ssize(shape)) {
    return Refuse(shape, partitioner,
                  Cat("no such axis (need 0 to ", shape.size() - 1, ", found ",
                      axis, ")"));
  }
  BELAY_ASSIGN_OR_RETURN(const int64_t elements, CheckedNumElements(shape));
  Shape parts(shape.size(), 1);
  if (elements > 0) parts[axis] = std::max<int64_t>(1, count(shape[axis]));
  return parts;
}

// Returns the bytes of a part of length 1 along the axis. Saturates, which is
// accurate enough: no byte limit is larger.
int64_t CountRowBytes(const Shape& shape, int axis, DType dtype,
                      int64_t bytes_per_string) {
  const int64_t elements = NumElements(shape) / shape[axis];
  const int64_t bytes =
      dtype == DType::kString ? bytes_per_string : DTypeSize(dtype);
  return elements > INT64_MAX / bytes ? INT64_MAX : elements * bytes;
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
    if (some > kMaxBoxes / boxes) {
      return absl::InvalidArgumentError(
          Cat("too many boxes (need at most ", kMaxBoxes, ", found more)"));
    }
    boxes *= some;
  }
  return absl::OkStatus();
}

}  // namespace

Partitioner FixedShards(int64_t num_shards) {
  return [=](const Shape& shape, DType, int axis) {
    return CutAxis(
        "FixedShards", shape, axis, {{"num_shards", num_shards}},
        [&](int64_t length) { return std::min(num_shards, length); });
  };
}

Partitioner MinSize(int64_t min_shard_bytes, int64_t max_shards,
                    int64_t bytes_per_string) {
  return [=](const Shape& shape, DType dtype, int axis) {
    return CutAxis("MinSize", shape, axis,
                   {{"min_shard_bytes", min_shard_bytes},
                    {"max_shards", max_shards},
                    {"bytes_per_string", bytes_per_string}},
                   [&](int64_t length) {
                     // The smallest of n even parts has length / n rows,
                     // rounded down. It is large enough for every n up to the
                     // result.
                     const int64_t least_rows = CeilDivide(
                         min_shard_bytes,
                         CountRowBytes(shape, axis, dtype, bytes_per_string));
                     return std::min(max_shards, length / least_rows);
                   });
  };
}

Partitioner MaxSize(int64_t max_shard_bytes, std::optional<int64_t> max_shards,
                    int64_t bytes_per_string) {
  return [=](const Shape& shape, DType dtype, int axis) {
    return CutAxis("MaxSize", shape, axis,
                   {{"max_shard_bytes", max_shard_bytes},
                    {"max_shards", max_shards.value_or(1)},
                    {"bytes_per_string", bytes_per_string}},
                   [&](int64_t length) {
                     const int64_t most_rows = std::max<int64_t>(
                         1, max_shard_bytes / CountRowBytes(shape, axis, dtype,
                                                            bytes_per_string));
                     const int64_t parts = CeilDivide(length, most_rows);
                     return std::min(parts, max_shards.value_or(parts));
                   });
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
    std::vector<Box> longer;
    longer.reserve(boxes.size() * static_cast<size_t>(parts[axis]));
    const int64_t length = shape[axis] / parts[axis];
    const int64_t longer_by_one = shape[axis] % parts[axis];  // the first ones
    for (const Box& box : boxes) {
      for (int64_t i = 0; i < parts[axis]; ++i) {
        Box& part = longer.emplace_back(box);
        part.offset.push_back(i * length + std::min(i, longer_by_one));
        part.shape.push_back(length + (i < longer_by_one ? 1 : 0));
      }
    }
    boxes = std::move(longer);
  }
  return boxes;
}

}  // namespace belay
