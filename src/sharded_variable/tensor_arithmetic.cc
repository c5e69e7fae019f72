#include "sharded_variable/tensor_arithmetic.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "belay/arrays/tensor_arithmetic.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "sharded_variable/eigen_types.h"
#include "sharded_variable/elementwise.h"

namespace belay {
namespace {

// The length of an axis, counted from the last one; 1 in front of the first.
int64_t LengthFromEnd(const Shape& shape, size_t i) {
  return i < shape.size() ? shape[shape.size() - 1 - i] : 1;
}

// Axes of the result, the last one first, and how far the operands move along
// each.
struct Axes {
  Shape lengths;
  Shape a;
  Shape b;
};

// Leaves out axes of length 1, and joins neighbours that both operands walk
// through as through one.
Axes JoinAxes(const Shape& a, const Shape& b) {
  Axes axes;
  int64_t a_stride = 1, b_stride = 1;
  for (size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    const int64_t a_length = LengthFromEnd(a, i);
    const int64_t b_length = LengthFromEnd(b, i);
    const int64_t length = a_length == 1 ? b_length : a_length;
    const int64_t a_step = a_length == 1 ? 0 : a_stride;
    const int64_t b_step = b_length == 1 ? 0 : b_stride;
    a_stride *= a_length;
    b_stride *= b_length;
    if (length == 1) continue;
    // The axis that was added last lies inside this one.
    if (!axes.lengths.empty() &&
        a_step == axes.a.back() * axes.lengths.back() &&
        b_step == axes.b.back() * axes.lengths.back()) {
      axes.lengths.back() *= length;
      continue;
    }
    axes.lengths.push_back(length);
    axes.a.push_back(a_step);
    axes.b.push_back(b_step);
  }
  return axes;
}

// Moves to the next line, as an odometer does. Returns whether there is one.
bool NextLine(const Axes& axes, Shape& position, BroadcastLine& line) {
  line.result += line.count;
  for (size_t axis = 1; axis < axes.lengths.size(); ++axis) {
    line.a += axes.a[axis];
    line.b += axes.b[axis];
    if (++position[axis] < axes.lengths[axis]) return true;
    position[axis] = 0;
    line.a -= axes.a[axis] * axes.lengths[axis];
    line.b -= axes.b[axis] * axes.lengths[axis];
  }
  return false;
}

}  // namespace

StatusOr<Shape> BroadcastShapes(const Shape& a, const Shape& b) {
  Shape result(std::max(a.size(), b.size()));
  for (size_t i = 0; i < result.size(); ++i) {
    const int64_t a_length = LengthFromEnd(a, i);
    const int64_t b_length = LengthFromEnd(b, i);
    const size_t axis = result.size() - 1 - i;
    if (a_length != b_length && a_length != 1 && b_length != 1) {
      return absl::InvalidArgumentError(
          Cat("the shapes do not broadcast on axis ", axis,
              " of the result (need equal lengths or 1, found ", a_length,
              " and ", b_length, ")"));
    }
    result[axis] = a_length == 1 ? b_length : a_length;
  }
  BELAY_RETURN_IF_ERROR(CheckedNumElements(result).status());
  return result;
}

void ForEachLine(const Shape& a, const Shape& b,
                 absl::FunctionRef<void(const BroadcastLine&)> visit) {
  const Axes axes = JoinAxes(a, b);
  BroadcastLine line{.count = 1};
  if (NumElements(axes.lengths) == 0) return;
  if (!axes.lengths.empty()) {
    line.count = axes.lengths[0];
    line.a_repeats = axes.a[0] == 0;
    line.b_repeats = axes.b[0] == 0;
  }
  Shape position(axes.lengths.size(), 0);
  do {
    visit(line);
  } while (NextLine(axes, position, line));
}

// --- Operand ---

namespace {

std::string NumberText(const Operand::Number& number) {
  return std::visit(
      [](auto value) -> std::string {
        using T = decltype(value);
        if constexpr (kIsComplex<T>) {
          return Cat("(", value.real(), ", ", value.imag(), ")");
        } else if constexpr (kIsBool<T>) {
          return value ? "true" : "false";
        } else {
          return Cat(value);
        }
      },
      number);
}

// A number of type From as a T, if that keeps what it is.
template <typename T, typename From>
std::optional<T> Fit(From from) {
  if constexpr (kIsBool<T> || kIsBool<From>) {
    if constexpr (std::is_same_v<T, From>) return from;
    return std::nullopt;
  } else if constexpr (kIsInteger<T>) {
    if constexpr (kIsInteger<From>) {
      if (std::in_range<T>(from)) return static_cast<T>(from);
    }
    return std::nullopt;
  } else if constexpr (kIsComplex<T>) {
    using Real = typename T::value_type;
    if constexpr (kIsComplex<From>) {
      return T(static_cast<Real>(from.real()), static_cast<Real>(from.imag()));
    } else {
      return T(static_cast<Real>(from));
    }
  } else {
    if constexpr (kIsComplex<From>)
      return std::nullopt;
    else
      return static_cast<T>(from);
  }
}

Status DoesNotFit(const Operand::Number& number, DType dtype) {
  return absl::InvalidArgumentError(Cat("the number does not fit (need one of ",
                                        DTypeName(dtype), ", found ",
                                        NumberText(number), ")"));
}

template <typename T>
StatusOr<Tensor> TensorOf(const Operand::Number& number, DType dtype) {
  const std::optional<T> value =
      std::visit([](auto from) { return Fit<T>(from); }, number);
  if (!value.has_value()) return DoesNotFit(number, dtype);
  return Tensor::CopyOf(dtype, {}, &*value);
}

}  // namespace

StatusOr<Tensor> TensorOfNumber(const Operand::Number& number, DType dtype) {
  return VisitScalarType(
      dtype,
      [&](auto scalar) {
        return TensorOf<typename decltype(scalar)::type>(number, dtype);
      },
      [&]() -> StatusOr<Tensor> {
        return absl::UnimplementedError(
            Cat("not defined for ", DTypeName(dtype)));
      });
}

std::string OperandText(const Operand& operand) {
  if (operand.tensor() == nullptr) return NumberText(operand.number());
  return Cat(DTypeName(operand.tensor()->dtype()), " ",
             ShapeText(operand.tensor()->shape()));
}

// --- Tensor arithmetic ---

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
