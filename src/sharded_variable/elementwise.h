// Tensor arithmetic, element by element.

#ifndef BELAY_SHARDED_VARIABLE_ELEMENTWISE_H_
#define BELAY_SHARDED_VARIABLE_ELEMENTWISE_H_

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "belay/arrays/dtype.h"
#include "sharded_variable/eigen_types.h"

namespace belay {

// The inner loops of tensor arithmetic: which there are, and how they are
// called. One source per family, so that each compiles in bearable time.

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

// Add, subtract, multiply and divide.
ElementKernel FindArithmetic(BinaryOp op, DType dtype);

// Floor-divide, modulo and power. Of integers the divisors are not 0 and the
// powers not negative.
ElementKernel FindDivision(BinaryOp op, DType dtype);

// And, or, xor.
ElementKernel FindLogic(BinaryOp op, DType dtype);

// Less, less-equal, equal and not-equal.
ElementKernel FindComparison(BinaryOp op, DType dtype);

// Any of them.
ElementKernel FindBinary(BinaryOp op, DType dtype);

ElementKernel FindUnary(UnaryOp op, DType dtype);

// How the families of inner loops are made from functions of single elements.

// The DType of an Eigen scalar.
template <typename T>
constexpr DType DTypeOfScalar() {
  if constexpr (std::is_same_v<T, Eigen::half>) {
    return DType::kF16;
  } else if constexpr (std::is_same_v<T, Eigen::bfloat16>) {
    return DType::kBF16;
  } else {
    return DTypeOf<T>();
  }
}

// Element i. Of a bool any byte but 0 is true: memory that others have filled
// may hold such bytes, and C++ leaves open what a bool of them is.
template <typename T>
T ElementAt(const std::byte* data, int64_t i) {
  if constexpr (kIsBool<T>) {
    return data[i] != std::byte{0};
  } else {
    return reinterpret_cast<const T*>(data)[i];
  }
}

// Function{}(x, y) gives the result of each pair of elements. The steps, 0 or
// 1, are constants, and nothing in the loop is read from `line`, to which a
// result of bytes might belong: so that the loop can be made of vectors.
template <typename T, typename Result, typename Function, int64_t kStepA,
          int64_t kStepB>
void RunSteps(const ElementLine& line) {
  const std::byte* const a = line.a;
  const std::byte* const b = line.b;
  Result* const result = reinterpret_cast<Result*>(line.result);
  const int64_t count = line.count;
  for (int64_t i = 0; i < count; ++i) {
    result[i] =
        Function{}(ElementAt<T>(a, i * kStepA), ElementAt<T>(b, i * kStepB));
  }
}

template <typename T, typename Result, typename Function>
void RunBinary(const ElementLine& line) {
  if (line.a_repeats) return RunSteps<T, Result, Function, 0, 1>(line);
  if (line.b_repeats) return RunSteps<T, Result, Function, 1, 0>(line);
  RunSteps<T, Result, Function, 1, 1>(line);
}

template <typename T, typename Result, typename Function>
ElementKernel BinaryKernel() {
  return {RunBinary<T, Result, Function>, DTypeOfScalar<Result>()};
}

}  // namespace belay

#endif  // BELAY_SHARDED_VARIABLE_ELEMENTWISE_H_
