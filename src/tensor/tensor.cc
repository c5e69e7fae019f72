#include "belay/tensor.h"

#include <cstring>

#include "base/huge_pages.h"

namespace belay {

Tensor::Tensor(DType dtype, const Shape& shape)
    : dtype_(dtype),
      shape_(shape),
      num_elements_(NumElements(shape)),
      data_(NewBytes(num_bytes())) {}

Tensor Tensor::CopyOf(DType dtype, const Shape& shape, const void* data) {
  Tensor tensor(dtype, shape);
  if (tensor.num_bytes() > 0) {
    std::memcpy(tensor.data(), data, tensor.num_bytes());
  }
  return tensor;
}

}  // namespace belay
