#include "state/memory_layout.h"

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

constexpr size_t kFieldsShown = 8;

// Joins the part with the last one if they are neighbours on both sides.
void AddPart(const StructLayout::Part& part,
             std::vector<StructLayout::Part>& parts) {
  if (!parts.empty()) {
    StructLayout::Part& last = parts.back();
    if (last.stored + last.bytes == part.stored &&
        last.memory + last.bytes == part.memory) {
      last.bytes += part.bytes;
      return;
    }
  }
  parts.push_back(part);
}

// Returns what is wrong if two fields overlap, else "".
std::string FindOverlap(const std::vector<StructField>& fields) {
  std::vector<const StructField*> sorted;
  for (const StructField& field : fields) sorted.push_back(&field);
  std::sort(sorted.begin(), sorted.end(),
            [](const StructField* a, const StructField* b) {
              return a->offset < b->offset;
            });
  for (size_t i = 1; i < sorted.size(); ++i) {
    const StructField& before = *sorted[i - 1];
    if (before.offset + FieldBytes(before) <= sorted[i]->offset) continue;
    return Cat("fields \"", before.name, "\" and \"", sorted[i]->name,
               "\" lie in the same memory");
  }
  return "";
}

// The differences between stored fields and those of a program. Their order
// does not count.
struct FieldsMatch {
  std::vector<StructLayout::Part> parts;  // fields that both have
  std::vector<std::string> only_stored;
  std::vector<std::string> only_wanted;
  std::vector<std::string> others;  // with another type
};

FieldsMatch MatchFields(const std::vector<StructField>& stored,
                        const std::vector<StructField>& wanted) {
  FieldsMatch match;
  std::vector<bool> is_found(wanted.size());
  for (const StructField& field : stored) {
    const auto found = std::find_if(
        wanted.begin(), wanted.end(),
        [&](const StructField& one) { return one.name == field.name; });
    if (found == wanted.end()) {
      match.only_stored.push_back(FieldText(field));
      continue;
    }
    is_found[static_cast<size_t>(found - wanted.begin())] = true;
    if (found->dtype != field.dtype || found->shape != field.shape) {
      match.others.push_back(
          Cat(FieldText(field), " in place of ", FieldText(*found)));
      continue;
    }
    AddPart({field.offset, found->offset, FieldBytes(field)}, match.parts);
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (!is_found[i]) match.only_wanted.push_back(FieldText(wanted[i]));
  }
  return match;
}

Status OtherFieldsError(const Shard& shard, const FieldsMatch& match) {
  std::vector<std::string> parts;
  const auto add = [&](std::string_view what, const auto& fields) {
    if (fields.empty()) return;
    parts.push_back(Cat(what, ": ", JoinFirst(fields, kFieldsShown, ", ")));
  };
  add("not stored", match.only_wanted);
  add("only stored", match.only_stored);
  add("stored", match.others);
  const bool by_name_helps = match.others.empty() && !match.parts.empty();
  return absl::FailedPreconditionError(
      Cat("restore \"", shard.key, "\": its structs have other fields than ",
          "those that are stored (", absl::StrJoin(parts, "; "), ")",
          by_name_helps ? "; OtherFields::kByName restores those that both have"
          : match.others.empty()
              ? ""
              : "; restore into structs with the stored types, and convert "
                "them in the program"));
}

}  // namespace

namespace fields {

std::shared_ptr<const StructLayout> LayoutOf(std::vector<StructField> listed,
                                             int64_t bytes) {
  StructLayout layout{.fields = std::move(listed), .bytes = bytes};
  layout.problem = FieldsProblem(layout.fields);
  if (layout.problem.empty()) layout.problem = FindOverlap(layout.fields);
  layout.text = FieldsText(layout.fields);
  for (const StructField& field : layout.fields) {
    const int64_t field_bytes = FieldBytes(field);
    AddPart({layout.stored_bytes, field.offset, field_bytes}, layout.parts);
    layout.stored_bytes += field_bytes;
  }
  return std::make_shared<const StructLayout>(std::move(layout));
}

std::shared_ptr<const StructLayout> LayoutOfBytes(
    const std::vector<std::byte>& is_value) {
  const auto bytes = std::ssize(is_value);
  StructLayout layout{.bytes = bytes, .stored_bytes = bytes};
  for (int64_t i = 0; i < bytes; ++i) {
    if (is_value[static_cast<size_t>(i)] == std::byte{0}) continue;
    AddPart({i, i, 1}, layout.parts);
  }
  return std::make_shared<const StructLayout>(std::move(layout));
}

}  // namespace fields

std::string GetFieldsText(const Shard& shard) {
  return shard.structs == nullptr ? "" : shard.structs->text;
}

