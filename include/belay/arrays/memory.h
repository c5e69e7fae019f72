// Borrowed elements, and the identity of objects.
//
// For a `const Memory&`, a program passes a range of numbers (a std::vector, a
// std::span, an array) or a pointer. The length of a range is compared with its
// box; belay cannot know the length behind a pointer.

#ifndef BELAY_ARRAYS_MEMORY_H_
#define BELAY_ARRAYS_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <ranges>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "belay/arrays/box.h"
#include "belay/arrays/dtype.h"

namespace belay {

// Refuses, at compile time, borrowed objects that are gone when the save
// begins.
namespace tracking {

// Refuses a T that does not last. For a forwarding reference T&&, the elements
// last if T is not a temporary or is a view like std::span. Local.
template <typename T, bool kLasts = std::ranges::borrowed_range<T>>
constexpr void RequireThatItLasts() {
  static_assert(kLasts,
                "belay borrows what it tracks: a temporary takes its values "
                "along when it goes, so give belay an object that lasts, a "
                "std::span or a pointer");
}

}  // namespace tracking

// The identity of an object. A null address identifies no object.
struct ObjectId {
  const void* address = nullptr;
  uint64_t type = 0;

  friend bool operator==(const ObjectId&, const ObjectId&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const ObjectId& id) {
    return H::combine(std::move(h), id.address, id.type);
  }
};

// Returns the identity of an object. It includes the type because a member may
// have the same address as its owner. For a class with virtual functions, it is
// the identity of the complete object, whichever base it is seen through.
// Local.
template <typename T>
ObjectId IdOf(const T& object) {
  if constexpr (std::is_polymorphic_v<T>) {
    return {dynamic_cast<const void*>(&object), typeid(object).hash_code()};
  } else {
    return {std::addressof(object), typeid(T).hash_code()};
  }
}

// Finds the elements of an object that may have moved them since it was added,
// such as a std::vector whose length has changed.
struct ArrayAccess {
  struct View {
    void* data = nullptr;
    DType dtype = DType::kU8;
    Shape shape;
  };

  // Returns the current elements of the object at this address.
  std::add_pointer_t<View(void*)> view = nullptr;
  // Changes the length of the object; may throw. Null: it keeps its length.
  std::add_pointer_t<void(void*, size_t)> resize = nullptr;
};

// A range that owns its elements and can change its length, such as
// std::vector.
template <typename T>
concept ResizableRange = ElementRange<T> && !std::ranges::view<T> &&
                         requires(std::remove_const_t<T> & range) {
  range.resize(size_t{});
};

// The ArrayAccess of objects whose address is that of a T.
template <ResizableRange T>
inline constexpr ArrayAccess kVectorAccess = {
    .view = [](void* object) -> ArrayAccess::View {
      auto& range = *static_cast<T*>(object);
      return {std::ranges::data(range),
              DTypeOf<std::ranges::range_value_t<T>>(),
              Shape{static_cast<int64_t>(std::ranges::size(range))}};
    },
    .resize = [](void* object,
                 size_t length) { static_cast<T*>(object)->resize(length); }};

// A pointer to elements.
template <typename P>
concept ElementPointer = std::is_pointer_v<std::remove_cvref_t<P>> &&
    Element<std::remove_cv_t<std::remove_pointer_t<std::remove_cvref_t<P>>>>;

// The axis along which neighbouring elements are adjacent in memory.
enum class AxisOrder : uint8_t {
  kRowMajor,     // the last one, as in C
  kColumnMajor,  // the first one, as in Fortran
};

// How the elements of a box lie in memory that holds more than the box, or in
// another order. All numbers count elements, one for each axis.
//
//   state.AddPiece("u", {rows, columns}, box, {u, {.before = {1, 1}}});
//
// A save reads only the box.
struct MemoryLayout {
  // Number of ghost cells around the box: `before` counts those with smaller
  // indexes, which come first in memory, `after` those with larger ones. Empty
  // `before`: none. Empty `after`: as many as `before`.
  std::vector<int64_t> before = {};
  std::vector<int64_t> after = {};
  // A restore also fills the ghost cells that lie inside the array: those that
  // other ranks own are read from the checkpoint. Ghost cells outside the array
  // stay unchanged.
  bool fill_ghosts = false;
  // Flags the periodic axes: ghost cells past one end of the array are filled
  // from its other end. Empty: none.
  std::vector<bool> periodic = {};
  AxisOrder order = AxisOrder::kRowMajor;
  // Distance from one index of an axis to the next, for memory that is not
  // dense. No two elements may overlap. Empty: dense, in `order`.
  std::vector<int64_t> strides = {};
};

// Elements of one array, dense and row-major unless a MemoryLayout says
// otherwise. Const elements can be saved; a restore refuses them because it
// would write to them.
struct Memory {
  template <ElementPointer P>
  Memory(const P& elements)
      : data(const_cast<void*>(static_cast<const void*>(elements))),
        dtype(DTypeOf<std::remove_cv_t<std::remove_pointer_t<P>>>()),
        id{elements, typeid(std::remove_pointer_t<P>).hash_code()},
        is_const(std::is_const_v<std::remove_pointer_t<P>>) {}
  template <ElementRange R>
  Memory(R&& range)
      : data(const_cast<void*>(
            static_cast<const void*>(std::ranges::data(range)))),
        dtype(DTypeOf<std::ranges::range_value_t<R>>()),
        size(static_cast<int64_t>(std::ranges::size(range))),
        id(std::ranges::view<std::remove_cvref_t<R>> ||
                   std::is_array_v<std::remove_reference_t<R>> ||
                   !std::is_lvalue_reference_v<R>
               ? ObjectId{data,
                          typeid(std::ranges::range_value_t<R>).hash_code()}
               : IdOf(range)),
        is_const(kHasConstElements<R>),
        may_be_longer(std::is_array_v<std::remove_reference_t<R>>) {
    tracking::RequireThatItLasts<R>();
    using U = std::remove_cvref_t<R>;
    if constexpr (std::is_lvalue_reference_v<R> && ResizableRange<U>) {
      object = const_cast<U*>(std::addressof(range));
      access = &kVectorAccess<U>;
    }
  }
  Memory(void* bytes, DType type, int64_t num_elements, ObjectId known_by)
      : data(bytes), dtype(type), size(num_elements), id(known_by) {}
  // A range or a pointer, and the layout of its elements.
  template <typename R>
  Memory(R&& elements, MemoryLayout how) : Memory(std::forward<R>(elements)) {
    layout = std::make_shared<const MemoryLayout>(std::move(how));
  }

  void* data;
  DType dtype;
  int64_t size = -1;  // elements, -1 if not known
  ObjectId id;
  bool is_const = false;
  // May be longer than its box: a built-in array, which is used like a pointer.
  bool may_be_longer = false;
  // The range that owns the elements, if it may move them; each save and
  // restore looks up where they are. Null: the elements do not move.
  void* object = nullptr;
  const ArrayAccess* access = nullptr;
  // Null: dense and row-major.
  std::shared_ptr<const MemoryLayout> layout = nullptr;
};

}  // namespace belay

#endif  // BELAY_ARRAYS_MEMORY_H_
