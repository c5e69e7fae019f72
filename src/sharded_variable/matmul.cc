#include <cstddef>

#include "belay/arrays/tensor_arithmetic.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "sharded_variable/eigen_types.h"
#include "sharded_variable/tensor_arithmetic.h"

namespace belay {
namespace {

template <typename T>
using Matrix =
    Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// What the products are summed as: integers as unsigned ones, in which overflow
// is defined, and half precision as f32.
template <typename T, bool kInteger = kIsInteger<T>>
struct SumType {
  using type = T;
};
template <typename T>
struct SumType<T, true> {
  using type = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
};
template <>
struct SumType<Eigen::half, false> {
  using type = float;
};
template <>
struct SumType<Eigen::bfloat16, false> {
  using type = float;
};

template <typename T>
auto MatrixOf(const Tensor& a) {
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
  using Wide = typename SumType<T>::type;
  Eigen::Map<Matrix<T>> product(reinterpret_cast<T*>(result.data()),
                                result.shape()[0], result.shape()[1]);
  if constexpr (std::is_same_v<T, Wide>) {
    MultiplyWide<Wide>(MatrixOf<T>(a), MatrixOf<T>(b), product);
  } else {
    const Matrix<Wide> left = MatrixOf<T>(a).template cast<Wide>();
    const Matrix<Wide> right = MatrixOf<T>(b).template cast<Wide>();
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
  if (a.dtype() != b.dtype()) {
    return absl::InvalidArgumentError(
        Cat("the dtypes differ (need equal ones, found ", DTypeName(a.dtype()),
            " and ", DTypeName(b.dtype()), ")"));
  }
  const Status not_defined =
      absl::UnimplementedError(Cat("not defined for ", DTypeName(a.dtype())));
  if (a.dtype() == DType::kBool) return not_defined;
  BELAY_RETURN_IF_ERROR(CheckShapes(a, b));
  const Shape shape = {a.shape()[0], b.shape()[1]};
  BELAY_RETURN_IF_ERROR(CheckedNumElements(shape).status());
  Tensor result(a.dtype(), shape);
  BELAY_RETURN_IF_ERROR(VisitScalarType(
      a.dtype(),
      [&](auto scalar) -> Status {
        using T = typename decltype(scalar)::type;
        if constexpr (!kIsBool<T>) Multiply<T>(a, b, result);
        return absl::OkStatus();
      },
      [&] { return not_defined; }));
  return result;
}

}  // namespace

StatusOr<Tensor> MatMul(const Tensor& a, const Tensor& b) {
  StatusOr<Tensor> product = MatMulOrCause(a, b);
  if (product.ok()) return product;
  return Status(product.status().code(),
                Cat("matmul \"", OperandText(a), "\" and \"", OperandText(b),
                    "\": ", product.status().message()));
}

}  // namespace belay
