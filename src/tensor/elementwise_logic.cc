#include <cmath>
#include <functional>

#include "tensor/elementwise_kernel.h"

namespace belay {
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
