#include "values/memory_layout.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "geometry/strided_copy.h"

namespace belay {
namespace {

// More shards of one would be a mistake.
constexpr size_t kMostParts = 4096;

// One number for each axis of the box, or none at all.
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

// The lengths of what the memory holds.
StatusOr<Shape> HeldShape(const GhostCells& ghosts, const Box& box) {
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

Shape ShapeOf(const std::vector<int64_t>& numbers) {
  return Shape(numbers.begin(), numbers.end());
}

Shape StridesOf(Shape held, AxisOrder order) {
  if (order == AxisOrder::kRowMajor) return DenseStrides(held);
  std::ranges::reverse(held);
  Shape strides = DenseStrides(held);
  std::ranges::reverse(strides);
  return strides;
}

// The place behind the last element. No two elements may share one: going from
// the smallest stride up, each steps over all that those before it reach.
StatusOr<int64_t> EndOf(const Shape& held, const Shape& strides) {
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

// `hint` is for memory that is larger.
Status CheckSize(const Memory& memory, int64_t needed, bool may_be_longer,
                 std::string_view what, std::string_view hint) {
  if (memory.size < 0 || memory.size == needed ||
      (may_be_longer && memory.size > needed)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrFormat(
      "the size of the memory does not match %s (need %d elements, found %d)%s",
      what, needed, memory.size, memory.size > needed ? hint : ""));
}

// Gives the shard elements that lie as `layout` says. Its box has some.
Status TakeLaidOut(const Memory& memory, const MemoryLayout& layout,
                   Shard& shard) {
  const size_t num_axes = shard.box.shape.size();
  GhostCells ghosts{.before = ShapeOf(layout.before),
                    .after = ShapeOf(layout.after),
                    .periodic = layout.periodic};
  if (ghosts.before.empty()) ghosts.before.resize(num_axes);
  if (layout.after.empty()) ghosts.after = ghosts.before;
  BELAY_ASSIGN_OR_RETURN(const Shape held, HeldShape(ghosts, shard.box));
  const bool is_dense = layout.strides.empty();
  const Shape strides =
      is_dense ? StridesOf(held, layout.order) : ShapeOf(layout.strides);
  BELAY_ASSIGN_OR_RETURN(const int64_t end, EndOf(held, strides));
  const bool has_ghosts = held != shard.box.shape;
  BELAY_RETURN_IF_ERROR(
      CheckSize(memory, end, memory.may_be_longer || !is_dense,
                has_ghosts ? "its box with the ghost cells" : "its box", ""));
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

// What lies in memory from the cell `at` of an axis on, `length` cells, is the
// part of the array from `offset` on.
struct CutPart {
  int64_t at = 0;  // from the first cell of the box
  int64_t offset = 0;
  int64_t length = 0;
};

// The parts of the array along one axis that memory holds.
std::vector<CutPart> PartsOf(const Shard& shard, size_t axis) {
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
  while (begin < end && parts.size() <= kMostParts) {
    const int64_t offset = (begin % length + length) % length;
    const int64_t count = std::min(end - begin, length - offset);
    parts.push_back({begin - first, offset, count});
    begin += count;
  }
  return parts;
}

// Adds one axis to all parts.
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

Status TakeMemory(const Memory& memory, Shard& shard) {
  shard.data = memory.data;
  shard.is_const |= memory.is_const;
  if (memory.access != nullptr) {
    shard.object = memory.object;
    shard.access = memory.access;
    shard.object_elements = memory.size;
  }
  // A box that leaves its array has no size: the plan says so.
  if (!CheckBox(shard.box, shard.global_shape).ok()) return absl::OkStatus();
  if (memory.layout == nullptr) {
    return CheckSize(memory, NumElements(shard.box.shape), memory.may_be_longer,
                     "its box",
                     "; a MemoryLayout describes a box in larger memory");
  }
  BELAY_RETURN_IF_ERROR(CheckLayout(*memory.layout, shard.box));
  if (IsEmpty(shard.box)) return absl::OkStatus();
  return TakeLaidOut(memory, *memory.layout, shard);
}

StatusOr<std::vector<Shard>> WithGhostCells(Shard shard) {
  std::vector<Shard> shards;
  if (shard.ghosts == nullptr || shard.data == nullptr) {
    shards.push_back(std::move(shard));
    return shards;
  }
  shards.push_back(shard);
  for (size_t axis = 0; axis < shard.box.shape.size(); ++axis) {
    const std::vector<CutPart> parts = PartsOf(shard, axis);
    if (parts.size() * shards.size() > kMostParts) {
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
