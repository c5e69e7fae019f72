#include "tensor/elementwise_kernel.h"

namespace belay {
namespace {

struct IsLess {
  template <typename A, typename B>
  auto operator()(const A& a, const B& b) const {
    return a < b;
  }
};

struct IsLessEqual {
  template <typename A, typename B>
  auto operator()(const A& a, const B& b) const {
    return a <= b;
  }
};

struct IsEqual {
  template <typename A, typename B>
  auto operator()(const A& a, const B& b) const {
    return a == b;
  }
};

struct IsNotEqual {
  template <typename A, typename B>
  auto operator()(const A& a, const B& b) const {
    return a != b;
  }
};

template <typename T>
ElementKernel FindComparison(BinaryOp op) {
  if constexpr (!kIsBool<T> && !kIsComplex<T>) {
    if (op == BinaryOp::kLess) return BinaryKernel<T, bool, IsLess>();
    if (op == BinaryOp::kLessEqual) return BinaryKernel<T, bool, IsLessEqual>();
  }
  if (op == BinaryOp::kEqual) return BinaryKernel<T, bool, IsEqual>();
  if (op == BinaryOp::kNotEqual) return BinaryKernel<T, bool, IsNotEqual>();
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

}  // namespace belay
