#include "belay/sharded_variable.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "variable/scratch.h"

namespace belay {

ShardedVariable::ShardedVariable() = default;
ShardedVariable::ShardedVariable(std::string name, DType dtype, Shape shape,
                                 std::vector<Component> components,
                                 std::unique_ptr<std::byte[]> memory)
    : name_(std::move(name)),
      dtype_(dtype),
      shape_(std::move(shape)),
      components_(std::move(components)),
      memory_(std::move(memory)) {}
ShardedVariable::ShardedVariable(ShardedVariable&&) noexcept = default;
ShardedVariable& ShardedVariable::operator=(ShardedVariable&&) noexcept =
    default;
ShardedVariable::~ShardedVariable() = default;

std::string SpecText(const ShardedVariableSpec& spec) {
  std::string text(DTypeName(spec.dtype));
  for (const Shape& shape : spec.component_shapes) {
    text += Cat(" ", ShapeText(shape));
  }
  return text;
}

Box ShardedVariable::ComponentBox(const Component& component) const {
  Box box = WholeBox(shape_);
  box.offset[0] = component.first_row;
  box.shape[0] = component.num_rows;
  return box;
}

std::vector<Shape> ShardedVariable::Offsets() const {
  std::vector<Shape> offsets;
  for (const Component& component : components_) {
    offsets.push_back(ComponentBox(component).offset);
  }
  return offsets;
}

int64_t ShardedVariable::RowBytes() const {
  if (shape_.empty()) return 0;
  return NumElements(Shape(shape_.begin() + 1, shape_.end())) *
         DTypeSize(dtype_);
}

int ShardedVariable::FindComponent(int64_t row) const {
  // The last component that begins at or before the row: empty ones that begin
  // there too come earlier.
  const auto next = std::upper_bound(
      components_.begin(), components_.end(), row,
      [](int64_t r, const Component& c) { return r < c.first_row; });
  return static_cast<int>(next - components_.begin()) - 1;
}

ShardedVariableSpec ShardedVariable::Spec() const {
  ShardedVariableSpec spec{.dtype = dtype_, .component_shapes = {}};
  for (const Component& component : components_) {
    spec.component_shapes.push_back(ComponentBox(component).shape);
  }
  return spec;
}

}  // namespace belay
