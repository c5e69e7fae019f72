// How the families of inner loops are made from Eigen expressions.

#ifndef BELAY_TENSOR_ELEMENTWISE_KERNEL_H_
#define BELAY_TENSOR_ELEMENTWISE_KERNEL_H_

#include "tensor/eigen_types.h"
#include "tensor/elementwise.h"

namespace belay {

// The DType of an Eigen scalar.
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

// Expression{}(a, b) makes an Eigen expression of two array expressions.
template <typename T, typename Result, typename Expression>
void RunBinary(const ElementLine& line) {
  auto result = MapOf<Result>(line.result, line.count);
  const auto repeated = [&](const std::byte* element) {
    return Eigen::Array<T, Eigen::Dynamic, 1>::Constant(
        line.count, *reinterpret_cast<const T*>(element));
  };
  if (line.a_repeats) {
    result = Expression{}(repeated(line.a), MapOf<T>(line.b, line.count));
  } else if (line.b_repeats) {
    result = Expression{}(MapOf<T>(line.a, line.count), repeated(line.b));
  } else {
    result = Expression{}(MapOf<T>(line.a, line.count),
                          MapOf<T>(line.b, line.count));
  }
}

template <typename T, typename Result, typename Expression>
ElementKernel BinaryKernel() {
  return {RunBinary<T, Result, Expression>, DTypeOfScalar<Result>()};
}

// The expression that applies Function{}(x, y) to each pair of elements.
template <typename Function>
struct Each {
  template <typename A, typename B>
  auto operator()(const A& a, const B& b) const {
    return a.binaryExpr(b, Function{});
  }
};

}  // namespace belay

#endif  // BELAY_TENSOR_ELEMENTWISE_KERNEL_H_
