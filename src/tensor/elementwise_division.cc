#include <cmath>

#include "tensor/elementwise_kernel.h"

namespace belay {
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

}  // namespace belay
