// A variable that consists of components, stacked on axis 0, which may be on
// different ranks. (TensorFlow's ShardedVariable.)
//
// The collective functions in sharded_variable_ops.h make and change it.

#ifndef BELAY_SHARDED_VARIABLE_H_
#define BELAY_SHARDED_VARIABLE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "belay/arrays/box.h"
#include "belay/arrays/dtype.h"

namespace belay {

// The rows [first_row, first_row + num_rows) of a variable, with the full
// length of the other axes.
struct Component {
  int64_t first_row = 0;
  int64_t num_rows = 0;
  int owner = 0;              // the rank that holds it
  std::byte* data = nullptr;  // row-major; null on other ranks or if empty
};

// Describes a variable without its values: two programs with equal specs can
// share code and messages. (TensorFlow's ShardedVariableSpec.)
struct ShardedVariableSpec {
  DType dtype = DType::kF32;
  std::vector<Shape> component_shapes;

  friend bool operator==(const ShardedVariableSpec&,
                         const ShardedVariableSpec&) = default;
};

// Returns the spec as text: "f32 [3, 2] [3, 2] [2, 2]". Local.
std::string SpecText(const ShardedVariableSpec& spec);

struct Scratch;  // message buffers

// Name, dtype, shape and components are equal on all ranks. Each rank holds the
// values of the components that it owns, in the variable's own memory or, if it
// was joined from given components, in the caller's. Move only. Destroying it
// does not communicate.
//
// Scatter keeps its send and receive buffers here for the next Scatter: at most
// four times the size that the last one needed, and none if it moved no rows or
// failed.
class ShardedVariable {
 public:
  // A variable without components, which may only be assigned to.
  ShardedVariable();

  // Assembles a variable; `memory` holds the data that `components` point to,
  // and may be null. Local. For the library itself.
  ShardedVariable(std::string name, DType dtype, Shape shape,
                  std::vector<Component> components,
                  std::unique_ptr<std::byte[]> memory);
  ShardedVariable(ShardedVariable&&) noexcept;
  ShardedVariable& operator=(ShardedVariable&&) noexcept;
  ~ShardedVariable();

  const std::string& name() const { return name_; }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }

  // Returns all components, ordered by first row; a range-for visits them.
  // Local.
  const std::vector<Component>& components() const { return components_; }
  auto begin() const { return components_.begin(); }
  auto end() const { return components_.end(); }

  // Returns the box of a component in the variable. Local.
  Box ComponentBox(const Component& component) const;

  // Returns the offset of each component, one number per axis. Local.
  std::vector<Shape> Offsets() const;

  // Returns the size of one row in bytes; 0 without components. Local.
  int64_t RowBytes() const;

  // Returns the index of the component that holds `row`. Local. Requires
  // 0 <= row < shape()[0].
  int FindComponent(int64_t row) const;

  // Returns the dtype and the component shapes. Local.
  ShardedVariableSpec Spec() const;

 private:
  friend struct Scratch;

  std::string name_;
  DType dtype_ = DType::kF32;
  Shape shape_;
  std::vector<Component> components_;
  std::unique_ptr<std::byte[]> memory_;
  std::unique_ptr<Scratch> scratch_;
};

}  // namespace belay

#endif  // BELAY_SHARDED_VARIABLE_H_
