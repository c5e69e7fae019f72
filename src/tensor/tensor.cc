#include "belay/tensor.h"

#include <cstring>

namespace belay {

Tensor::Tensor(DType dtype, const Shape& shape)
    : dtype_(dtype),
      shape_(shape),
      num_elements_(NumElements(shape)),
      data_(std::make_unique_for_overwrite<std::byte[]>(num_bytes())) {}

Tensor Tensor::CopyOf(DType dtype, const Shape& shape, const void* data) {
  Tensor tensor(dtype, shape);
  if (tensor.num_bytes() > 0) {
    std::memcpy(tensor.data(), data, tensor.num_bytes());
  }
  return tensor;
}

}  // namespace belay
