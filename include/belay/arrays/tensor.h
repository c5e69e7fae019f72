// A dense array that owns its memory.

#ifndef BELAY_ARRAYS_TENSOR_H_
#define BELAY_ARRAYS_TENSOR_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <utility>

#include "belay/arrays/box.h"
#include "belay/arrays/dtype.h"

namespace belay {

// Row-major, of any dtype but kString. Move only; Clone copies.
class Tensor {
 public:
  // An empty vector of f32.
  Tensor() : Tensor(DType::kF32, Shape{0}) {}

  // Allocates the elements, with unspecified values. Throws std::bad_alloc if
  // there is not enough memory, as does every function that makes a tensor.
  // Local. Requires a shape that CheckedNumElements accepts.
  Tensor(DType dtype, const Shape& shape);

  // Returns a tensor of these values. A single value may have no axes:
  // Of<float>({}, {42}). Local. Throws std::invalid_argument if the number of
  // values does not match the shape.
  template <typename T>
  static Tensor Of(const Shape& shape, std::span<const T> values) {
    Tensor tensor(DTypeOf<T>(), shape);
    tensor.CheckCount(values.size());
    std::copy(values.begin(), values.end(), tensor.values<T>().begin());
    return tensor;
  }
  // The same. Local.
  template <typename T>
  static Tensor Of(const Shape& shape, std::initializer_list<T> values) {
    return Of(shape, std::span<const T>(values.begin(), values.size()));
  }

  // Returns a copy of row-major bytes. Local.
  static Tensor CopyOf(DType dtype, const Shape& shape, const void* data);

  // Local.
  Tensor Clone() const { return CopyOf(dtype_, shape_, data()); }

  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int64_t num_elements() const { return num_elements_; }
  int64_t num_bytes() const { return num_elements_ * DTypeSize(dtype_); }
  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }

  // Returns the elements. Local. Throws std::invalid_argument unless dtype() is
  // that of a T.
  template <typename T>
  std::span<T> values() {
    CheckDType(DTypeOf<T>());
    return {reinterpret_cast<T*>(data()), static_cast<size_t>(num_elements_)};
  }
  // The same. Local.
  template <typename T>
  std::span<const T> values() const {
    CheckDType(DTypeOf<T>());
    return {reinterpret_cast<const T*>(data()),
            static_cast<size_t>(num_elements_)};
  }

 private:
  // Throw std::invalid_argument if the next access would be out of bounds.
  // Local.
  void CheckCount(size_t values) const;
  void CheckDType(DType wanted) const {
    if (dtype_ != wanted) ThrowOtherDType(wanted);
  }
  [[noreturn]] void ThrowOtherDType(DType wanted) const;

  DType dtype_;
  Shape shape_;
  int64_t num_elements_;
  std::unique_ptr<std::byte[]> data_;
};

}  // namespace belay

#endif  // BELAY_ARRAYS_TENSOR_H_
