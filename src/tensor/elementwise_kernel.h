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

// The elements as an Eigen expression. Of a bool any byte but 0 is true: memory
// that others have filled may hold such bytes, and C++ leaves open what a bool
// of them is.
template <typename T>
auto ElementsOf(const std::byte* data, int64_t count) {
  if constexpr (kIsBool<T>) {
    return MapOf<uint8_t>(data, count) != uint8_t{0};
  } else {
    return MapOf<T>(data, count);
  }
}

// Expression{}(a, b) makes an Eigen expression of two array expressions.
template <typename T, typename Result, typename Expression>
void RunBinary(const ElementLine& line) {
  auto result = MapOf<Result>(line.result, line.count);
  const auto repeated = [&](const std::byte* element) {
    return Eigen::Array<T, Eigen::Dynamic, 1>::Constant(
        line.count, ElementsOf<T>(element, 1).coeff(0));
  };
  if (line.a_repeats) {
    result = Expression{}(repeated(line.a), ElementsOf<T>(line.b, line.count));
  } else if (line.b_repeats) {
    result = Expression{}(ElementsOf<T>(line.a, line.count), repeated(line.b));
  } else {
    result = Expression{}(ElementsOf<T>(line.a, line.count),
                          ElementsOf<T>(line.b, line.count));
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
