#include "state/strides_and_ghosts.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "belay/arrays/box.h"
#include "core/program_words.h"
#include "core/status_macros.h"
#include "core/strided_copy.h"
#include "core/struct_text.h"
#include "core/text.h"

namespace belay {
namespace {

// More shards than this for one shard indicate a mistake in the program.
constexpr size_t kMaxParts = 4096;

// Requires one number for each axis of the box, or none.
Status CheckAxes(std::string_view name, size_t found, const Box& box) {
  if (found == 0 || found == box.shape.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      Cat("MemoryLayout::", name, ": wrong number of axes (need ",
          box.shape.size(), ", found ", found, ")"));
}

Status CheckLayout(const MemoryLayout& layout, const Box& box) {
  BELAY_RETURN_IF_ERROR(CheckAxes("before", layout.before.size(), box));
  BELAY_RETURN_IF_ERROR(CheckAxes("after", layout.after.size(), box));
  BELAY_RETURN_IF_ERROR(CheckAxes("periodic", layout.periodic.size(), box));
  BELAY_RETURN_IF_ERROR(CheckAxes("strides", layout.strides.size(), box));
  if (!layout.strides.empty() && layout.order != AxisOrder::kRowMajor) {
    return absl::InvalidArgumentError(
        "MemoryLayout: both strides and an order are given (need one of them)");
  }
  for (const auto* cells : {&layout.before, &layout.after}) {
    for (const int64_t number : *cells) {
      if (number >= 0) continue;
      return absl::InvalidArgumentError(Cat(
          "MemoryLayout: the number of ghost cells is negative (need at least ",
          "0, found ", number, ")"));
    }
  }
  return absl::OkStatus();
}

// Returns the shape of the box with its ghost cells.
StatusOr<Shape> ComputeHeldShape(const GhostCells& ghosts, const Box& box) {
  Shape held = box.shape;
  for (size_t axis = 0; axis < held.size(); ++axis) {
    if (__builtin_add_overflow(held[axis], ghosts.before[axis], &held[axis]) ||
        __builtin_add_overflow(held[axis], ghosts.after[axis], &held[axis])) {
      return absl::InvalidArgumentError("MemoryLayout: too many ghost cells");
    }
  }
  BELAY_RETURN_IF_ERROR(CheckedNumElements(held).status());
  return held;
}

Shape ComputeStrides(Shape held, AxisOrder order) {
  if (order == AxisOrder::kRowMajor) return DenseStrides(held);
  std::ranges::reverse(held);
  Shape strides = DenseStrides(held);
  std::ranges::reverse(strides);
  return strides;
}

// Returns the position after the last element.
// Errors: InvalidArgument - two elements may share a position. To exclude this,
//   each stride must be larger than the span of all axes with smaller strides.
StatusOr<int64_t> FindEnd(const Shape& held, const Shape& strides) {
  std::vector<size_t> axes(held.size());
  std::iota(axes.begin(), axes.end(), size_t{0});
  std::sort(axes.begin(), axes.end(),
            [&](size_t a, size_t b) { return strides[a] < strides[b]; });
  int64_t end = 1;
  for (const size_t axis : axes) {
    if (held[axis] == 1) continue;
    if (strides[axis] < end) {
      return absl::InvalidArgumentError(
          Cat("MemoryLayout::strides: elements overlap (need a stride of ",
              "at least ", end, " for axis ", axis, ", found ", strides[axis],
              ")"));
    }
    int64_t steps = 0;
    if (__builtin_mul_overflow(held[axis] - 1, strides[axis], &steps) ||
        __builtin_add_overflow(end, steps, &end)) {
      return absl::InvalidArgumentError("MemoryLayout::strides: too large");
    }
  }
  return end;
}

// Checks the size of the memory, unless it is unknown (negative).
Status CheckSize(const Memory& memory, int64_t needed, bool may_be_longer,
                 std::string_view what) {
  if (memory.size < 0 || memory.size == needed ||
      (may_be_longer && memory.size > needed)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrFormat(
      "the size of the memory does not match %s (need %d elements, found %d)%s",
      what, needed, memory.size,
      memory.layout == nullptr && memory.size > needed
          ? Cat("; ", kMemoryLayoutWord.InProgram())
          : ""));
}

// Requires that the box is not empty.
Status SetLaidOut(const Memory& memory, const MemoryLayout& layout,
                  Shard& shard) {
  const size_t num_axes = shard.box.shape.size();
  GhostCells ghosts{.before = Shape(layout.before.begin(), layout.before.end()),
                    .after = Shape(layout.after.begin(), layout.after.end()),
                    .periodic = layout.periodic};
  if (ghosts.before.empty()) ghosts.before.resize(num_axes);
  if (layout.after.empty()) ghosts.after = ghosts.before;
  BELAY_ASSIGN_OR_RETURN(const Shape held, ComputeHeldShape(ghosts, shard.box));
  const bool is_dense = layout.strides.empty();
  const Shape strides =
      is_dense ? ComputeStrides(held, layout.order)
               : Shape(layout.strides.begin(), layout.strides.end());
  BELAY_ASSIGN_OR_RETURN(const int64_t end, FindEnd(held, strides));
  const bool has_ghosts = held != shard.box.shape;
  BELAY_RETURN_IF_ERROR(
      CheckSize(memory, end, memory.may_be_longer || !is_dense,
                has_ghosts ? "its box with the ghost cells" : "its box"));
  for (size_t axis = 0; axis < num_axes; ++axis) {
    shard.object_offset += ghosts.before[axis] * strides[axis];
  }
  if (memory.data != nullptr) {
    shard.data = static_cast<char*>(memory.data) +
                 shard.object_offset * DTypeSize(memory.dtype);
  }
  if (strides != DenseStrides(shard.box.shape)) {
    shard.strides = strides;
  }
  if (has_ghosts && layout.fill_ghosts) {
    shard.strides = strides;
    shard.ghosts = std::make_shared<const GhostCells>(std::move(ghosts));
  }
  return absl::OkStatus();
}

// A range of cells along an axis.
struct CutPart {
  int64_t at = 0;      // in memory, relative to the first cell of the box
  int64_t offset = 0;  // in the array
  int64_t length = 0;
};

// Returns the ranges of the array along one axis that the memory holds.
std::vector<CutPart> CutAxis(const Shard& shard, size_t axis) {
  const GhostCells& ghosts = *shard.ghosts;
  const int64_t length = shard.global_shape[axis];
  const int64_t first = shard.box.offset[axis];
  int64_t begin = first - ghosts.before[axis];
  int64_t end = first + shard.box.shape[axis] + ghosts.after[axis];
  const bool is_periodic = !ghosts.periodic.empty() && ghosts.periodic[axis];
  if (!is_periodic) {
    begin = std::max<int64_t>(begin, 0);
    end = std::min(end, length);
  }
  std::vector<CutPart> parts;
  while (begin < end && parts.size() <= kMaxParts) {
    const int64_t offset = (begin % length + length) % length;
    const int64_t count = std::min(end - begin, length - offset);
    parts.push_back({begin - first, offset, count});
    begin += count;
  }
  return parts;
}

std::vector<Shard> CutAlong(size_t axis, const std::vector<CutPart>& parts,
                            const std::vector<Shard>& shards) {
  std::vector<Shard> cut;
  for (const Shard& shard : shards) {
    for (const CutPart& part : parts) {
      Shard& one = cut.emplace_back(shard);
      one.box.offset[axis] = part.offset;
      one.box.shape[axis] = part.length;
      const int64_t elements = part.at * shard.strides[axis];
      one.object_offset += elements;
      one.data =
          static_cast<char*>(one.data) + elements * DTypeSize(shard.dtype);
    }
  }
  return cut;
}

}  // namespace

Status SetMemory(const Memory& memory, Shard& shard) {
  shard.data = memory.data;
  shard.is_const |= memory.is_const;
  if (memory.access != nullptr) {
    shard.object = memory.object;
    shard.access = memory.access;
    shard.object_elements = memory.size;
  }
  // The planner reports a box that is outside its array.
  if (!CheckBox(shard.box, shard.global_shape).ok()) return absl::OkStatus();
  if (memory.layout == nullptr) {
    return CheckSize(memory, NumElements(shard.box.shape), memory.may_be_longer,
                     "its box");
  }
  BELAY_RETURN_IF_ERROR(CheckLayout(*memory.layout, shard.box));
  if (IsEmpty(shard.box)) return absl::OkStatus();
  return SetLaidOut(memory, *memory.layout, shard);
}

StatusOr<std::vector<Shard>> WithGhostCells(Shard shard) {
  std::vector<Shard> shards;
  if (shard.ghosts == nullptr || shard.data == nullptr) {
    shards.push_back(std::move(shard));
    return shards;
  }
  shards.push_back(shard);
  for (size_t axis = 0; axis < shard.box.shape.size(); ++axis) {
    const std::vector<CutPart> parts = CutAxis(shard, axis);
    if (parts.size() * shards.size() > kMaxParts) {
      return absl::InvalidArgumentError(
          Cat("list \"", shard.key, "\": the ghost cells of axis ", axis,
              " wrap around its ", shard.global_shape[axis],
              " elements too many times"));
    }
    shards = CutAlong(axis, parts, shards);
  }
  for (Shard& one : shards) one.ghosts = nullptr;
  return shards;
}

}  // namespace belay
