#include "belay/arrays/tensor.h"

#include <cstring>
#include <new>
#include <stdexcept>

#include "absl/strings/str_format.h"
#include "bytes/huge_pages.h"

namespace belay {
namespace {

// A product that wrapped around would reserve too little.
int64_t CheckedBytes(int64_t elements, DType dtype) {
  const int64_t size = DTypeSize(dtype);
  if (size > 0 && elements > INT64_MAX / size) throw std::bad_alloc();
  return elements * size;
}

}  // namespace

Tensor::Tensor(DType dtype, const Shape& shape)
    : dtype_(dtype),
      shape_(shape),
      num_elements_(NumElements(shape)),
      data_(NewBytes(CheckedBytes(num_elements_, dtype))) {}

Tensor Tensor::CopyOf(DType dtype, const Shape& shape, const void* data) {
  Tensor tensor(dtype, shape);
  if (tensor.num_bytes() > 0) {
    std::memcpy(tensor.data(), data, tensor.num_bytes());
  }
  return tensor;
}

void Tensor::CheckCount(size_t values) const {
  if (static_cast<int64_t>(values) == num_elements_) return;
  throw std::invalid_argument(
      absl::StrFormat("make a tensor of shape %s: wrong number of values (need "
                      "%d, found %d)",
                      ShapeText(shape_), num_elements_, values));
}

void Tensor::ThrowOtherDType(DType wanted) const {
  throw std::invalid_argument(
      absl::StrFormat("values of a tensor: another dtype (need %s, found %s)",
                      DTypeName(wanted), DTypeName(dtype_)));
}

}  // namespace belay
