#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "sharded_variable/update.h"

namespace belay::combine_rows_test {
namespace {

const std::byte* Bytes(const float* values) {
  return reinterpret_cast<const std::byte*>(values);
}

TEST(CombineRows, OnlyRealFloatsAreReal) {
  for (DType dtype : {DType::kF16, DType::kBF16, DType::kF32, DType::kF64}) {
    EXPECT_TRUE(IsRealFloat(dtype)) << DTypeName(dtype);
  }
  for (DType dtype :
       {DType::kF8E4M3, DType::kF8E5M2, DType::kI8, DType::kI64, DType::kU32,
        DType::kBool, DType::kC64, DType::kC128, DType::kString}) {
    EXPECT_FALSE(IsRealFloat(dtype)) << DTypeName(dtype);
  }
}

TEST(CombineRows, TheFactorTakesALongRowToTheNorm) {
  const float row[] = {3, 4};
  EXPECT_EQ(ClipFactor(DType::kF32, Bytes(row), 2, 5), 1);
  EXPECT_EQ(ClipFactor(DType::kF32, Bytes(row), 2, 6), 1);
  EXPECT_EQ(ClipFactor(DType::kF32, Bytes(row), 2, 1), 0.2);
  EXPECT_EQ(ClipFactor(DType::kF32, Bytes(row), 0, 1), 1);
  const float zeros[] = {0, 0};
  EXPECT_EQ(ClipFactor(DType::kF32, Bytes(zeros), 2, 1), 1);
}

TEST(CombineRows, SquaresOfLargeNumbersDoNotOverflow) {
  const float row[] = {1e30F, 0};
  EXPECT_FLOAT_EQ(static_cast<float>(ClipFactor(DType::kF32, Bytes(row), 2, 1)),
                  1e-30F);
}

TEST(CombineRows, NormsOfVeryLargeAndVerySmallNumbersAreExact) {
  for (double unit : {1e200, 1e-200}) {
    const double row[] = {3 * unit, -4 * unit};
    const auto* bytes = reinterpret_cast<const std::byte*>(row);
    EXPECT_DOUBLE_EQ(ClipFactor(DType::kF64, bytes, 2, unit), 0.2);
    EXPECT_EQ(ClipFactor(DType::kF64, bytes, 2, 6 * unit), 1);
  }
}

// Weights may be f64 where the rows are f32.
TEST(CombineRows, WeightsMayBeBeyondTheRowsDtype) {
  const float a[] = {1};
  const float b[] = {3};
  const std::vector<int64_t> splits = {0, 2};
  const std::vector<const std::byte*> rows = {Bytes(a), Bytes(b)};
  for (double unit : {1e-60, 1.0, 1e60}) {
    const std::vector<double> weights = {unit, unit};
    const std::vector<double> divisors = {2 * unit};
    float mean = -1;
    CombineRows(DType::kF32, 1,
                {.splits = splits,
                 .rows = rows,
                 .weights = weights,
                 .divisors = divisors},
                reinterpret_cast<std::byte*>(&mean));
    EXPECT_FLOAT_EQ(mean, 2) << unit;
  }
}

TEST(CombineRows, RowsAreScaledInPlace) {
  float row[] = {3, -4, 7};
  ScaleRow(DType::kF32, reinterpret_cast<std::byte*>(row), 2, 0.5);
  EXPECT_EQ(row[0], 1.5F);
  EXPECT_EQ(row[1], -2);
  EXPECT_EQ(row[2], 7);
}

TEST(CombineRows, ListsBecomeWeightedSums) {
  const float a[] = {1, 2};
  const float b[] = {10, 20};
  const std::vector<int64_t> splits = {0, 2, 2, 3, 5};
  const std::vector<const std::byte*> rows = {Bytes(a), Bytes(b), Bytes(b),
                                              Bytes(a), Bytes(a)};
  const std::vector<double> weights = {2, 3, 1, 1, -1};
  const std::vector<double> divisors = {4, 7, 1, 0};
  std::vector<float> result(8, -1);
  CombineRows(DType::kF32, 2,
              {.splits = splits,
               .rows = rows,
               .weights = weights,
               .divisors = divisors},
              reinterpret_cast<std::byte*>(result.data()));
  EXPECT_EQ(result, (std::vector<float>{8, 16, 0, 0, 10, 20, 0, 0}));
}

TEST(CombineRows, SmallFloatsAreSummedAsF32) {
  // 2048 + 1 + 1 is 2048 in f16 if each sum is rounded.
  const uint16_t big = 0x6800;
  const uint16_t one = 0x3c00;
  const auto bytes = [](const uint16_t& half) {
    return reinterpret_cast<const std::byte*>(&half);
  };
  const std::vector<int64_t> splits = {0, 3};
  const std::vector<const std::byte*> rows = {bytes(big), bytes(one),
                                              bytes(one)};
  const std::vector<double> weights = {1, 1, 1};
  const std::vector<double> divisors = {1};
  uint16_t result = 0;
  CombineRows(DType::kF16, 1,
              {.splits = splits,
               .rows = rows,
               .weights = weights,
               .divisors = divisors},
              reinterpret_cast<std::byte*>(&result));
  EXPECT_EQ(result, 0x6801);  // 2050
}

}  // namespace
}  // namespace belay::combine_rows_test
