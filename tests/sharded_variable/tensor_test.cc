#include "belay/arrays/tensor.h"

#include <gmock/gmock.h>

#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "belay/arrays/tensor_arithmetic.h"
#include "sanitizers.h"

namespace belay::tensor_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(TensorTest, HoldsTheValuesItWasMadeOf) {
  const Tensor tensor = Tensor::Of<int32_t>({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(tensor.dtype(), DType::kI32);
  EXPECT_THAT(tensor.shape(), ElementsAre(2, 3));
  EXPECT_EQ(tensor.num_elements(), 6);
  EXPECT_EQ(tensor.num_bytes(), 24);
  EXPECT_THAT(tensor.values<int32_t>(), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(TensorTest, AScalarHasOneElementAndAnEmptyTensorNone) {
  EXPECT_THAT(Tensor::Of<double>({}, {2.5}).values<double>(), ElementsAre(2.5));
  EXPECT_THAT((Tensor(DType::kF32, {0, 4}).values<float>()), IsEmpty());
  EXPECT_THAT(Tensor().values<float>(), IsEmpty());
}

// 2^62 f32 have 2^64 bytes, which is 0 in 64 bits.
TEST(TensorTest, BytesBeyond64BitsAreNoMemory) {
  if (!testing::kCanRunOutOfMemory) GTEST_SKIP() << testing::kEndsWithoutMemory;
  const int64_t many = int64_t{1} << 62;
  EXPECT_THROW(Tensor(DType::kF32, {many}), std::bad_alloc);
  EXPECT_THROW(Tensor(DType::kF64, {many}), std::bad_alloc);
  EXPECT_THROW(Tensor(DType::kU8, {many}), std::bad_alloc);
  const Tensor a(DType::kF32, {many / 2, 0});
  const Tensor b(DType::kF32, {0, 2});
  EXPECT_THROW(MatMul(a, b).IgnoreError(), std::bad_alloc);
}

// What a throwing function says.
template <typename Function>
std::string Thrown(Function function) {
  try {
    function();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

TEST(TensorTest, AWrongNumberOfValuesThrows) {
  EXPECT_EQ(Thrown([] {
              Tensor::Of<float>({2, 2}, {1, 2, 3});
            }),
            "make a tensor of shape [2, 2]: wrong number of values (need 4, "
            "found 3)");
}

TEST(TensorTest, ValuesOfAnotherDTypeThrowInEveryBuild) {
  Tensor tensor(DType::kI32, {2});
  EXPECT_EQ(Thrown([&] { tensor.values<double>(); }),
            "values of a tensor: another dtype (need f64, found i32)");
  EXPECT_EQ(Thrown([&] { std::as_const(tensor).values<float>(); }),
            "values of a tensor: another dtype (need f32, found i32)");
}

TEST(TensorTest, ACopyIsIndependent) {
  const std::vector<float> source = {1, 2};
  Tensor tensor = Tensor::CopyOf(DType::kF32, {2}, source.data());
  const Tensor clone = tensor.Clone();
  tensor.values<float>()[0] = 7;
  EXPECT_THAT(source, ElementsAre(1, 2));
  EXPECT_THAT(clone.values<float>(), ElementsAre(1, 2));
  EXPECT_THAT(tensor.values<float>(), ElementsAre(7, 2));
}

}  // namespace
}  // namespace belay::tensor_test
