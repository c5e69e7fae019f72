// One value in borrowed memory, and its identity.

#ifndef BELAY_OBJECTS_TRACKED_VALUE_H_
#define BELAY_OBJECTS_TRACKED_VALUE_H_

#include <complex>
#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <ranges>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "belay/arrays/box.h"
#include "belay/arrays/dtype.h"
#include "belay/arrays/layout.h"
#include "belay/arrays/memory.h"
#include "belay/extend/type_handler.h"
#include "belay/state.h"
#include "belay/status.h"

namespace belay {

class ShardedVariable;
class Tensor;

// One value in borrowed memory. A value without a layout or a box is held in
// full by every rank and equal on all ranks; one copy of it is written.
class TrackedValue {
 public:
  template <typename T>
  requires Element<std::remove_const_t<T>> TrackedValue(T& scalar)
      : TrackedValue(Shape{}, AtAddress(&scalar)) {
    object_ = RefTo(scalar);
  }
  // An array with one axis. A restore resizes a resizable container to the
  // stored length; a std::span keeps its length.
  template <ElementRange R>
  TrackedValue(R&& range)
      : TrackedValue(Shape{static_cast<int64_t>(std::ranges::size(range))},
                     MemoryOf(range)) {
    tracking::RequireThatItLasts<R>();
    if constexpr (std::is_lvalue_reference_v<R> &&
                  !std::ranges::view<std::remove_cvref_t<R>>) {
      object_ = RefTo(range);
      takes_length_ = ResizableRange<std::remove_cvref_t<R>>;
    }
  }
  TrackedValue(std::string& text);
  TrackedValue(Tensor& tensor);
  // The components that this rank holds.
  TrackedValue(ShardedVariable& variable);
  // The same, for saving only.
  template <typename T>
  requires std::same_as<T, const std::string> || std::same_as<T, const Tensor>
  TrackedValue(T& value)
      : TrackedValue(const_cast<std::remove_const_t<T>&>(value)) {
    is_const_ = object_.is_const = true;
  }

  // A dense row-major array.
  TrackedValue(const Shape& shape, const Memory& memory);
  // This rank's piece of an array that is laid out on a mesh of as many ranks
  // as the communicator has.
  TrackedValue(const Layout& layout, const Shape& global_shape,
               const Memory& memory);
  // The piece `box` of an array.
  TrackedValue(const Shape& global_shape, const Box& box, const Memory& memory);

  // Adds another piece to an array that was constructed with a box. Local.
  TrackedValue& AddPiece(const Box& box, const Memory& memory);

  // Returns the identity of the value on `rank`. It is null if the value has no
  // elements on that rank and is not an object such as a vector. Local.
  ObjectId id(int rank) const;
  // The object itself, for a handler of its type, if the value was constructed
  // from an object; otherwise its address is null. Local.
  const ValueRef& object() const { return object_; }
  DType dtype() const { return dtype_; }
  const Shape& global_shape() const { return global_shape_; }
  const std::optional<Layout>& layout() const { return layout_; }
  // Returns the layout as text; "" without one. Local.
  std::string LayoutText() const;

  // Adds the shards of this rank to `state`, under `key`. Local.
  // Errors: InvalidArgument - the size of the memory differs from its box;
  //   OutOfRange - the box exceeds its shape; those of state.status().
  Status List(std::string_view key, int rank, State& state) const;

 private:
  friend TrackedValue FromRank0(TrackedValue value);

  struct Piece {
    Box box;
    Memory memory;
  };

  // A named view is allowed here, because its owner describes itself again for
  // each save and restore. Local.
  template <ElementRange R>
  static Memory MemoryOf(R& range) {
    if constexpr (tracking::kIsView<R>) {
      return Memory::PresentOnly(range);
    } else {
      return Memory(range);
    }
  }

  // Returns the box of a piece in the array. Local.
  StatusOr<Box> BoxOf(const Piece& piece, int rank) const;

  ObjectId id_;  // of a string or a variable
  ValueRef object_;
  DType dtype_ = DType::kString;
  Shape global_shape_;
  std::optional<Layout> layout_;
  std::vector<Piece> pieces_;  // none for a string or a variable; boxes
                               // are ignored if the array is whole
  bool whole_ = false;
  bool takes_length_ = false;  // on restore
  bool is_const_ = false;
  bool from_rank0_ = false;
  std::string* text_ = nullptr;
  ShardedVariable* variable_ = nullptr;
};

// Returns a value that every rank holds in full but that may differ between
// ranks, as in State::AddFromRank0: a save stores the value of rank 0 and
// compares nothing, and a restore gives it to all ranks. Local.
//
//   tracker.Value("dt", FromRank0(dt));
TrackedValue FromRank0(TrackedValue value);

}  // namespace belay

#endif  // BELAY_OBJECTS_TRACKED_VALUE_H_
