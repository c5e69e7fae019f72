// Borrowed elements, and the identity of objects.
//
// For a `const Memory&`, a program passes one of these:
//
//   u                                  // a container, such as a std::vector
//   [&] { return std::span(p, n); }    // a function that says where they are
//   std::span(p, n)                    // elements that stay where they are
//   belay::AtAddress(p)                // the same, with a length that only the
//                                      // program knows
//
// Each save and restore asks the container or the function again, so a program
// may swap two std::vectors or pointers between saves. The elements must keep
// the number that they had when they were added, which is checked against the
// box. The number of elements at an address cannot be checked.

#ifndef BELAY_ARRAYS_MEMORY_H_
#define BELAY_ARRAYS_MEMORY_H_

#include <concepts>
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

// Refuses, at compile time, to borrow objects that no longer exist when the
// save begins.
namespace tracking {

// Refuses a T that does not outlive the call. For a forwarding reference T&&,
// the elements last if T is not a temporary or is a view like std::span. Local.
template <typename T, bool kLasts = std::ranges::borrowed_range<T>>
constexpr void RequireThatItLasts() {
  static_assert(kLasts,
                "belay borrows what it tracks: a temporary takes its values "
                "along when it goes, so give belay an object that lasts, a "
                "std::span or AtAddress of a pointer");
}

// True if a T is a view, such as a std::span. A view may later refer to other
// elements, while its current elements stay where they are.
template <typename T>
inline constexpr bool kIsView =
    std::ranges::borrowed_range<std::remove_cvref_t<T>> ||
    std::ranges::view<std::remove_cvref_t<T>>;

// Refuses a named view: it is unclear whether its current elements are meant,
// or those that it refers to at the time of the save. Local.
template <typename T>
constexpr void RequireThatItIsNoNamedView() {
  static_assert(!(std::is_lvalue_reference_v<T> && kIsView<T>),
                "belay would keep the elements that this view shows now, and "
                "save them although others were assigned to the view: give it "
                "as std::span(view) if its elements stay where they are, or "
                "else the container, or, as memory, a function, "
                "[&] { return view; }");
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
// the identity of the complete object, even if `object` refers to one of its
// bases. Local.
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

// Returns the current elements of a range. Local.
template <ElementRange R>
ArrayAccess::View ElementsOfRange(R&& range) {
  return {const_cast<void*>(static_cast<const void*>(std::ranges::data(range))),
          DTypeOf<std::remove_cv_t<std::ranges::range_value_t<R>>>(),
          Shape{static_cast<int64_t>(std::ranges::size(range))}};
}

// Returns the ArrayAccess of objects whose address is that of a T. Local.
template <ElementRange T>
constexpr ArrayAccess AccessOf() {
  ArrayAccess access = {.view = [](void* object) -> ArrayAccess::View {
    return ElementsOfRange(*static_cast<T*>(object));
  }};
  if constexpr (ResizableRange<T>) {
    access.resize = [](void* object, size_t length) {
      static_cast<T*>(object)->resize(length);
    };
  }
  return access;
}
template <ElementRange T>
inline constexpr ArrayAccess kRangeAccess = AccessOf<T>();

// A pointer to elements.
template <typename P>
concept ElementPointer = std::is_pointer_v<std::remove_cvref_t<P>> &&
    Element<std::remove_cv_t<std::remove_pointer_t<std::remove_cvref_t<P>>>>;

// A function that returns the range that currently holds the elements.
template <typename F>
concept ElementFunction =
    std::is_class_v<std::remove_cvref_t<F>> && !ElementRange<F> &&
    std::invocable<std::remove_cvref_t<F>&> &&
    ElementRange<std::invoke_result_t<std::remove_cvref_t<F>&>>;

// The ArrayAccess of functions whose type is F.
template <ElementFunction F>
inline constexpr ArrayAccess kFunctionAccess = {
    .view = [](void* object) -> ArrayAccess::View {
      return ElementsOfRange((*static_cast<F*>(object))());
    }};

// The axis along which neighboring elements are adjacent in memory.
enum class AxisOrder : uint8_t {
  kRowMajor,     // the last one, as in C
  kColumnMajor,  // the first one, as in Fortran
};

// How the elements of a box are arranged in memory that holds more than the
// box, or that has another order. All numbers are in elements, one for each
// axis.
//
//   state.AddPiece("u", {rows, columns}, box, {u, {.before = {1, 1}}});
//
// A save reads only the box.
struct MemoryLayout {
  // Numbers of ghost cells around the box: `before` those with smaller indexes,
  // which come first in memory, `after` those with larger indexes. An empty
  // `before` means none; an empty `after` means the same as `before`.
  std::vector<int64_t> before = {};
  std::vector<int64_t> after = {};
  // A restore also fills the ghost cells inside the array; cells that other
  // ranks own are read from the checkpoint. Ghost cells outside the array stay
  // unchanged.
  bool fill_ghosts = false;
  // Flags the periodic axes: ghost cells beyond one end of the array are filled
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
  // Does not compile: see AtAddress.
  template <ElementPointer P>
  Memory(const P& elements) : Memory(AddressOnly(elements)) {
    static_assert(!ElementPointer<P>,
                  "belay would keep this address, and save what lies there "
                  "although the program's pointer or container was swapped or "
                  "moved: give the container itself, such as a std::vector, or "
                  "a function, [&] { return std::span(pointer, length); }, or, "
                  "for elements that stay where they are, "
                  "belay::AtAddress(pointer)");
  }
  template <ElementRange R>
  Memory(R&& range) : Memory(PresentOnly(range)) {
    tracking::RequireThatItLasts<R>();
    tracking::RequireThatItIsNoNamedView<R>();
    using U = std::remove_cvref_t<R>;
    if constexpr (!std::is_array_v<U> && !tracking::kIsView<U>) {
      id = IdOf(range);
      object = const_cast<U*>(std::addressof(range));
      access = &kRangeAccess<U>;
    }
  }
  // The function is copied, and called here as well.
  template <ElementFunction F>
  Memory(F&& find) : Memory(FromFunction(std::forward<F>(find))) {}
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
  // True if the memory may be longer than its box: a built-in array, which is
  // used like a pointer.
  bool may_be_longer = false;
  // The range that owns the elements, if it may move them; each save and
  // restore looks up their address. Null: the elements do not move.
  void* object = nullptr;
  const ArrayAccess* access = nullptr;
  // Null: dense and row-major.
  std::shared_ptr<const MemoryLayout> layout = nullptr;
  // Owns `object` if that is a function.
  std::shared_ptr<void> function = nullptr;

  // Returns the elements from this address on. Local.
  template <ElementPointer P>
  static Memory AddressOnly(P elements) {
    using T = std::remove_pointer_t<P>;
    Memory memory(const_cast<void*>(static_cast<const void*>(elements)),
                  DTypeOf<std::remove_cv_t<T>>(), -1,
                  {elements, typeid(T).hash_code()});
    memory.is_const = std::is_const_v<T>;
    return memory;
  }
  // Returns the current elements of a range. Local.
  template <ElementRange R>
  static Memory PresentOnly(R&& range) {
    const ArrayAccess::View view = ElementsOfRange(range);
    Memory memory(
        view.data, view.dtype, view.shape[0],
        {view.data, typeid(std::ranges::range_value_t<R>).hash_code()});
    memory.is_const = kHasConstElements<R>;
    memory.may_be_longer = std::is_array_v<std::remove_reference_t<R>>;
    return memory;
  }

 private:
  template <ElementFunction F>
  static Memory FromFunction(F&& find) {
    using U = std::remove_cvref_t<F>;
    using R = std::invoke_result_t<U&>;
    static_assert(std::ranges::borrowed_range<R>,
                  "belay borrows what the function returns: let it return a "
                  "std::span, or a reference to a container");
    auto copy = std::make_shared<U>(std::forward<F>(find));
    Memory memory = PresentOnly((*copy)());
    memory.object = copy.get();
    memory.access = &kFunctionAccess<U>;
    memory.function = std::move(copy);
    return memory;
  }
};

// Returns the elements from this address on. They must stay there while a State
// borrows them, whatever happens to the pointer or container that the address
// came from. Local.
template <ElementPointer P>
Memory AtAddress(P elements) {
  return Memory::AddressOnly(elements);
}
// The same for a type that is known only at run time. Local.
inline Memory AtAddress(void* bytes, DType dtype) {
  return {bytes, dtype, -1, {bytes, static_cast<uint64_t>(dtype)}};
}

}  // namespace belay

#endif  // BELAY_ARRAYS_MEMORY_H_
