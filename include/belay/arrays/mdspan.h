// Multidimensional views, such as std::mdspan and Kokkos::mdspan, as values.
//
//   std::mdspan view(data.data(), 128, 64);
//   state.Add("weights", view);        // borrows the view and its elements
//   tracker.Value("weights", view);
//
// Element (i, j, ...) is element [i, j, ...] of the stored array. The elements
// must be dense and row-major, as in layout_right; other views are an error. A
// view has no memory of its own, so a restore keeps the shape of the view.
// Include this header where such views are added; belay itself does not need
// any mdspan library.

#ifndef BELAY_ARRAYS_MDSPAN_H_
#define BELAY_ARRAYS_MDSPAN_H_

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>

#include "belay/arrays/box.h"
#include "belay/arrays/dtype.h"
#include "belay/extend/type_handler.h"
#include "belay/state.h"
#include "belay/status.h"

namespace belay {

// A view of non-const elements through a plain pointer.
template <typename V>
concept MdspanLike = std::is_class_v<V> &&
    requires(const V& view, size_t axis) {
  view.extents();
  { view.rank() } -> std::convertible_to<size_t>;
  { view.extent(axis) } -> std::convertible_to<int64_t>;
  requires std::is_pointer_v<std::remove_cvref_t<decltype(view.data_handle())>>;
  requires Element<
      std::remove_pointer_t<std::remove_cvref_t<decltype(view.data_handle())>>>;
};

// Stores a view as an array with the same axes. Local.
template <MdspanLike V>
class MdspanHandler final : public Handler<V> {
 public:
  // Empty: the value is stored as a plain array. Local.
  std::string typestr() const override { return ""; }
  bool HasFinalize() const override { return false; }

  Status ListForSave(V& view, State& parts) const override {
    const Shape shape = ShapeOf(view);
    Status status = CheckDense(view, shape);
    if (!status.ok()) return status;
    parts.AddReplicated("", shape, AtAddress(view.data_handle()));
    return absl::OkStatus();
  }

  // A stored array with a different shape is an error, unless the options of
  // the restore allow it.
  Status ListForRestore(V& view, const StoredValue&,
                        State& parts) const override {
    return ListForSave(view, parts);
  }

 private:
  static Shape ShapeOf(const V& view) {
    Shape shape;
    const auto rank = static_cast<size_t>(view.rank());
    for (size_t axis = 0; axis < rank; ++axis) {
      shape.push_back(static_cast<int64_t>(view.extent(axis)));
    }
    return shape;
  }

  // A view without any of these functions is assumed to be dense.
  static Status CheckDense(const V& view, const Shape& shape) {
    if (NumElements(shape) == 0) return absl::OkStatus();
    if constexpr (requires { view.is_exhaustive(); }) {
      if (!view.is_exhaustive()) return NotDense("gaps between them");
    }
    if constexpr (requires { view.is_strided(); }) {
      if (!view.is_strided()) return NotDense("no strides");
    }
    if constexpr (requires { view.stride(size_t{0}); }) {
      return CheckStrides(view, shape);
    }
    return absl::OkStatus();
  }

  static Status CheckStrides(const V& view, const Shape& shape) {
    int64_t needed = 1;
    for (size_t axis = shape.size(); axis-- > 0;) {
      const auto found = static_cast<int64_t>(view.stride(axis));
      if (shape[axis] > 1 && found != needed) {
        return NotDense("stride " + std::to_string(found) + " along axis " +
                        std::to_string(axis) + " of " + ShapeText(shape) +
                        " instead of " + std::to_string(needed));
      }
      needed *= shape[axis];
    }
    return absl::OkStatus();
  }

  static Status NotDense(const std::string& found) {
    return absl::InvalidArgumentError(
        "the elements of the view do not lie densely, row by row (found " +
        found + "): copy them to a view that has layout_right");
  }
};

// Local.
template <MdspanLike V>
struct StandardHandler<V> {
  static TypeHandlerPtr Get() {
    static const TypeHandlerPtr handler =
        std::make_shared<const MdspanHandler<V>>();
    return handler;
  }
};

}  // namespace belay

#endif  // BELAY_ARRAYS_MDSPAN_H_
