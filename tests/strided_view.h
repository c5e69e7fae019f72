// A view of several axes with any strides.

#ifndef BELAY_TESTS_STRIDED_VIEW_H_
#define BELAY_TESTS_STRIDED_VIEW_H_

#include <array>
#include <cstddef>

namespace belay::testing {

// What std::mdspan and Kokkos::mdspan have in common, with any strides.
template <typename T, size_t kRank>
class StridedView {
 public:
  using Axes = std::array<size_t, kRank>;

  StridedView(T* data, Axes extents, Axes strides)
      : data_(data), extents_(extents), strides_(strides) {}
  // With layout_right.
  StridedView(T* data, Axes extents) : data_(data), extents_(extents) {
    size_t stride = 1;
    for (size_t i = kRank; i-- > 0; stride *= extents[i]) strides_[i] = stride;
  }

  static constexpr size_t rank() { return kRank; }
  const Axes& extents() const { return extents_; }
  size_t extent(size_t axis) const { return extents_[axis]; }
  size_t stride(size_t axis) const { return strides_[axis]; }
  T* data_handle() const { return data_; }
  static constexpr bool is_strided() { return true; }
  bool is_exhaustive() const {
    size_t last = 1, size = 1;
    for (size_t i = 0; i < kRank; ++i) {
      last += (extents_[i] - 1) * strides_[i];
      size *= extents_[i];
    }
    return last == size;
  }

 private:
  T* data_;
  Axes extents_;
  Axes strides_;
};

}  // namespace belay::testing

#endif  // BELAY_TESTS_STRIDED_VIEW_H_
