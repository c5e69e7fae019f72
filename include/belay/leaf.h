// One value in borrowed memory, and what it is known by.

#ifndef BELAY_LEAF_H_
#define BELAY_LEAF_H_

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

#include "belay/box.h"
#include "belay/dtype.h"
#include "belay/layout.h"
#include "belay/state.h"
#include "belay/status.h"
#include "belay/type_handler.h"

namespace belay {

class ShardedVariable;
class Tensor;

// How what is borrowed is refused at compile time if it would be gone when the
// save begins.
namespace tracking {

// Refuses a T that does not last. Of a forwarding reference T&&, what it holds
// stays when it goes if it is no temporary, or like std::span. Local.
template <typename T, bool kLasts = std::ranges::borrowed_range<T>>
constexpr void RequireThatItLasts() {
  static_assert(kLasts,
                "belay borrows what it tracks: a temporary takes its values "
                "along when it goes, so give belay an object that lasts, a "
                "std::span or a pointer");
}

}  // namespace tracking

// What an object is known by. A null address is nobody's.
struct ObjectId {
  const void* address = nullptr;
  uint64_t type = 0;

  friend bool operator==(const ObjectId&, const ObjectId&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const ObjectId& id) {
    return H::combine(std::move(h), id.address, id.type);
  }
};

// Returns what an object is known by. A member may begin where its owner does,
// so the type belongs to it; of a class with virtual functions it is the whole
// object that counts, whichever base it is seen through. Local.
template <typename T>
ObjectId IdOf(const T& object) {
  if constexpr (std::is_polymorphic_v<T>) {
    return {dynamic_cast<const void*>(&object), typeid(object).hash_code()};
  } else {
    return {std::addressof(object), typeid(T).hash_code()};
  }
}

// Borrowed elements: a pointer, or a range that brings its length with it.
struct Memory {
  template <Element T>
  Memory(T* elements)
      : data(elements),
        dtype(DTypeOf<T>()),
        id{elements, typeid(T).hash_code()} {}
  template <ElementRange R>
  Memory(R&& range)
      : data(std::ranges::data(range)),
        dtype(DTypeOf<std::ranges::range_value_t<R>>()),
        size(static_cast<int64_t>(std::ranges::size(range))),
        id(std::ranges::view<std::remove_cvref_t<R>> ||
                   !std::is_lvalue_reference_v<R>
               ? ObjectId{data,
                          typeid(std::ranges::range_value_t<R>).hash_code()}
               : IdOf(range)) {
    tracking::RequireThatItLasts<R>();
  }

  Memory(void* bytes, DType type, int64_t num_elements, ObjectId object)
      : data(bytes), dtype(type), size(num_elements), id(object) {}

  void* data;
  DType dtype;
  int64_t size = -1;  // elements, -1 if not known
  ObjectId id;
};

// One value in borrowed memory. Values without a layout or a box are whole and
// equal on all ranks: one of them is written.
class Leaf {
 public:
  template <Element T>
  Leaf(T& scalar) : Leaf(Shape{}, &scalar) {
    object_ = {&scalar, typeid(T)};
  }
  // An array with one axis.
  template <ElementRange R>
  Leaf(R&& range)
      : Leaf(Shape{static_cast<int64_t>(std::ranges::size(range))},
             Memory(std::forward<R>(range))) {
    if constexpr (std::is_lvalue_reference_v<R> &&
                  !std::ranges::view<std::remove_cvref_t<R>>) {
      object_ = {&range, typeid(R)};
    }
  }
  Leaf(std::string& text);
  Leaf(Tensor& tensor);
  // The components that this rank holds.
  Leaf(ShardedVariable& variable);

  // A dense row-major array.
  Leaf(const Shape& shape, const Memory& memory);
  // This rank's piece of an array that is laid out on a mesh.
  Leaf(const Layout& layout, const Shape& global_shape, const Memory& memory);
  // The piece `box` of an array.
  Leaf(const Shape& global_shape, const Box& box, const Memory& memory);

  // Adds another piece to an array that was made with a box. Local.
  Leaf& AddPiece(const Box& box, const Memory& memory);

  // What the value is known by on `rank`: nobody's, if it has no element there
  // and is no object, such as a vector, either. Local.
  ObjectId id(int rank) const;
  // The object that was given whole, for a handler of its type; its address is
  // null if there is none. Local.
  const ValueRef& object() const { return object_; }
  DType dtype() const { return dtype_; }
  const Shape& global_shape() const { return global_shape_; }
  // The layout as text, "" without one. Local.
  std::string LayoutText() const;

  // Adds the shards of this rank to `state`, under `key`. Local.
  // Errors: InvalidArgument - the memory has another size than its box, or
  // those of
  //   state.status().
  Status List(std::string_view key, int rank, State& state) const;

 private:
  struct Piece {
    Box box;
    Memory memory;
  };

  // The part of the array that a piece is. Local.
  StatusOr<Box> BoxOf(const Piece& piece, int rank) const;

  ObjectId id_;  // of a text or a variable
  ValueRef object_;
  DType dtype_ = DType::kString;
  Shape global_shape_;
  std::optional<Layout> layout_;
  std::vector<Piece> pieces_;  // unless text or variable; their box is
                               // disregarded in an array that is whole
  bool whole_ = false;
  std::string* text_ = nullptr;
  ShardedVariable* variable_ = nullptr;
};

}  // namespace belay

#endif  // BELAY_LEAF_H_
