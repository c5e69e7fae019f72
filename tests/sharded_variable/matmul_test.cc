#include <gmock/gmock.h>

#include <cmath>
#include <complex>
#include <string>
#include <vector>

#include "arithmetic_oracle.h"
#include "belay/arrays/tensor_arithmetic.h"

namespace belay::matmul_test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

template <typename T>
class MatMulTest : public ::testing::Test {};
using Types = ::testing::Types<int8_t, int16_t, int32_t, int64_t, uint8_t,
                               uint16_t, uint32_t, uint64_t, float, double>;
TYPED_TEST_SUITE(MatMulTest, Types);

// Small whole numbers, of which floats hold every sum exactly.
template <typename T>
Tensor WholeNumbers(TensorDraw& draw, const Shape& shape) {
  Tensor tensor = draw.Values<T>(shape);
  if constexpr (std::is_floating_point_v<T>) {
    for (T& value : tensor.values<T>()) value = std::round(value);
  }
  return tensor;
}

// Integers keep the low bits of the exact sum.
TYPED_TEST(MatMulTest, IsWhatLoopsGive) {
  using T = TypeParam;
  __extension__ using Wide = unsigned __int128;
  using Sum = std::conditional_t<std::is_integral_v<T>, Wide, double>;
  TensorDraw draw(9);
  for (int round = 0; round < 60; ++round) {
    const int64_t rows = draw.Number(0, 12), inner = draw.Number(0, 20);
    const int64_t columns = draw.Number(0, 12);
    const Tensor a = WholeNumbers<T>(draw, {rows, inner});
    const Tensor b = WholeNumbers<T>(draw, {inner, columns});
    Tensor expected(DTypeOf<T>(), {rows, columns});
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        Sum sum = 0;
        for (int64_t k = 0; k < inner; ++k) {
          sum += static_cast<Sum>(a.values<T>()[i * inner + k]) *
                 static_cast<Sum>(b.values<T>()[k * columns + j]);
        }
        expected.values<T>()[i * columns + j] = static_cast<T>(sum);
      }
    }
    const StatusOr<Tensor> found = MatMul(a, b);
    ASSERT_TRUE(found.ok()) << found.status();
    ASSERT_EQ(found->shape(), expected.shape());
    for (int64_t i = 0; i < expected.num_elements(); ++i) {
      ASSERT_EQ(found->values<T>()[i], expected.values<T>()[i]);
    }
  }
}

TEST(MatMulTest, ComplexNumbers) {
  using C = std::complex<double>;
  const Tensor a = Tensor::Of<C>({1, 2}, {C{1, 2}, C{0, 1}});
  const Tensor b = Tensor::Of<C>({2, 1}, {C{3, 0}, C{0, 1}});
  EXPECT_THAT(MatMul(a, b)->values<C>(), ElementsAre(C{2, 6}));
}

// 256 ones and more: the sum in bf16 would stop at 256.
template <typename T>
void CheckHalf(uint16_t (*bits)(float)) {
  Tensor a(DTypeOf<T>(), {2, 1024}), b(DTypeOf<T>(), {1024, 1});
  for (T& value : a.values<T>()) value.bits = bits(1);
  for (T& value : b.values<T>()) value.bits = bits(1);
  const Tensor product = MatMul(a, b).value();
  for (const T& value : product.values<T>()) EXPECT_EQ(value.bits, bits(1024));
}

TEST(MatMulTest, HalfPrecisionIsSummedAsF32) {
  CheckHalf<Float16>(HalfBits);
  CheckHalf<BFloat16>(BFloatBits);
}

TEST(MatMulTest, AnEmptySumIsZero) {
  const Tensor product =
      MatMul(Tensor(DType::kF32, {40, 0}), Tensor(DType::kF32, {0, 40}))
          .value();
  EXPECT_EQ(product.num_elements(), 1600);
  EXPECT_THAT(product.values<float>(), Each(0));
}

TEST(MatMulTest, ChecksItsOperands) {
  const Tensor a(DType::kF32, {2, 3});
  EXPECT_EQ(
      MatMul(a, a).status(),
      absl::InvalidArgumentError(
          "matmul \"f32 [2, 3]\" and \"f32 [2, 3]\": the number of columns "
          "of the first must equal the number of rows of the second "
          "(need 3 rows, found 2)"));
  EXPECT_EQ(
      MatMul(a, Tensor(DType::kF32, {3})).status(),
      absl::InvalidArgumentError(
          "matmul \"f32 [2, 3]\" and \"f32 [3]\": an operand is not a matrix "
          "(need 2 axes, found 1)"));
  EXPECT_EQ(MatMul(a, Tensor(DType::kF64, {3, 2})).status(),
            absl::InvalidArgumentError(
                "matmul \"f32 [2, 3]\" and \"f64 [3, 2]\": the dtypes differ "
                "(need equal ones, found f32 and f64)"));
}

}  // namespace
}  // namespace belay::matmul_test
