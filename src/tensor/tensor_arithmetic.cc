#include "belay/arrays/tensor_arithmetic.h"

#include <string_view>

#include "base/status_macros.h"
#include "base/text.h"
#include "tensor/broadcast.h"
#include "tensor/eigen_types.h"
#include "tensor/elementwise.h"
#include "tensor/operand.h"

namespace belay {
namespace {

Status NotDefined(DType dtype) {
  return absl::UnimplementedError(Cat("not defined for ", DTypeName(dtype)));
}

Status CheckDTypes(const Tensor& a, const Tensor& b) {
  if (a.dtype() == b.dtype()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      Cat("the dtypes differ (need equal ones, found ", DTypeName(a.dtype()),
          " and ", DTypeName(b.dtype()), ")"));
}

template <typename T>
Status CheckDivisors(const Tensor& b) {
  const int64_t place = FindZero<T>(b.data(), b.num_elements());
  if (place < 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      Cat("integer division by zero (need no 0, found one as divisor ", place,
          " of ", b.num_elements(), ")"));
}

template <typename T>
Status CheckPowers(const Tensor& b) {
  const T least = MapOf<T>(b.data(), b.num_elements()).minCoeff();
  if (least >= T{0}) return absl::OkStatus();
  return absl::InvalidArgumentError(
      Cat("negative power of an integer (need 0 or more, found ", least, ")"));
}

// Checks the second operand, which has elements. Only integers can be wrong.
Status CheckElements(BinaryOp op, const Tensor& b) {
  return VisitScalarType(
      b.dtype(),
      [&](auto scalar) -> Status {
        using T = typename decltype(scalar)::type;
        if constexpr (kIsInteger<T>) {
          if (op == BinaryOp::kPower) return CheckPowers<T>(b);
          if (op == BinaryOp::kFloorDivide || op == BinaryOp::kModulo) {
            return CheckDivisors<T>(b);
          }
        }
        return absl::OkStatus();
      },
      [] { return absl::OkStatus(); });
}

StatusOr<Tensor> Compute(BinaryOp op, const Tensor& a, const Tensor& b) {
  BELAY_RETURN_IF_ERROR(CheckDTypes(a, b));
  const ElementKernel kernel = FindBinary(op, a.dtype());
  if (kernel.run == nullptr) return NotDefined(a.dtype());
  BELAY_ASSIGN_OR_RETURN(const Shape shape,
                         BroadcastShapes(a.shape(), b.shape()));
  Tensor result(kernel.result, shape);
  if (result.num_elements() == 0) return result;
  BELAY_RETURN_IF_ERROR(CheckElements(op, b));
  const int64_t bytes = DTypeSize(a.dtype());
  const int64_t result_bytes = DTypeSize(kernel.result);
  ForEachLine(a.shape(), b.shape(), [&](const BroadcastLine& line) {
    kernel.run({.a = a.data() + line.a * bytes,
                .b = b.data() + line.b * bytes,
                .result = result.data() + line.result * result_bytes,
                .count = line.count,
                .a_repeats = line.a_repeats,
                .b_repeats = line.b_repeats});
  });
  return result;
}

// Numbers become tensors of the other operand's dtype.
StatusOr<Tensor> ComputeOperands(BinaryOp op, const Operand& a,
                                 const Operand& b) {
  if (a.tensor() != nullptr && b.tensor() != nullptr) {
    return Compute(op, *a.tensor(), *b.tensor());
  }
  if (a.tensor() != nullptr) {
    BELAY_ASSIGN_OR_RETURN(const Tensor number,
                           TensorOfNumber(b.number(), a.tensor()->dtype()));
    return Compute(op, *a.tensor(), number);
  }
  if (b.tensor() != nullptr) {
    BELAY_ASSIGN_OR_RETURN(const Tensor number,
                           TensorOfNumber(a.number(), b.tensor()->dtype()));
    return Compute(op, number, *b.tensor());
  }
  return absl::InvalidArgumentError(
      "two numbers (need at least 1 tensor, found 0)");
}

StatusOr<Tensor> Named(std::string_view name, const Operand& a,
                       const Operand& b, StatusOr<Tensor> result) {
  if (result.ok()) return result;
  return Status(result.status().code(),
                Cat(name, " \"", OperandText(a), "\" and \"", OperandText(b),
                    "\": ", result.status().message()));
}

StatusOr<Tensor> Binary(std::string_view name, BinaryOp op, const Operand& a,
                        const Operand& b) {
  return Named(name, a, b, ComputeOperands(op, a, b));
}

// a > b is b < a: the operands change places, but not in messages.
StatusOr<Tensor> Swapped(std::string_view name, BinaryOp op, const Operand& a,
                         const Operand& b) {
  return Named(name, a, b, ComputeOperands(op, b, a));
}

StatusOr<Tensor> Unary(std::string_view name, UnaryOp op, const Tensor& a) {
  const ElementKernel kernel = FindUnary(op, a.dtype());
  if (kernel.run == nullptr) {
    return Status(absl::StatusCode::kUnimplemented,
                  Cat(name, " \"", OperandText(a),
                      "\": ", NotDefined(a.dtype()).message()));
  }
  Tensor result(kernel.result, a.shape());
  kernel.run({.a = a.data(),
              .b = nullptr,
              .result = result.data(),
              .count = a.num_elements()});
  return result;
}

}  // namespace

StatusOr<Tensor> Add(const Operand& a, const Operand& b) {
  return Binary("add", BinaryOp::kAdd, a, b);
}
StatusOr<Tensor> Subtract(const Operand& a, const Operand& b) {
  return Binary("subtract", BinaryOp::kSubtract, a, b);
}
StatusOr<Tensor> Multiply(const Operand& a, const Operand& b) {
  return Binary("multiply", BinaryOp::kMultiply, a, b);
}
StatusOr<Tensor> Divide(const Operand& a, const Operand& b) {
  return Binary("divide", BinaryOp::kDivide, a, b);
}
StatusOr<Tensor> FloorDivide(const Operand& a, const Operand& b) {
  return Binary("floor-divide", BinaryOp::kFloorDivide, a, b);
}
StatusOr<Tensor> Modulo(const Operand& a, const Operand& b) {
  return Binary("modulo", BinaryOp::kModulo, a, b);
}
StatusOr<Tensor> Power(const Operand& a, const Operand& b) {
  return Binary("power", BinaryOp::kPower, a, b);
}
StatusOr<Tensor> And(const Operand& a, const Operand& b) {
  return Binary("and", BinaryOp::kAnd, a, b);
}
StatusOr<Tensor> Or(const Operand& a, const Operand& b) {
  return Binary("or", BinaryOp::kOr, a, b);
}
StatusOr<Tensor> Xor(const Operand& a, const Operand& b) {
  return Binary("xor", BinaryOp::kXor, a, b);
}
StatusOr<Tensor> Less(const Operand& a, const Operand& b) {
  return Binary("less", BinaryOp::kLess, a, b);
}
StatusOr<Tensor> LessEqual(const Operand& a, const Operand& b) {
  return Binary("less-equal", BinaryOp::kLessEqual, a, b);
}
StatusOr<Tensor> Greater(const Operand& a, const Operand& b) {
  return Swapped("greater", BinaryOp::kLess, a, b);
}
StatusOr<Tensor> GreaterEqual(const Operand& a, const Operand& b) {
  return Swapped("greater-equal", BinaryOp::kLessEqual, a, b);
}
StatusOr<Tensor> Equal(const Operand& a, const Operand& b) {
  return Binary("equal", BinaryOp::kEqual, a, b);
}
StatusOr<Tensor> NotEqual(const Operand& a, const Operand& b) {
  return Binary("not-equal", BinaryOp::kNotEqual, a, b);
}
StatusOr<Tensor> Abs(const Tensor& a) { return Unary("abs", UnaryOp::kAbs, a); }
StatusOr<Tensor> Negative(const Tensor& a) {
  return Unary("negative", UnaryOp::kNegative, a);
}
StatusOr<Tensor> Invert(const Tensor& a) {
  return Unary("invert", UnaryOp::kInvert, a);
}

}  // namespace belay
