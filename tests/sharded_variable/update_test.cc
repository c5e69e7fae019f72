#include "sharded_variable/update.h"

#include <gmock/gmock.h>

#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "belay/arrays/tensor.h"

namespace belay::update_test {
namespace {

using ::testing::ElementsAre;

constexpr UpdateOp kOps[] = {UpdateOp::kUpdate, UpdateOp::kAdd, UpdateOp::kSub,
                             UpdateOp::kMul,    UpdateOp::kDiv, UpdateOp::kMin,
                             UpdateOp::kMax};

Status UpdateElements(UpdateOp op, DType dtype, std::byte* target,
                      const std::byte* delta, int64_t count) {
  const Status status = CheckUpdate(op, dtype, delta, count);
  if (status.ok()) UpdateCheckedElements(op, dtype, target, delta, count);
  return status;
}

template <typename T>
std::vector<T> Updated(UpdateOp op, std::vector<T> x, std::vector<T> delta) {
  const Status status = UpdateElements(
      op, DTypeOf<T>(), reinterpret_cast<std::byte*>(x.data()),
      reinterpret_cast<const std::byte*>(delta.data()), x.size());
  EXPECT_TRUE(status.ok()) << status;
  return x;
}

// One element at a time, in the widest type there is.
template <typename T, typename Wide>
T Oracle(UpdateOp op, T x, T delta) {
  const Wide a = x, b = delta;
  switch (op) {
    case UpdateOp::kUpdate:
      return delta;
    case UpdateOp::kAdd:
      return static_cast<T>(a + b);
    case UpdateOp::kSub:
      return static_cast<T>(a - b);
    case UpdateOp::kMul:
      return static_cast<T>(a * b);
    case UpdateOp::kDiv:
      return static_cast<T>(a / b);
    case UpdateOp::kMin:
      return a < b ? x : delta;
    default:
      return a > b ? x : delta;
  }
}

template <typename T>
class IntegerUpdateTest : public ::testing::Test {};
using Integers = ::testing::Types<int8_t, int16_t, int32_t, int64_t, uint8_t,
                                  uint16_t, uint32_t, uint64_t>;
TYPED_TEST_SUITE(IntegerUpdateTest, Integers);

// Wraps around as the low bits of the exact result do.
TYPED_TEST(IntegerUpdateTest, IsWhatALoopGives) {
  using T = TypeParam;
  __extension__ using Wide = __int128;
  std::mt19937_64 rng(3);
  for (UpdateOp op : kOps) {
    std::vector<T> x(1003), delta(1003), expected;
    for (size_t i = 0; i < x.size(); ++i) {
      x[i] = static_cast<T>(rng());
      delta[i] = static_cast<T>(rng());
      if (delta[i] == 0) delta[i] = 1;
    }
    x[7] = std::numeric_limits<T>::min();
    delta[7] = static_cast<T>(-1);
    for (size_t i = 0; i < x.size(); ++i) {
      expected.push_back(Oracle<T, Wide>(op, x[i], delta[i]));
    }
    EXPECT_EQ(Updated(op, x, delta), expected) << UpdateOpName(op);
  }
}

TYPED_TEST(IntegerUpdateTest, DivisionByZeroIsAnErrorAndChangesNothing) {
  using T = TypeParam;
  std::vector<T> x = {1, 2, 3};
  const std::vector<T> delta = {1, 0, 0};
  const Status status = UpdateElements(
      UpdateOp::kDiv, DTypeOf<T>(), reinterpret_cast<std::byte*>(x.data()),
      reinterpret_cast<const std::byte*>(delta.data()), 3);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(
      std::string(status.message()),
      ::testing::StartsWith("update by \"div\": delta 1 of 3 is zero "));
  EXPECT_THAT(x, ElementsAre(1, 2, 3));
}

TEST(UpdateTest, FloatsAreWhatALoopGives) {
  std::mt19937_64 rng(5);
  std::uniform_real_distribution<float> number(-4, 4);
  for (UpdateOp op : kOps) {
    std::vector<float> x(1003), delta(1003), expected;
    std::vector<double> x64, delta64, expected64;
    for (size_t i = 0; i < x.size(); ++i) {
      x[i] = number(rng);
      delta[i] = number(rng);
      expected.push_back(Oracle<float, float>(op, x[i], delta[i]));
      x64.push_back(x[i]);
      delta64.push_back(delta[i]);
      expected64.push_back(Oracle<double, double>(op, x[i], delta[i]));
    }
    EXPECT_EQ(Updated(op, x, delta), expected) << UpdateOpName(op);
    EXPECT_EQ(Updated(op, x64, delta64), expected64) << UpdateOpName(op);
  }
}

TEST(UpdateTest, MinAndMaxOfANaNAreNaN) {
  const float nan = std::nanf("");
  for (UpdateOp op : {UpdateOp::kMin, UpdateOp::kMax}) {
    const auto x = Updated<float>(op, {nan, 1, nan}, {1, nan, nan});
    for (float value : x) EXPECT_TRUE(std::isnan(value));
  }
}

TEST(UpdateTest, FloatsDivideByZero) {
  EXPECT_THAT(Updated<double>(UpdateOp::kDiv, {1, -1}, {0, 0}),
              ElementsAre(INFINITY, -INFINITY));
}

TEST(UpdateTest, ComplexNumbers) {
  using C = std::complex<double>;
  EXPECT_THAT(Updated<C>(UpdateOp::kMul, {C{1, 2}}, {C{3, 4}}),
              ElementsAre(C{-5, 10}));
  EXPECT_THAT(Updated<C>(UpdateOp::kDiv, {C{-5, 10}}, {C{3, 4}}),
              ElementsAre(C{1, 2}));
  using C32 = std::complex<float>;
  EXPECT_THAT(Updated<C32>(UpdateOp::kSub, {C32{1, 2}}, {C32{3, 4}}),
              ElementsAre(C32{-2, -2}));
}

// 1.5 + 0.25 = 1.75, 1.5 * 0.25 = 0.375 and so on, all exact in both types.
template <typename T>
void CheckHalf(uint16_t one_and_a_half, uint16_t quarter,
               const std::vector<uint16_t>& expected) {
  for (size_t i = 0; i < std::size(kOps); ++i) {
    T x{one_and_a_half};
    const T delta{quarter};
    ASSERT_TRUE(UpdateElements(kOps[i], DTypeOf<T>(),
                               reinterpret_cast<std::byte*>(&x),
                               reinterpret_cast<const std::byte*>(&delta), 1)
                    .ok());
    EXPECT_EQ(x.bits, expected[i]) << UpdateOpName(kOps[i]);
  }
}

TEST(UpdateTest, HalfPrecision) {
  CheckHalf<Float16>(0x3e00, 0x3400,
                     {0x3400, 0x3f00, 0x3d00, 0x3600, 0x4600, 0x3400, 0x3e00});
  CheckHalf<BFloat16>(0x3fc0, 0x3e80,
                      {0x3e80, 0x3fe0, 0x3fa0, 0x3ec0, 0x40c0, 0x3e80, 0x3fc0});
}

// A component may begin at any multiple of the element's size.
TEST(UpdateTest, NeedsNoMoreThanTheElementsAlignment) {
  std::vector<float> x = {0, 1, 2, 3, 4, 5, 6, 7, 8};
  const std::vector<float> delta = {9, 9, 1, 1, 1, 1, 1, 1, 1, 9};
  ASSERT_TRUE(
      UpdateElements(UpdateOp::kAdd, DType::kF32,
                     reinterpret_cast<std::byte*>(x.data() + 1),
                     reinterpret_cast<const std::byte*>(delta.data() + 2), 7)
          .ok());
  EXPECT_THAT(x, ElementsAre(0, 2, 3, 4, 5, 6, 7, 8, 8));
}

TEST(UpdateTest, WhichOpsAreDefined) {
  for (UpdateOp op : kOps) {
    const bool is_update = op == UpdateOp::kUpdate;
    const bool is_extreme = op == UpdateOp::kMin || op == UpdateOp::kMax;
    EXPECT_FALSE(IsUpdateDefined(op, DType::kString));
    for (DType dtype : {DType::kBool, DType::kF8E4M3, DType::kF8E5M2}) {
      EXPECT_EQ(IsUpdateDefined(op, dtype), is_update) << UpdateOpName(op);
    }
    for (DType dtype : {DType::kC64, DType::kC128}) {
      EXPECT_EQ(IsUpdateDefined(op, dtype), !is_extreme) << UpdateOpName(op);
    }
    for (DType dtype : {DType::kF16, DType::kBF16, DType::kF32, DType::kF64,
                        DType::kI8, DType::kI16, DType::kI32, DType::kI64,
                        DType::kU8, DType::kU16, DType::kU32, DType::kU64}) {
      EXPECT_TRUE(IsUpdateDefined(op, dtype)) << UpdateOpName(op);
    }
  }
  EXPECT_FALSE(IsUpdateDefined(static_cast<UpdateOp>(7), DType::kF32));
}

TEST(UpdateTest, RefusesWhatIsNotDefined) {
  std::byte x{1};
  const std::byte delta{0};
  EXPECT_EQ(
      UpdateElements(UpdateOp::kAdd, DType::kF8E4M3, &x, &delta, 1),
      absl::UnimplementedError("update by \"add\": not defined for f8e4m3"));
  EXPECT_EQ(UpdateElements(UpdateOp::kMax, DType::kBool, &x, &delta, 1).code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_EQ(x, std::byte{1});
  ASSERT_TRUE(
      UpdateElements(UpdateOp::kUpdate, DType::kBool, &x, &delta, 1).ok());
  EXPECT_EQ(x, std::byte{0});
}

TEST(UpdateTest, NothingIsUpdatedByNothing) {
  for (UpdateOp op : kOps) {
    EXPECT_TRUE(UpdateElements(op, DType::kI32, nullptr, nullptr, 0).ok());
  }
}

}  // namespace
}  // namespace belay::update_test
