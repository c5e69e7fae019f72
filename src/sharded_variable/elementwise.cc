#include "sharded_variable/elementwise.h"

#include <cmath>
#include <functional>
#include <type_traits>

namespace belay {
namespace {

template <typename Real>
struct Quotient {
  template <typename T>
  Real operator()(const T& a, const T& b) const {
    return static_cast<Real>(a) / static_cast<Real>(b);
  }
};

// What integers become before they are divided.
template <typename T>
using QuotientType =
    std::conditional_t<!kIsInteger<T>, T,
                       std::conditional_t<sizeof(T) <= 2, float, double>>;

template <typename T>
ElementKernel FindArithmetic(BinaryOp op) {
  using Q = QuotientType<T>;
  switch (op) {
    case BinaryOp::kAdd:
      return BinaryKernel<T, T, AddOf<T>>();
    case BinaryOp::kSubtract:
      return BinaryKernel<T, T, SubtractOf<T>>();
    case BinaryOp::kMultiply:
      return BinaryKernel<T, T, MultiplyOf<T>>();
    case BinaryOp::kDivide:
      return BinaryKernel<T, Q, Quotient<Q>>();
    default:
      return {};
  }
}

}  // namespace

ElementKernel FindArithmetic(BinaryOp op, DType dtype) {
  return VisitScalarType(
      dtype,
      [&](auto scalar) -> ElementKernel {
        using T = typename decltype(scalar)::type;
        if constexpr (kIsBool<T>) {
          return {};
        } else {
          return FindArithmetic<T>(op);
        }
      },
      [] { return ElementKernel{}; });
}

// --- Elementwise comparison ---

namespace {

template <typename T>
ElementKernel FindComparison(BinaryOp op) {
  if constexpr (!kIsBool<T> && !kIsComplex<T>) {
    if (op == BinaryOp::kLess) return BinaryKernel<T, bool, std::less<>>();
    if (op == BinaryOp::kLessEqual)
      return BinaryKernel<T, bool, std::less_equal<>>();
  }
  if (op == BinaryOp::kEqual) return BinaryKernel<T, bool, std::equal_to<>>();
  if (op == BinaryOp::kNotEqual)
    return BinaryKernel<T, bool, std::not_equal_to<>>();
  return {};
}

}  // namespace

ElementKernel FindComparison(BinaryOp op, DType dtype) {
  return VisitScalarType(
      dtype,
      [&](auto scalar) {
        return FindComparison<typename decltype(scalar)::type>(op);
      },
      [] { return ElementKernel{}; });
}

// --- Elementwise division ---

namespace {

template <typename T>
inline constexpr bool kIsHalf =
    std::is_same_v<T, Eigen::half> || std::is_same_v<T, Eigen::bfloat16>;

// Half precision is computed as f32.
template <typename T>
using Real = std::conditional_t<kIsHalf<T>, float, T>;

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
        if (b == -1) return 0;  // the processor traps on the smallest a
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
        if (power & 1) result = WrappingMultiply{}(result, square);
        square = WrappingMultiply{}(square, square);
      }
      return result;
    } else {
      return static_cast<T>(
          std::pow(static_cast<Real<T>>(a), static_cast<Real<T>>(b)));
    }
  }
};

template <typename T>
ElementKernel FindDivision(BinaryOp op) {
  if (op == BinaryOp::kPower) return BinaryKernel<T, T, ToThePower>();
  if constexpr (!kIsComplex<T>) {
    if (op == BinaryOp::kFloorDivide) {
      return BinaryKernel<T, T, FloorQuotient>();
    }
    if (op == BinaryOp::kModulo) {
      return BinaryKernel<T, T, FloorRemainder>();
    }
  }
  return {};
}

}  // namespace

ElementKernel FindDivision(BinaryOp op, DType dtype) {
  return VisitScalarType(
      dtype,
      [&](auto scalar) -> ElementKernel {
        using T = typename decltype(scalar)::type;
        if constexpr (kIsBool<T>) {
          return {};
        } else {
          return FindDivision<T>(op);
        }
      },
      [] { return ElementKernel{}; });
}

// --- Elementwise logic ---

namespace {

template <typename Function>
struct Bits {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(Function{}(a, b));
  }
};

template <typename T>
ElementKernel FindLogicOf(BinaryOp op) {
  switch (op) {
    case BinaryOp::kAnd:
      return BinaryKernel<T, T, Bits<std::bit_and<>>>();
    case BinaryOp::kOr:
      return BinaryKernel<T, T, Bits<std::bit_or<>>>();
    case BinaryOp::kXor:
      return BinaryKernel<T, T, Bits<std::bit_xor<>>>();
    default:
      return {};
  }
}

// Function{}(x) gives the result for each element.
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
ElementKernel UnaryKernel() {
  return {RunUnary<T, Result, Function>, DTypeOfScalar<Result>()};
}

struct Magnitude {
  template <typename T>
  auto operator()(const T& a) const {
    if constexpr (!kIsInteger<T>) {
      return Eigen::numext::abs(a);
    } else if constexpr (std::is_signed_v<T>) {
      return a < 0 ? WrappingSubtract{}(T{0}, a) : a;
    } else {
      return a;
    }
  }
};

struct Opposite {
  template <typename T>
  T operator()(const T& a) const {
    if constexpr (kIsInteger<T>) {
      return WrappingSubtract{}(T{0}, a);
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
ElementKernel FindUnaryOf(UnaryOp op) {
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

}  // namespace

ElementKernel FindLogic(BinaryOp op, DType dtype) {
  return VisitScalarType(
      dtype,
      [&](auto scalar) -> ElementKernel {
        using T = typename decltype(scalar)::type;
        if constexpr (kIsBool<T> || kIsInteger<T>) return FindLogicOf<T>(op);
        return {};
      },
      [] { return ElementKernel{}; });
}

ElementKernel FindUnary(UnaryOp op, DType dtype) {
  return VisitScalarType(
      dtype,
      [&](auto scalar) {
        return FindUnaryOf<typename decltype(scalar)::type>(op);
      },
      [] { return ElementKernel{}; });
}

ElementKernel FindBinary(BinaryOp op, DType dtype) {
  for (const auto find :
       {FindArithmetic, FindDivision, FindLogic, FindComparison}) {
    const ElementKernel kernel = find(op, dtype);
    if (kernel.run != nullptr) return kernel;
  }
  return {};
}

}  // namespace belay
