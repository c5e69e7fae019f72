#include "plan/chunks/chunk_request.h"

#include <algorithm>
#include <limits>
#include <string_view>

#include "base/status_macros.h"
#include "base/text.h"
#include "plan/chunks/default_chunks.h"

namespace belay {
namespace {

Status Error(const ChunkRequest& request, std::string_view cause) {
  return absl::InvalidArgumentError(
      Cat("choose chunks \"", request.key, "\": ", cause));
}

Status CheckNumAxes(const ChunkRequest& request, std::string_view what,
                    const Shape& shape) {
  const size_t need = request.global_shape.size();
  if (shape.size() == need) return absl::OkStatus();
  return Error(request,
               Cat("the ", what, " has the wrong number of axes (need ", need,
                   ", found ", shape.size(), ")"));
}

// Also finds negative lengths, and shards of too many elements.
Status CheckShardFits(const ChunkRequest& request) {
  for (size_t axis = 0; axis < request.shard_shape.size(); ++axis) {
    const int64_t most = request.global_shape[axis];
    const int64_t found = request.shard_shape[axis];
    if (found >= 0 && found <= most) continue;
    return Error(request, Cat("the shard does not fit axis ", axis, " of ",
                              ShapeText(request.global_shape), " (need 0 to ",
                              most, ", found ", found, ")"));
  }
  return absl::OkStatus();
}

Status CheckArray(const ChunkRequest& request) {
  const StatusOr<int64_t> count = CheckedNumElements(request.global_shape);
  if (!count.ok()) return Error(request, Cat(count.status().message()));
  if (request.element_size < 1 || request.element_size > kMaxChunkBytes) {
    return Error(request, Cat("the element size is out of range (need 1 to ",
                              kMaxChunkBytes, " bytes, found ",
                              request.element_size, ")"));
  }
  const int64_t most =
      std::numeric_limits<int64_t>::max() / request.element_size;
  if (*count > most) {
    return Error(request, Cat("the array is too large (need at most ", most,
                              " elements of ", request.element_size,
                              " bytes, found ", *count, ")"));
  }
  BELAY_RETURN_IF_ERROR(
      CheckNumAxes(request, "shard shape", request.shard_shape));
  return CheckShardFits(request);
}

Status CheckShardAxes(const ChunkRequest& request) {
  const auto end = static_cast<int>(request.shard_shape.size());
  for (const int axis : request.shard_axes) {
    if (axis >= 0 && axis < end) continue;
    return Error(request, Cat("shard_axes names no axis of ",
                              ShapeText(request.shard_shape), " (need below ",
                              end, ", found ", axis, ")"));
  }
  return absl::OkStatus();
}

// The most elements that a chunk may have.
StatusOr<int64_t> MaxElements(const ChunkRequest& request) {
  if (request.chunk_byte_size == 0) {
    return kMaxChunkBytes / request.element_size;
  }
  if (request.chunk_byte_size < request.element_size) {
    return Error(request, Cat("chunk_byte_size is below one element (need 0 or "
                              "at least ",
                              request.element_size, " bytes, found ",
                              request.chunk_byte_size, ")"));
  }
  return std::min(request.chunk_byte_size, kMaxChunkBytes) /
         request.element_size;
}

Shape WithoutEmptyAxes(Shape shape) {
  for (int64_t& length : shape) length = std::max<int64_t>(length, 1);
  return shape;
}

// Returns the first axis whose length does not divide, or the number of axes.
size_t FirstNotDividing(const Shape& part, const Shape& whole) {
  size_t axis = 0;
  while (axis < part.size() && part[axis] > 0 &&
         whole[axis] % part[axis] == 0) {
    ++axis;
  }
  return axis;
}

// `what` and `of_what` are the names of the two shapes.
Status CheckDivides(const ChunkRequest& request, std::string_view what,
                    const Shape& part, std::string_view of_what,
                    const Shape& whole) {
  BELAY_RETURN_IF_ERROR(CheckNumAxes(request, what, part));
  const size_t axis = FirstNotDividing(part, whole);
  if (axis == part.size()) return absl::OkStatus();
  return Error(
      request,
      Cat("the ", what, " ", ShapeText(part), " does not divide the ", of_what,
          " ", ShapeText(whole), " along axis ", axis, " (need a divisor of ",
          whole[axis], ", found ", part[axis], ")"));
}

Status CheckNoSize(const ChunkRequest& request) {
  if (request.chunk_byte_size == 0 && request.shard_axes.empty()) {
    return absl::OkStatus();
  }
  return Error(request,
               "write_chunk_shape and read_chunk_shape give a chunk, "
               "chunk_byte_size and shard_axes choose one: use either");
}

Status CheckBytes(const ChunkRequest& request, const Shape& chunk) {
  const int64_t most = kMaxChunkBytes / request.element_size;
  if (HasAtMost(most, chunk)) return absl::OkStatus();
  return Error(request, Cat("the read chunk ", ShapeText(chunk),
                            " is too large (need at most ", most,
                            " elements of ", request.element_size, " bytes)"));
}

}  // namespace

bool DividesShape(const Shape& part, const Shape& whole) {
  return part.size() == whole.size() &&
         FirstNotDividing(part, whole) == part.size();
}

StatusOr<ChunkShapes> GivenChunkShapes(const ChunkRequest& request,
                                       const std::optional<Shape>& write,
                                       const std::optional<Shape>& read) {
  BELAY_RETURN_IF_ERROR(CheckArray(request));
  BELAY_RETURN_IF_ERROR(CheckNoSize(request));
  if (write.has_value()) {
    BELAY_RETURN_IF_ERROR(CheckDivides(request, "write chunk", *write, "shard",
                                       request.shard_shape));
  }
  if (read.has_value()) {
    BELAY_RETURN_IF_ERROR(CheckDivides(request, "read chunk", *read,
                                       "write chunk",
                                       write.value_or(request.shard_shape)));
  }
  ChunkShapes shapes;
  shapes.write = write.value_or(WithoutEmptyAxes(request.shard_shape));
  shapes.read = read.value_or(shapes.write);
  BELAY_RETURN_IF_ERROR(CheckBytes(request, shapes.read));
  return shapes;
}

StatusOr<int64_t> MaxChunkElements(const ChunkRequest& request) {
  BELAY_RETURN_IF_ERROR(CheckArray(request));
  BELAY_RETURN_IF_ERROR(CheckShardAxes(request));
  return MaxElements(request);
}

Shape LargestChunk(const ChunkRequest& request) {
  Shape chunk = WithoutEmptyAxes(request.shard_shape);
  for (const int axis : request.shard_axes) chunk[axis] = 1;
  return chunk;
}

bool HasAtMost(int64_t limit, const Shape& shape) {
  for (const int64_t length : shape) limit /= length;
  return limit > 0;
}

}  // namespace belay
