#include <functional>

#include "tensor/elementwise_kernel.h"

namespace belay {
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

}  // namespace belay
