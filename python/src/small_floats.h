// Floats that NumPy does not have: bf16, f8e4m3 and f8e5m2.

#ifndef BELAY_PYTHON_SMALL_FLOATS_H_
#define BELAY_PYTHON_SMALL_FLOATS_H_

#include "belay/arrays/dtype.h"
#include "belay/arrays/tensor.h"

namespace belay::python {

bool IsMissingInNumpy(DType dtype);

// Returns the same values as f32.
Tensor Widened(const Tensor& tensor);

}  // namespace belay::python

#endif  // BELAY_PYTHON_SMALL_FLOATS_H_
