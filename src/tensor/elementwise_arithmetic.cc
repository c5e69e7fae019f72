#include "tensor/elementwise_kernel.h"

namespace belay {
namespace {

struct Sum {
  template <typename A, typename B>
  auto operator()(const A& a, const B& b) const {
    return a + b;
  }
};

struct Difference {
  template <typename A, typename B>
  auto operator()(const A& a, const B& b) const {
    return a - b;
  }
};

struct Product {
  template <typename A, typename B>
  auto operator()(const A& a, const B& b) const {
    return a * b;
  }
};

template <typename Real>
struct Quotient {
  template <typename A, typename B>
  auto operator()(const A& a, const B& b) const {
    return a.template cast<Real>() / b.template cast<Real>();
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
  constexpr bool kWraps = kIsInteger<T>;
  switch (op) {
    case BinaryOp::kAdd:
      return BinaryKernel<T, T,
                          std::conditional_t<kWraps, Each<WrappingAdd>, Sum>>();
    case BinaryOp::kSubtract:
      return BinaryKernel<
          T, T,
          std::conditional_t<kWraps, Each<WrappingSubtract>, Difference>>();
    case BinaryOp::kMultiply:
      return BinaryKernel<
          T, T, std::conditional_t<kWraps, Each<WrappingMultiply>, Product>>();
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
