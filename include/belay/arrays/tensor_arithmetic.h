// Arithmetic and comparisons of dense tensors, element by element, with NumPy's
// broadcasting.
//
// As in TensorFlow, both operands must have the same dtype, and nothing is
// converted. A number takes the dtype of the tensor operand:
//
//   StatusOr<Tensor> sum = a + b;
//   StatusOr<Tensor> half = a / 2;
//   StatusOr<Tensor> is_small = a < 0.5;
//
// Integers wrap around on overflow.

#ifndef BELAY_ARRAYS_TENSOR_ARITHMETIC_H_
#define BELAY_ARRAYS_TENSOR_ARITHMETIC_H_

#include <complex>
#include <concepts>
#include <cstdint>
#include <type_traits>
#include <variant>

#include "belay/arrays/tensor.h"
#include "belay/status.h"

namespace belay {

// A tensor, borrowed for the call, or a number.
class Operand {
 public:
  using Number =
      std::variant<bool, int64_t, uint64_t, double, std::complex<double>>;

  Operand(const Tensor& tensor) : tensor_(&tensor) {}  // NOLINT
  template <typename T>
  requires std::is_arithmetic_v<T> Operand(T number)
      : number_(Widened(number)) {}    // NOLINT
  Operand(std::complex<float> number)  // NOLINT
      : number_(std::complex<double>(number)) {}
  Operand(std::complex<double> number) : number_(number) {}  // NOLINT

  // A borrowed tensor, or null for a number. Local.
  const Tensor* tensor() const { return tensor_; }
  // Local. Requires that the operand is a number.
  const Number& number() const { return number_; }

 private:
  template <typename T>
  static Number Widened(T number) {
    if constexpr (std::same_as<T, bool>) {
      return number;
    } else if constexpr (std::is_floating_point_v<T>) {
      return static_cast<double>(number);
    } else if constexpr (std::is_signed_v<T>) {
      return static_cast<int64_t>(number);
    } else {
      return static_cast<uint64_t>(number);
    }
  }

  const Tensor* tensor_ = nullptr;
  Number number_ = false;
};

// All functions with two operands:
// Errors: InvalidArgument - no operand is a tensor, the dtypes differ, the
//   shapes do not broadcast, or a number does not fit the dtype: a fraction or
//   a large number in an integer dtype, a bool in any dtype but bool;
//   Unimplemented - not defined for the dtype. No function is defined for f8.

// Defined for all dtypes but bool. Local.
StatusOr<Tensor> Add(const Operand& a, const Operand& b);
StatusOr<Tensor> Subtract(const Operand& a, const Operand& b);
StatusOr<Tensor> Multiply(const Operand& a, const Operand& b);

// The true quotient, for all dtypes but bool. Integers of up to 16 bits give
// f32, larger ones f64; a division by zero gives an infinity or NaN. Local.
StatusOr<Tensor> Divide(const Operand& a, const Operand& b);

// The quotient rounded down, and the remainder, which has the sign of b. For
// integers and floating-point numbers. Local.
// Errors: InvalidArgument - an integer division by zero.
StatusOr<Tensor> FloorDivide(const Operand& a, const Operand& b);
StatusOr<Tensor> Modulo(const Operand& a, const Operand& b);

// a to the power of b, for all dtypes but bool. Local.
// Errors: InvalidArgument - a negative power of an integer.
StatusOr<Tensor> Power(const Operand& a, const Operand& b);

// Logical for bool, bitwise for integers. Local.
StatusOr<Tensor> And(const Operand& a, const Operand& b);
StatusOr<Tensor> Or(const Operand& a, const Operand& b);
StatusOr<Tensor> Xor(const Operand& a, const Operand& b);

// The result is bool. For all dtypes but bool and complex. Local.
StatusOr<Tensor> Less(const Operand& a, const Operand& b);
StatusOr<Tensor> LessEqual(const Operand& a, const Operand& b);
StatusOr<Tensor> Greater(const Operand& a, const Operand& b);
StatusOr<Tensor> GreaterEqual(const Operand& a, const Operand& b);

// The result is bool. For all dtypes. A NaN is not equal to itself. Local.
StatusOr<Tensor> Equal(const Operand& a, const Operand& b);
StatusOr<Tensor> NotEqual(const Operand& a, const Operand& b);

// The magnitude; that of a complex number is f32 or f64. Not for bool. Local.
// Errors: Unimplemented - not defined for the dtype.
StatusOr<Tensor> Abs(const Tensor& a);

// Not for bool. Local.
// Errors: those of Abs.
StatusOr<Tensor> Negative(const Tensor& a);

// Logical not for bool, bitwise not for integers. Local.
// Errors: those of Abs.
StatusOr<Tensor> Invert(const Tensor& a);

// The product of two matrices, for all dtypes but bool. f16 and bf16 are summed
// as f32. Local.
// Errors: InvalidArgument - the dtypes differ, an operand is not a matrix, or a
//   has another number of columns than b has rows; Unimplemented - not defined
//   for the dtype.
StatusOr<Tensor> MatMul(const Tensor& a, const Tensor& b);

inline StatusOr<Tensor> operator+(const Operand& a, const Operand& b) {
  return Add(a, b);
}
inline StatusOr<Tensor> operator-(const Operand& a, const Operand& b) {
  return Subtract(a, b);
}
inline StatusOr<Tensor> operator*(const Operand& a, const Operand& b) {
  return Multiply(a, b);
}
inline StatusOr<Tensor> operator/(const Operand& a, const Operand& b) {
  return Divide(a, b);
}
inline StatusOr<Tensor> operator%(const Operand& a, const Operand& b) {
  return Modulo(a, b);
}
inline StatusOr<Tensor> operator&(const Operand& a, const Operand& b) {
  return And(a, b);
}
inline StatusOr<Tensor> operator|(const Operand& a, const Operand& b) {
  return Or(a, b);
}
inline StatusOr<Tensor> operator^(const Operand& a, const Operand& b) {
  return Xor(a, b);
}
inline StatusOr<Tensor> operator<(const Operand& a, const Operand& b) {
  return Less(a, b);
}
inline StatusOr<Tensor> operator<=(const Operand& a, const Operand& b) {
  return LessEqual(a, b);
}
inline StatusOr<Tensor> operator>(const Operand& a, const Operand& b) {
  return Greater(a, b);
}
inline StatusOr<Tensor> operator>=(const Operand& a, const Operand& b) {
  return GreaterEqual(a, b);
}
inline StatusOr<Tensor> operator==(const Operand& a, const Operand& b) {
  return Equal(a, b);
}
inline StatusOr<Tensor> operator!=(const Operand& a, const Operand& b) {
  return NotEqual(a, b);
}
inline StatusOr<Tensor> operator-(const Tensor& a) { return Negative(a); }
inline StatusOr<Tensor> operator~(const Tensor& a) { return Invert(a); }

}  // namespace belay

#endif  // BELAY_ARRAYS_TENSOR_ARITHMETIC_H_
