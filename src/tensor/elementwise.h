// The inner loops of tensor arithmetic: which there are, and how they are
// called. One source per family, so that each compiles in bearable time.

#ifndef BELAY_TENSOR_ELEMENTWISE_H_
#define BELAY_TENSOR_ELEMENTWISE_H_

#include <cstddef>
#include <cstdint>

#include "belay/arrays/dtype.h"

namespace belay {

enum class BinaryOp {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower,
  kAnd,
  kOr,
  kXor,
  kLess,
  kLessEqual,
  kEqual,
  kNotEqual,
};

enum class UnaryOp { kAbs, kNegative, kInvert };

// `count` results, from as many elements of each operand, or from one that
// repeats. At most one of the two repeats.
struct ElementLine {
  const std::byte* a = nullptr;
  const std::byte* b = nullptr;
  std::byte* result = nullptr;
  int64_t count = 0;
  bool a_repeats = false;
  bool b_repeats = false;
};

// How an operation is computed for one dtype. `run` is null where it is not
// defined. A unary one has no b.
struct ElementKernel {
  void (*run)(const ElementLine& line) = nullptr;
  DType result = DType::kBool;
};

// Add, subtract, multiply and divide. Local.
ElementKernel FindArithmetic(BinaryOp op, DType dtype);

// Floor-divide, modulo and power. Of integers the divisors are not 0 and the
// powers not negative. Local.
ElementKernel FindDivision(BinaryOp op, DType dtype);

// And, or, xor. Local.
ElementKernel FindLogic(BinaryOp op, DType dtype);

// Less, less-equal, equal and not-equal. Local.
ElementKernel FindComparison(BinaryOp op, DType dtype);

// Any of them. Local.
ElementKernel FindBinary(BinaryOp op, DType dtype);

// Local.
ElementKernel FindUnary(UnaryOp op, DType dtype);

}  // namespace belay

#endif  // BELAY_TENSOR_ELEMENTWISE_H_