StatusOr<std::shared_ptr<const StructLayout>> StoredLayout(
    const std::string& text) {
  BELAY_ASSIGN_OR_RETURN(std::vector<StructField> stored, ParseFields(text));
  return fields::LayoutOf(std::move(stored), CountStructBytes(text));
}

Status TakeStoredFields(const std::string& stored, int64_t stored_bytes,
                        OtherFields rule, Shard& shard) {
  const StructLayout& wanted = *shard.structs;
  if (wanted.text.empty() || stored.empty()) {
    if (wanted.text == stored && wanted.stored_bytes == stored_bytes) {
      return absl::OkStatus();
    }
    const auto form = [](const std::string& text, int64_t bytes) {
      return text.empty() ? absl::StrFormat("%d bytes without fields", bytes)
                          : Cat("\"", text, "\"");
    };
    return absl::FailedPreconditionError(
        Cat("restore \"", shard.key, "\": other structs are stored (need ",
            form(wanted.text, wanted.stored_bytes), ", found ",
            form(stored, stored_bytes), ")"));
  }
  BELAY_ASSIGN_OR_RETURN(const std::vector<StructField> fields,
                         ParseFields(stored));
  FieldsMatch match = MatchFields(fields, wanted.fields);
  const bool differ = !match.only_stored.empty() || !match.only_wanted.empty();
  if (!match.others.empty() || match.parts.empty() ||
      (differ && rule == OtherFields::kError)) {
    return OtherFieldsError(shard, match);
  }
  StructLayout layout = wanted;
  layout.text = stored;
  layout.stored_bytes = stored_bytes;
  layout.parts = std::move(match.parts);
  shard.structs = std::make_shared<const StructLayout>(std::move(layout));
  shard.global_shape.back() = stored_bytes;
  shard.box.shape.back() = stored_bytes;
  return absl::OkStatus();
}

// --- Variable shards ---

namespace {

struct ComponentPlace {
  const ShardedVariable* variable;
  DType dtype;
  Shape shape;  // of the variable
  Box box;
};

constexpr ArrayAccess kComponentAccess = {
    .view = [](void* object) -> ArrayAccess::View {
      const auto& place = *static_cast<const ComponentPlace*>(object);
      const ShardedVariable& variable = *place.variable;
      ArrayAccess::View view = {nullptr, place.dtype,
                                Shape{NumElements(place.box.shape)}};
      if (variable.dtype() != place.dtype || variable.shape() != place.shape) {
        return view;
      }
      const Component& component = variable.components()[static_cast<size_t>(
          variable.FindComponent(place.box.offset[0]))];
      if (variable.ComponentBox(component) == place.box) {
        view.data = component.data;
      }
      return view;
    }};

}  // namespace

std::vector<Shard> ShardsOfVariable(std::string_view key,
                                    const ShardedVariable& variable) {
  std::vector<Shard> shards;
  for (const Component& component : variable) {
    Box box = variable.ComponentBox(component);
    // Every rank may list a component without elements.
    if (component.data == nullptr && !IsEmpty(box)) continue;
    shards.push_back({.key = std::string(key),
                      .dtype = variable.dtype(),
                      .global_shape = variable.shape(),
                      .box = std::move(box),
                      .data = component.data});
  }
  return shards;
}

std::shared_ptr<void> FollowVariable(ShardedVariable& variable, Shard& shard) {
  auto place = std::make_shared<ComponentPlace>(
      ComponentPlace{&variable, shard.dtype, shard.global_shape, shard.box});
  shard.object = place.get();
  shard.access = &kComponentAccess;
  shard.object_elements = NumElements(shard.box.shape);
  return place;
}

// --- Memory layout ---

namespace {

// More shards of one would be an error of the program.
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

// Returns the position behind the last element. No two elements may share a
// position: each stride, from the smallest up, must step over all positions
// that the smaller ones reach.
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

// The error ends with `hint` if the memory is too large.
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
Status TakeLaidOut(const Memory& memory, const MemoryLayout& layout,
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
  int64_t at = 0;      // in memory, from the first cell of the box
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

Status TakeMemory(const Memory& memory, Shard& shard) {
  shard.data = memory.data;
  shard.is_const |= memory.is_const;
  if (memory.access != nullptr) {
    shard.object = memory.object;
    shard.access = memory.access;
    shard.object_elements = memory.size;
  }
  // The plan reports a box that is not in its array.
  if (!CheckBox(shard.box, shard.global_shape).ok()) return absl::OkStatus();
  if (memory.layout == nullptr) {
    return CheckSize(memory, NumElements(shard.box.shape), memory.may_be_longer,
                     "its box");
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
