#include <type_traits>

#include "tensor/elementwise_kernel.h"

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

}  // namespace belay
