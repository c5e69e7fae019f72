#include "belay/arrays/tensor_arithmetic.h"

#include <Eigen/Core>
#include <algorithm>
#include <cassert>
#include <cmath>
#include <complex>
#include <cstring>
#include <functional>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

#include "core/status_macros.h"
#include "core/text.h"
#include "sharded_variable/update.h"

namespace belay {
namespace {

// The Eigen scalar type of each dtype, and wrapping integer arithmetic.

// Represents a scalar type as a value that can be passed to a generic lambda.
template <typename T>
struct ScalarType {
  using type = T;
};

// Returns visit(ScalarType<T>{}) for the scalar type T of the dtype. For dtypes
// without arithmetic (f8 and strings), returns a value-initialized result.
template <typename Visit>
auto VisitScalarType(DType dtype, Visit&& visit) {
  switch (dtype) {
    case DType::kF16:
      return visit(ScalarType<Eigen::half>{});
    case DType::kBF16:
      return visit(ScalarType<Eigen::bfloat16>{});
    case DType::kF32:
      return visit(ScalarType<float>{});
    case DType::kF64:
      return visit(ScalarType<double>{});
    case DType::kI8:
      return visit(ScalarType<int8_t>{});
    case DType::kI16:
      return visit(ScalarType<int16_t>{});
    case DType::kI32:
      return visit(ScalarType<int32_t>{});
    case DType::kI64:
      return visit(ScalarType<int64_t>{});
    case DType::kU8:
      return visit(ScalarType<uint8_t>{});
    case DType::kU16:
      return visit(ScalarType<uint16_t>{});
    case DType::kU32:
      return visit(ScalarType<uint32_t>{});
    case DType::kU64:
      return visit(ScalarType<uint64_t>{});
    case DType::kBool:
      return visit(ScalarType<bool>{});
    case DType::kC64:
      return visit(ScalarType<std::complex<float>>{});
    case DType::kC128:
      return visit(ScalarType<std::complex<double>>{});
    default:
      return decltype(visit(ScalarType<float>{}))();
  }
}

template <typename T>
constexpr bool kIsBool = std::is_same_v<T, bool>;
template <typename T>
constexpr bool kIsInteger = std::is_integral_v<T> && !kIsBool<T>;
template <typename T>
constexpr bool kIsComplex = Eigen::NumTraits<T>::IsComplex;
template <typename T>
constexpr bool kIsHalf =
    std::is_same_v<T, Eigen::half> || std::is_same_v<T, Eigen::bfloat16>;

// Half precision is computed as f32.
template <typename T>
using Real = std::conditional_t<kIsHalf<T>, float, T>;

// Maps dense elements as an Eigen array. Needs only element alignment.
template <typename T>
auto MapElements(std::byte* data, int64_t count) {
  using Elements = Eigen::Array<T, Eigen::Dynamic, 1>;
  return Eigen::Map<Elements>(reinterpret_cast<T*>(data), count);
}
template <typename T>
auto MapElements(const std::byte* data, int64_t count) {
  using Elements = Eigen::Array<T, Eigen::Dynamic, 1>;
  return Eigen::Map<const Elements>(reinterpret_cast<const T*>(data), count);
}

// The type in which integers are computed. Overflow of unsigned types is
// defined; types narrower than int would be promoted to (signed) int.
template <typename T>
using Unsigned = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

template <typename Function>
struct Wrapping {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(
        Function{}(static_cast<Unsigned<T>>(a), static_cast<Unsigned<T>>(b)));
  }
};

template <typename T>
T WrappingNegate(T a) {
  return Wrapping<std::minus<>>{}(T{0}, a);
}

// Rounds towards zero. Requires b != 0.
struct WrappingDivide {
  template <typename T>
  T operator()(T a, T b) const {
    if constexpr (std::is_signed_v<T>) {
      // The smallest a / -1 does not fit, and the processor would trap.
      if (b == -1) return WrappingNegate(a);
    }
    return static_cast<T>(a / b);
  }
};

// Function objects for two elements of a dtype.
template <typename T, typename Function>
using WrappingIfInteger =
    std::conditional_t<kIsInteger<T>, Wrapping<Function>, Function>;
template <typename T>
using Adding = WrappingIfInteger<T, std::plus<>>;
template <typename T>
using Subtracting = WrappingIfInteger<T, std::minus<>>;
template <typename T>
using Multiplying = WrappingIfInteger<T, std::multiplies<>>;

// Returns the position of the first zero, if any.
template <typename T>
std::optional<int64_t> FindZero(const std::byte* data, int64_t count) {
  const T* const begin = reinterpret_cast<const T*>(data);
  const T* const found = std::find(begin, begin + count, T{0});
  if (found == begin + count) return std::nullopt;
  return found - begin;
}

// The inner loops, one per operation and dtype.

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

// `count` adjacent results. Each operand has `count` adjacent elements, or one
// element that is repeated. At most one operand is repeated.
struct ElementLine {
  const std::byte* a = nullptr;
  const std::byte* b = nullptr;  // null for a unary operation
  std::byte* result = nullptr;
  int64_t count = 0;
  bool a_repeats = false;
  bool b_repeats = false;
};

// `run` is null if the operation is not defined for the dtype.
struct ElementKernel {
  void (*run)(const ElementLine& line) = nullptr;
  DType result = DType::kBool;
};

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

// A bool is true if its byte is not 0. Memory filled by other programs may have
// bytes other than 0 and 1, and reading them as a C++ bool is undefined.
template <typename T>
T ElementAt(const std::byte* data, int64_t i) {
  if constexpr (kIsBool<T>) {
    return data[i] != std::byte{0};
  } else {
    return reinterpret_cast<const T*>(data)[i];
  }
}

// The loop can be vectorized because the steps (0 or 1) are constants, and
// because it does not read `line`, which byte-sized results might alias.
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
void RunUnary(const ElementLine& line) {
  const std::byte* const a = line.a;
  Result* const result = reinterpret_cast<Result*>(line.result);
  const int64_t count = line.count;
  for (int64_t i = 0; i < count; ++i) {
    result[i] = Function{}(ElementAt<T>(a, i));
  }
}

template <typename T, typename Result, typename Function>
ElementKernel BinaryKernel() {
  return {RunBinary<T, Result, Function>, DTypeOfScalar<Result>()};
}

template <typename T, typename Result, typename Function>
ElementKernel UnaryKernel() {
  return {RunUnary<T, Result, Function>, DTypeOfScalar<Result>()};
}

// Integers are converted to a floating-point type before they are divided.
template <typename T>
using QuotientType =
    std::conditional_t<!kIsInteger<T>, T,
                       std::conditional_t<sizeof(T) <= 2, float, double>>;

template <typename Result>
struct Quotient {
  template <typename T>
  Result operator()(const T& a, const T& b) const {
    return static_cast<Result>(a) / static_cast<Result>(b);
  }
};

struct FloorQuotient {
  template <typename T>
  T operator()(const T& a, const T& b) const {
    if constexpr (kIsInteger<T>) {
      const T quotient = WrappingDivide{}(a, b);
      if constexpr (std::is_signed_v<T>) {
        if (b != -1 && a % b != 0 && (a < 0) != (b < 0)) return quotient - 1;
      }
      return quotient;
    } else {
      return static_cast<T>(
          std::floor(static_cast<Real<T>>(a) / static_cast<Real<T>>(b)));
    }
  }
};

struct FloorRemainder {
  template <typename T>
  T operator()(const T& a, const T& b) const {
    if constexpr (kIsInteger<T>) {
      if constexpr (std::is_signed_v<T>) {
        if (b == -1) return 0;  // the smallest a % -1 would trap
        const T rest = static_cast<T>(a % b);
        return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
      } else {
        return static_cast<T>(a % b);
      }
    } else {
      const auto divisor = static_cast<Real<T>>(b);
      const auto rest = std::fmod(static_cast<Real<T>>(a), divisor);
      if (rest == 0) return static_cast<T>(std::copysign(rest, divisor));
      const bool has_other_sign = (rest < 0) != (divisor < 0);
      return static_cast<T>(has_other_sign ? rest + divisor : rest);
    }
  }
};

struct ToThePower {
  template <typename T>
  T operator()(const T& a, const T& b) const {
    if constexpr (kIsInteger<T>) {
      T result = 1, square = a;
      for (auto power = b; power > 0; power = static_cast<T>(power >> 1)) {
        if (power & 1) result = Multiplying<T>{}(result, square);
        square = Multiplying<T>{}(square, square);
      }
      return result;
    } else {
      return static_cast<T>(
          std::pow(static_cast<Real<T>>(a), static_cast<Real<T>>(b)));
    }
  }
};

struct Magnitude {
  template <typename T>
  auto operator()(const T& a) const {
    if constexpr (!kIsInteger<T>) {
      return Eigen::numext::abs(a);
    } else if constexpr (std::is_signed_v<T>) {
      return a < 0 ? WrappingNegate(a) : a;
    } else {
      return a;
    }
  }
};

struct Opposite {
  template <typename T>
  T operator()(const T& a) const {
    if constexpr (kIsInteger<T>) {
      return WrappingNegate(a);
    } else {
      return -a;
    }
  }
};

struct Inverse {
  template <typename T>
  T operator()(const T& a) const {
    if constexpr (kIsBool<T>) {
      return !a;
    } else {
      return static_cast<T>(~a);
    }
  }
};

template <typename T>
ElementKernel FindBinary(BinaryOp op) {
  using enum BinaryOp;
  if constexpr (!kIsBool<T>) {
    using Q = QuotientType<T>;
    if (op == kAdd) return BinaryKernel<T, T, Adding<T>>();
    if (op == kSubtract) return BinaryKernel<T, T, Subtracting<T>>();
    if (op == kMultiply) return BinaryKernel<T, T, Multiplying<T>>();
    if (op == kDivide) return BinaryKernel<T, Q, Quotient<Q>>();
    if (op == kPower) return BinaryKernel<T, T, ToThePower>();
  }
  if constexpr (!kIsBool<T> && !kIsComplex<T>) {
    if (op == kFloorDivide) return BinaryKernel<T, T, FloorQuotient>();
    if (op == kModulo) return BinaryKernel<T, T, FloorRemainder>();
    if (op == kLess) return BinaryKernel<T, bool, std::less<>>();
    if (op == kLessEqual) return BinaryKernel<T, bool, std::less_equal<>>();
  }
  if constexpr (kIsBool<T> || kIsInteger<T>) {
    if (op == kAnd) return BinaryKernel<T, T, Wrapping<std::bit_and<>>>();
    if (op == kOr) return BinaryKernel<T, T, Wrapping<std::bit_or<>>>();
    if (op == kXor) return BinaryKernel<T, T, Wrapping<std::bit_xor<>>>();
  }
  if (op == kEqual) return BinaryKernel<T, bool, std::equal_to<>>();
  if (op == kNotEqual) return BinaryKernel<T, bool, std::not_equal_to<>>();
  return {};
}

template <typename T>
ElementKernel FindUnary(UnaryOp op) {
  if constexpr (kIsBool<T> || kIsInteger<T>) {
    if (op == UnaryOp::kInvert) return UnaryKernel<T, T, Inverse>();
  }
  if constexpr (!kIsBool<T>) {
    using Magnitudes = typename Eigen::NumTraits<T>::Real;
    if (op == UnaryOp::kAbs) return UnaryKernel<T, Magnitudes, Magnitude>();
    if (op == UnaryOp::kNegative) return UnaryKernel<T, T, Opposite>();
  }
  return {};
}

// NumPy's broadcasting of two operands.

// Returns the length of the i-th axis from the end; 1 beyond the first axis.
int64_t LengthFromEnd(const Shape& shape, size_t i) {
  return i < shape.size() ? shape[shape.size() - 1 - i] : 1;
}

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

// The axes of the result, last axis first, and the operands' strides along each
// axis, in bytes.
struct Axes {
  Shape lengths;
  Shape a;
  Shape b;
};

// Omits axes of length 1, and joins adjacent axes that are contiguous in both
// operands, to make lines as long as possible.
Axes JoinAxes(const Shape& a, const Shape& b, int64_t element_bytes) {
  Axes axes;
  int64_t a_stride = element_bytes, b_stride = element_bytes;
  for (size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    const int64_t a_length = LengthFromEnd(a, i);
    const int64_t b_length = LengthFromEnd(b, i);
    const int64_t length = a_length == 1 ? b_length : a_length;
    const int64_t a_step = a_length == 1 ? 0 : a_stride;
    const int64_t b_step = b_length == 1 ? 0 : b_stride;
    a_stride *= a_length;
    b_stride *= b_length;
    if (length == 1) continue;
    // The axis added last is the next inner axis.
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

// Moves the operands to the next line, like an odometer. Returns false after
// the last line.
bool NextLine(const Axes& axes, Shape& position, ElementLine& line) {
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

// Runs the kernel on all lines. Requires that the shapes can be broadcast, and
// that the result has elements.
void RunLines(const ElementKernel& kernel, const Tensor& a, const Tensor& b,
              Tensor& result) {
  const Axes axes = JoinAxes(a.shape(), b.shape(), DTypeSize(a.dtype()));
  ElementLine line{
      .a = a.data(), .b = b.data(), .result = result.data(), .count = 1};
  if (!axes.lengths.empty()) {
    line.count = axes.lengths[0];
    line.a_repeats = axes.a[0] == 0;
    line.b_repeats = axes.b[0] == 0;
  }
  Shape position(axes.lengths.size(), 0);
  do {
    kernel.run(line);
    line.result += line.count * DTypeSize(kernel.result);
  } while (NextLine(axes, position, line));
}

// Operands that are numbers.

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

// Converts a number to T if the kinds are compatible: bools convert only to
// bool and from bool, integer types take only integers in range, and complex
// numbers convert only to complex types.
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

// Returns the number as a tensor without axes.
StatusOr<Tensor> MakeTensor(const Operand::Number& number, DType dtype) {
  StatusOr<Tensor> tensor =
      absl::UnimplementedError(Cat("not defined for ", DTypeName(dtype)));
  VisitScalarType(dtype, [&]<typename T>(ScalarType<T>) {
    const std::optional<T> value =
        std::visit([](auto from) { return Fit<T>(from); }, number);
    if (value.has_value()) {
      tensor = Tensor::CopyOf(dtype, {}, &*value);
    } else {
      tensor = absl::InvalidArgumentError(
          Cat("the number does not fit (need one of ", DTypeName(dtype),
              ", found ", NumberText(number), ")"));
    }
  });
  return tensor;
}

// Returns "f32 [2, 3]" for a tensor, or the value of a number.
std::string OperandText(const Operand& operand) {
  if (operand.tensor() == nullptr) return NumberText(operand.number());
  return Cat(DTypeName(operand.tensor()->dtype()), " ",
             ShapeText(operand.tensor()->shape()));
}

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
  const std::optional<int64_t> zero = FindZero<T>(b.data(), b.num_elements());
  if (!zero.has_value()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      Cat("integer division by zero (need no 0, found one as divisor ", *zero,
          " of ", b.num_elements(), ")"));
}

template <typename T>
Status CheckPowers(const Tensor& b) {
  const T least = MapElements<T>(b.data(), b.num_elements()).minCoeff();
  if (least >= T{0}) return absl::OkStatus();
  return absl::InvalidArgumentError(
      Cat("negative power of an integer (need 0 or more, found ", least, ")"));
}

// Checks the elements of the second operand, which must have some. Only
// integers can be invalid.
Status CheckElements(BinaryOp op, const Tensor& b) {
  return VisitScalarType(b.dtype(), [&]<typename T>(ScalarType<T>) -> Status {
    if constexpr (kIsInteger<T>) {
      if (op == BinaryOp::kPower) return CheckPowers<T>(b);
      if (op == BinaryOp::kFloorDivide || op == BinaryOp::kModulo) {
        return CheckDivisors<T>(b);
      }
    }
    return absl::OkStatus();
  });
}

StatusOr<Tensor> Compute(BinaryOp op, const Tensor& a, const Tensor& b) {
  BELAY_RETURN_IF_ERROR(CheckDTypes(a, b));
  const ElementKernel kernel = VisitScalarType(
      a.dtype(), [&]<typename T>(ScalarType<T>) { return FindBinary<T>(op); });
  if (kernel.run == nullptr) return NotDefined(a.dtype());
  BELAY_ASSIGN_OR_RETURN(const Shape shape,
                         BroadcastShapes(a.shape(), b.shape()));
  Tensor result(kernel.result, shape);
  if (result.num_elements() == 0) return result;
  BELAY_RETURN_IF_ERROR(CheckElements(op, b));
  RunLines(kernel, a, b, result);
  return result;
}

// Numbers are converted to tensors of the other operand's dtype.
StatusOr<Tensor> ComputeOperands(BinaryOp op, const Operand& a,
                                 const Operand& b) {
  if (a.tensor() == nullptr && b.tensor() == nullptr) {
    return absl::InvalidArgumentError(
        "two numbers (need at least 1 tensor, found 0)");
  }
  Tensor number;
  if (a.tensor() == nullptr) {
    BELAY_ASSIGN_OR_RETURN(number, MakeTensor(a.number(), b.tensor()->dtype()));
  } else if (b.tensor() == nullptr) {
    BELAY_ASSIGN_OR_RETURN(number, MakeTensor(b.number(), a.tensor()->dtype()));
  }
  return Compute(op, a.tensor() != nullptr ? *a.tensor() : number,
                 b.tensor() != nullptr ? *b.tensor() : number);
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

// Computes a > b as b < a. Messages name the operands in the original order.
StatusOr<Tensor> Swapped(std::string_view name, BinaryOp op, const Operand& a,
                         const Operand& b) {
  return Named(name, a, b, ComputeOperands(op, b, a));
}

StatusOr<Tensor> Unary(std::string_view name, UnaryOp op, const Tensor& a) {
  const ElementKernel kernel = VisitScalarType(
      a.dtype(), [&]<typename T>(ScalarType<T>) { return FindUnary<T>(op); });
  if (kernel.run == nullptr) {
    return Status(absl::StatusCode::kUnimplemented,
                  Cat(name, " \"", OperandText(a),
                      "\": ", NotDefined(a.dtype()).message()));
  }
  Tensor result(kernel.result, a.shape());
  kernel.run(
      {.a = a.data(), .result = result.data(), .count = a.num_elements()});
  return result;
}

// Matrix products.

template <typename T>
using Matrix =
    Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// The type in which products are summed: an unsigned type for integers, because
// its overflow is defined, and f32 for half precision.
template <typename T>
using SumType = std::conditional_t<kIsInteger<T>, Unsigned<T>, Real<T>>;

template <typename T>
auto MapMatrix(const Tensor& a) {
  return Eigen::Map<const Matrix<T>>(reinterpret_cast<const T*>(a.data()),
                                     a.shape()[0], a.shape()[1]);
}

template <typename Wide>
void MultiplyWide(Eigen::Ref<const Matrix<Wide>> a,
                  Eigen::Ref<const Matrix<Wide>> b,
                  Eigen::Ref<Matrix<Wide>> product) {
  product.noalias() = a * b;
}

template <typename T>
void Multiply(const Tensor& a, const Tensor& b, Tensor& result) {
  using Wide = SumType<T>;
  Eigen::Map<Matrix<T>> product(reinterpret_cast<T*>(result.data()),
                                result.shape()[0], result.shape()[1]);
  if constexpr (std::is_same_v<T, Wide>) {
    MultiplyWide<Wide>(MapMatrix<T>(a), MapMatrix<T>(b), product);
  } else {
    const Matrix<Wide> left = MapMatrix<T>(a).template cast<Wide>();
    const Matrix<Wide> right = MapMatrix<T>(b).template cast<Wide>();
    Matrix<Wide> sums(left.rows(), right.cols());
    MultiplyWide<Wide>(left, right, sums);
    product = sums.template cast<T>();
  }
}

Status CheckShapes(const Tensor& a, const Tensor& b) {
  for (const Tensor* tensor : {&a, &b}) {
    if (tensor->shape().size() == 2) continue;
    return absl::InvalidArgumentError(
        Cat("an operand is not a matrix (need 2 "
            "axes, found ",
            tensor->shape().size(), ")"));
  }
  if (a.shape()[1] == b.shape()[0]) return absl::OkStatus();
  return absl::InvalidArgumentError(
      Cat("the number of columns of the first must equal the number of rows of "
          "the second (need ",
          a.shape()[1], " rows, found ", b.shape()[0], ")"));
}

StatusOr<Tensor> MatMulOrCause(const Tensor& a, const Tensor& b) {
  BELAY_RETURN_IF_ERROR(CheckDTypes(a, b));
  const bool is_defined = VisitScalarType(
      a.dtype(), []<typename T>(ScalarType<T>) { return !kIsBool<T>; });
  if (!is_defined) return NotDefined(a.dtype());
  BELAY_RETURN_IF_ERROR(CheckShapes(a, b));
  const Shape shape = {a.shape()[0], b.shape()[1]};
  BELAY_RETURN_IF_ERROR(CheckedNumElements(shape).status());
  Tensor result(a.dtype(), shape);
  VisitScalarType(a.dtype(), [&]<typename T>(ScalarType<T>) {
    if constexpr (!kIsBool<T>) Multiply<T>(a, b, result);
  });
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
StatusOr<Tensor> MatMul(const Tensor& a, const Tensor& b) {
  return Named("matmul", a, b, MatMulOrCause(a, b));
}

// --- Updates ---

namespace {

// The result is NaN if either element is.
struct Smaller {
  template <typename T>
  T operator()(T x, T d) const {
    return d < x || d != d ? d : x;
  }
};

struct Larger {
  template <typename T>
  T operator()(T x, T d) const {
    return d > x || d != d ? d : x;
  }
};

// x = Function{}(x, d) for each element.
template <typename Function, typename T>
void ForEach(T* x, const T* d, int64_t count) {
  for (int64_t i = 0; i < count; ++i) x[i] = Function{}(x[i], d[i]);
}

template <typename T>
void Apply(UpdateOp op, T* x, const T* d, int64_t count) {
  if (op == UpdateOp::kAdd) return ForEach<Adding<T>>(x, d, count);
  if (op == UpdateOp::kSub) return ForEach<Subtracting<T>>(x, d, count);
  if (op == UpdateOp::kMul) return ForEach<Multiplying<T>>(x, d, count);
  if constexpr (kIsInteger<T>) {
    if (op == UpdateOp::kDiv) return ForEach<WrappingDivide>(x, d, count);
  }
  if (op == UpdateOp::kDiv) return ForEach<std::divides<>>(x, d, count);
  if constexpr (!kIsComplex<T>) {
    if (op == UpdateOp::kMin) return ForEach<Smaller>(x, d, count);
    if (op == UpdateOp::kMax) return ForEach<Larger>(x, d, count);
  }
  assert(false);
}

// Returns the position of the first zero of an integer dtype, if any.
std::optional<int64_t> FindBadDivisor(DType dtype, const std::byte* delta,
                                      int64_t count) {
  return VisitScalarType(
      dtype, [&]<typename T>(ScalarType<T>) -> std::optional<int64_t> {
        if constexpr (kIsInteger<T>) return FindZero<T>(delta, count);
        return std::nullopt;
      });
}

template <typename T>
inline constexpr bool kIsRealFloat = std::is_floating_point_v<Real<T>>;

// Calls visit(ScalarType<T>{}) if the dtype is a real float.
template <typename Visit>
void VisitRealFloat(DType dtype, Visit&& visit) {
  VisitScalarType(dtype, [&]<typename T>(ScalarType<T> scalar) {
    if constexpr (kIsRealFloat<T>) visit(scalar);
  });
}

template <typename T>
void CombineLists(int64_t row_elements, const RowLists& lists,
                  std::byte* result) {
  Eigen::Array<Real<T>, Eigen::Dynamic, 1> sum(row_elements);
  for (size_t list = 0; list + 1 < lists.splits.size(); ++list) {
    sum.setZero();
    double divisor = lists.divisors[list];
    if (divisor != 0) {
      double scale = 1;
      if (!std::isnormal(static_cast<Real<T>>(divisor))) {
        // Converted to Real<T>, the f64 divisor may overflow or underflow.
        scale = 1 / std::exchange(divisor, 1);
      }
      for (int64_t i = lists.splits[list]; i < lists.splits[list + 1]; ++i) {
        sum += MapElements<T>(lists.rows[i], row_elements)
                   .template cast<Real<T>>() *
               static_cast<Real<T>>(lists.weights[i] * scale);
      }
      sum /= static_cast<Real<T>>(divisor);
    }
    MapElements<T>(result, row_elements) = sum.template cast<T>();
    result += row_elements * sizeof(T);
  }
}

}  // namespace

std::string_view UpdateOpName(UpdateOp op) {
  constexpr std::string_view kNames[] = {"update", "add", "sub", "mul",
                                         "div",    "min", "max"};
  const size_t number = static_cast<size_t>(op);
  return number < std::size(kNames) ? kNames[number] : "unknown";
}

bool IsUpdateDefined(UpdateOp op, DType dtype) {
  if (op > UpdateOp::kMax || DTypeSize(dtype) == 0) return false;
  if (op == UpdateOp::kUpdate) return true;
  const bool is_extreme = op == UpdateOp::kMin || op == UpdateOp::kMax;
  return VisitScalarType(dtype, [&]<typename T>(ScalarType<T>) {
    return !kIsBool<T> && !(is_extreme && kIsComplex<T>);
  });
}

Status CheckUpdate(UpdateOp op, DType dtype, const std::byte* delta,
                   int64_t count) {
  if (!IsUpdateDefined(op, dtype)) {
    return absl::UnimplementedError(Cat("update by \"", UpdateOpName(op),
                                        "\": not defined for ",
                                        DTypeName(dtype)));
  }
  if (op != UpdateOp::kDiv) return absl::OkStatus();
  const std::optional<int64_t> bad = FindBadDivisor(dtype, delta, count);
  if (!bad.has_value()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      Cat("update by \"div\": delta ", *bad, " of ", count, " is zero (need a ",
          DTypeName(dtype), " other than 0, found 0)"));
}

void UpdateCheckedElements(UpdateOp op, DType dtype, std::byte* target,
                           const std::byte* delta, int64_t count) {
  if (count == 0) return;
  if (op == UpdateOp::kUpdate) {
    std::memcpy(target, delta, count * DTypeSize(dtype));
    return;
  }
  VisitScalarType(dtype, [&]<typename T>(ScalarType<T>) {
    if constexpr (!kIsBool<T>) {
      Apply(op, reinterpret_cast<T*>(target), reinterpret_cast<const T*>(delta),
            count);
    }
  });
}

bool IsRealFloat(DType dtype) {
  bool is_real_float = false;
  VisitRealFloat(dtype, [&](auto) { is_real_float = true; });
  return is_real_float;
}

double ClipFactor(DType dtype, const std::byte* row, int64_t row_elements,
                  double max_norm) {
  double norm = 0;
  VisitRealFloat(dtype, [&]<typename T>(ScalarType<T>) {
    const auto elements =
        MapElements<T>(row, row_elements).template cast<double>();
    const double squares = elements.square().sum();
    // The squares can overflow or underflow only for f64.
    constexpr double kLeast = 1e-280;
    const bool is_exact = squares > kLeast && squares < 1 / kLeast;
    norm = is_exact ? std::sqrt(squares) : elements.matrix().stableNorm();
  });
  return norm > max_norm ? max_norm / norm : 1;
}

void ScaleRow(DType dtype, std::byte* row, int64_t row_elements,
              double factor) {
  VisitRealFloat(dtype, [&]<typename T>(ScalarType<T>) {
    auto map = MapElements<T>(row, row_elements);
    map = (map.template cast<double>() * factor).template cast<T>();
  });
}

void CombineRows(DType dtype, int64_t row_elements, const RowLists& lists,
                 std::byte* result) {
  VisitRealFloat(dtype, [&]<typename T>(ScalarType<T>) {
    CombineLists<T>(row_elements, lists, result);
  });
}

}  // namespace belay
