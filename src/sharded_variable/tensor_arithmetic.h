// Operands of tensor arithmetic, and NumPy's broadcasting of them.

#ifndef BELAY_SHARDED_VARIABLE_TENSOR_ARITHMETIC_H_
#define BELAY_SHARDED_VARIABLE_TENSOR_ARITHMETIC_H_

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "belay/arrays/box.h"
#include "belay/arrays/dtype.h"
#include "belay/arrays/tensor.h"
#include "belay/arrays/tensor_arithmetic.h"
#include "belay/status.h"

namespace belay {

// NumPy's broadcasting of two operands: the shape of the result, and the lines
// of elements to compute it by.

// Returns the shape that both broadcast to.
// Errors: InvalidArgument - only the cause: an axis on which the lengths differ
//   and neither is 1, or too many elements.
StatusOr<Shape> BroadcastShapes(const Shape& a, const Shape& b);

// `count` neighbouring elements of the result, and where those of the operands
// begin, in elements. An operand's elements are neighbours too, or one repeats.
struct BroadcastLine {
  int64_t a = 0;
  int64_t b = 0;
  int64_t result = 0;
  int64_t count = 0;
  bool a_repeats = false;
  bool b_repeats = false;
};

// Calls `visit` for lines as long as they can be, in the order of the result.
// Never are both operands repeated, but in a line of one element.
// Requires that the shapes broadcast.
void ForEachLine(const Shape& a, const Shape& b,
                 absl::FunctionRef<void(const BroadcastLine&)> visit);

// Operands of tensor arithmetic as tensors of one dtype.

// Returns the number as a tensor without axes.
// Errors: InvalidArgument - only the cause: the number does not fit the dtype;
//   Unimplemented - f8, which has no arithmetic.
StatusOr<Tensor> TensorOfNumber(const Operand::Number& number, DType dtype);

// Returns "f32 [2, 3]" for a tensor, its value for a number.
std::string OperandText(const Operand& operand);

}  // namespace belay

#endif  // BELAY_SHARDED_VARIABLE_TENSOR_ARITHMETIC_H_
