// Operands of tensor arithmetic as tensors of one dtype.

#ifndef BELAY_TENSOR_OPERAND_H_
#define BELAY_TENSOR_OPERAND_H_

#include <string>

#include "belay/arrays/dtype.h"
#include "belay/arrays/tensor.h"
#include "belay/arrays/tensor_arithmetic.h"
#include "belay/status.h"

namespace belay {

// Returns the number as a tensor without axes. Local.
// Errors: InvalidArgument - only the cause: the number does not fit the dtype;
//   Unimplemented - f8, which has no arithmetic.
StatusOr<Tensor> TensorOfNumber(const Operand::Number& number, DType dtype);

// Returns "f32 [2, 3]" for a tensor, its value for a number. Local.
std::string OperandText(const Operand& operand);

}  // namespace belay

#endif  // BELAY_TENSOR_OPERAND_H_
