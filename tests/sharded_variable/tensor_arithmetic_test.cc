#include "belay/arrays/tensor_arithmetic.h"

#include <gmock/gmock.h>

#include <cmath>
#include <complex>
#include <limits>
#include <string>
#include <vector>

#include "arithmetic_oracle.h"

namespace belay::tensor_arithmetic_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using C64 = std::complex<float>;

// Shapes of two operands and of their result.
struct Shapes {
  Shape a, b, result;
};

Shapes DrawShapes(TensorDraw& draw) {
  Shapes shapes;
  shapes.result = draw.AnyShape();
  shapes.a = draw.AnySmaller(shapes.result);
  shapes.b = draw.AnySmaller(shapes.result);
  Shape& fuller = draw.Number(0, 1) == 0 ? shapes.a : shapes.b;
  fuller = shapes.result;
  return shapes;
}

template <typename Result, typename T, typename Function>
void Check(const char* name, const StatusOr<Tensor>& found, const Shape& shape,
           const Tensor& a, const Tensor& b, Function function) {
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_TRUE(Same(*found, Applied<Result, T>(shape, a, b, function)))
      << name << " of " << ShapeText(a.shape()) << " and "
      << ShapeText(b.shape());
}

template <typename T>
void CheckComparisons(const Shape& shape, const Tensor& a, const Tensor& b) {
  Check<bool, T>("<", a < b, shape, a, b, [](T x, T y) { return x < y; });
  Check<bool, T>("<=", a <= b, shape, a, b, [](T x, T y) { return x <= y; });
  Check<bool, T>(">", a > b, shape, a, b, [](T x, T y) { return x > y; });
  Check<bool, T>(">=", a >= b, shape, a, b, [](T x, T y) { return x >= y; });
  Check<bool, T>("==", a == b, shape, a, b, [](T x, T y) { return x == y; });
  Check<bool, T>("!=", a != b, shape, a, b, [](T x, T y) { return x != y; });
}

template <typename T>
class IntegerArithmeticTest : public ::testing::Test {};
using Integers = ::testing::Types<int8_t, int16_t, int32_t, int64_t, uint8_t,
                                  uint16_t, uint32_t, uint64_t>;
TYPED_TEST_SUITE(IntegerArithmeticTest, Integers);

// Exact results, of which T keeps the low bits.
__extension__ using Wide = __int128;

template <typename T>
T FloorOf(T x, T y) {
  Wide quotient = Wide{x} / y;
  if (quotient * y != x && (x < 0) != (y < 0)) --quotient;
  return static_cast<T>(quotient);
}

TYPED_TEST(IntegerArithmeticTest, IsWhatLoopsGive) {
  using T = TypeParam;
  using Q = std::conditional_t<sizeof(T) <= 2, float, double>;
  TensorDraw draw(sizeof(T));
  for (int round = 0; round < 300; ++round) {
    const auto [a_shape, b_shape, shape] = DrawShapes(draw);
    Tensor a = draw.Values<T>(a_shape);
    Tensor b = draw.Values<T>(b_shape, /*may_be_zero=*/false);
    if (round % 4 == 0 && a.num_elements() > 0 && b.num_elements() > 0) {
      a.values<T>()[0] = std::numeric_limits<T>::min();
      b.values<T>()[0] = static_cast<T>(-1);
    }
    Check<T, T>("+", a + b, shape, a, b,
                [](T x, T y) { return static_cast<T>(Wide{x} + y); });
    Check<T, T>("-", a - b, shape, a, b,
                [](T x, T y) { return static_cast<T>(Wide{x} - y); });
    Check<T, T>("*", a * b, shape, a, b,
                [](T x, T y) { return static_cast<T>(Wide{x} * y); });
    Check<Q, T>("/", a / b, shape, a, b,
                [](T x, T y) { return static_cast<Q>(x) / static_cast<Q>(y); });
    Check<T, T>("//", FloorDivide(a, b), shape, a, b, FloorOf<T>);
    Check<T, T>("%", a % b, shape, a, b, [](T x, T y) {
      return static_cast<T>(x - Wide{FloorOf<T>(x, y)} * y);
    });
    Check<T, T>("&", a & b, shape, a, b, [](T x, T y) -> T { return x & y; });
    Check<T, T>("|", a | b, shape, a, b, [](T x, T y) -> T { return x | y; });
    Check<T, T>("^", a ^ b, shape, a, b, [](T x, T y) -> T { return x ^ y; });
    CheckComparisons<T>(shape, a, b);
  }
}

TYPED_TEST(IntegerArithmeticTest, Powers) {
  using T = TypeParam;
  const Tensor a = Tensor::Of<T>({4}, {0, 1, 3, static_cast<T>(-2)});
  const Tensor powers = Tensor::Of<T>({3, 1}, {0, 1, 5});
  EXPECT_THAT(Power(a, powers)->template values<T>(),
              ElementsAre(1, 1, 1, 1, 0, 1, 3, static_cast<T>(-2), 0, 1,
                          static_cast<T>(243), static_cast<T>(-32)));
}

TYPED_TEST(IntegerArithmeticTest, OneOperand) {
  using T = TypeParam;
  constexpr T kLeast = std::numeric_limits<T>::min();
  const Tensor a = Tensor::Of<T>({2, 2}, {0, 7, static_cast<T>(-7), kLeast});
  EXPECT_THAT((-a)->template values<T>(),
              ElementsAre(0, static_cast<T>(-7), 7, kLeast));
  EXPECT_THAT((~a)->template values<T>(),
              ElementsAre(static_cast<T>(~T{0}), static_cast<T>(~T{7}), T{6},
                          std::numeric_limits<T>::max()));
  const T magnitude = std::is_signed_v<T> ? T{7} : static_cast<T>(-7);
  EXPECT_THAT(Abs(a)->template values<T>(),
              ElementsAre(0, 7, magnitude, kLeast));
  EXPECT_THAT(Abs(a)->shape(), ElementsAre(2, 2));
}

TYPED_TEST(IntegerArithmeticTest, DivisionByZero) {
  using T = TypeParam;
  const Tensor a = Tensor::Of<T>({2}, {1, 0});
  for (const StatusOr<Tensor>& found : {FloorDivide(a, a), a % a, a % 0}) {
    EXPECT_EQ(found.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(found.status().message()),
                HasSubstr("integer division by zero (need no 0, found one as "
                          "divisor "));
  }
  EXPECT_TRUE((Tensor(DTypeOf<T>(), {0}) % 0).ok());  // nothing is divided
  const double quotient = sizeof(T) <= 2
                              ? (a / 0)->template values<float>()[0]
                              : (a / 0)->template values<double>()[0];
  EXPECT_EQ(quotient, INFINITY);
}

TEST(TensorArithmeticTest, ANegativePowerOfAnIntegerIsAnError) {
  const Tensor a = Tensor::Of<int32_t>({2}, {2, 3});
  EXPECT_EQ(Power(a, -2).status(),
            absl::InvalidArgumentError(
                "power \"i32 [2]\" and \"-2\": negative power of an integer "
                "(need 0 or more, found -2)"));
}

template <typename T>
class FloatArithmeticTest : public ::testing::Test {};
using Floats = ::testing::Types<float, double>;
TYPED_TEST_SUITE(FloatArithmeticTest, Floats);

template <typename T>
T Remainder(T x, T y) {
  const T rest = std::fmod(x, y);
  if (rest == 0) return std::signbit(y) ? -T{0} : T{0};
  return std::signbit(rest) != std::signbit(y) ? rest + y : rest;
}

TYPED_TEST(FloatArithmeticTest, IsWhatLoopsGive) {
  using T = TypeParam;
  TensorDraw draw(40 + sizeof(T));
  for (int round = 0; round < 300; ++round) {
    const auto [a_shape, b_shape, shape] = DrawShapes(draw);
    const Tensor a = draw.Values<T>(a_shape);
    const Tensor b = draw.Values<T>(b_shape, /*may_be_zero=*/false);
    Check<T, T>("+", a + b, shape, a, b, [](T x, T y) { return x + y; });
    Check<T, T>("-", a - b, shape, a, b, [](T x, T y) { return x - y; });
    Check<T, T>("*", a * b, shape, a, b, [](T x, T y) { return x * y; });
    Check<T, T>("/", a / b, shape, a, b, [](T x, T y) { return x / y; });
    Check<T, T>("//", FloorDivide(a, b), shape, a, b,
                [](T x, T y) { return std::floor(x / y); });
    Check<T, T>("%", a % b, shape, a, b, Remainder<T>);
    CheckComparisons<T>(shape, a, b);
    const Tensor positive = Abs(a).value();
    Check<T, T>("pow", Power(positive, b), shape, positive, b,
                [](T x, T y) { return static_cast<T>(std::pow(x, y)); });
  }
}

TYPED_TEST(FloatArithmeticTest, SpecialValues) {
  using T = TypeParam;
  const T nan = std::numeric_limits<T>::quiet_NaN();
  const Tensor a = Tensor::Of<T>({3}, {nan, 1, -1});
  EXPECT_THAT((a == a)->template values<bool>(),
              ElementsAre(false, true, true));
  EXPECT_THAT((a != a)->template values<bool>(),
              ElementsAre(true, false, false));
  EXPECT_THAT((a >= a)->template values<bool>(),
              ElementsAre(false, true, true));
  const Tensor quotient = (a / 0.0).value();
  EXPECT_EQ(quotient.template values<T>()[1], INFINITY);
  EXPECT_TRUE(std::isnan(quotient.template values<T>()[0]));
  EXPECT_TRUE(std::isnan((a % 0.0)->template values<T>()[1]));
}

TYPED_TEST(FloatArithmeticTest, WhatIsLeftHasTheSignOfTheDivisor) {
  using T = TypeParam;
  const Tensor a = Tensor::Of<T>({5}, {-4, 4, T{-0.0}, 0, 5});
  for (T divisor : {2, -2}) {
    const Tensor rest = (a % divisor).value();
    for (T value : rest.template values<T>()) {
      EXPECT_EQ(std::signbit(value), divisor < 0);
    }
  }
}

// Small integers are exact in half precision.
template <typename T>
void CheckHalf(uint16_t (*bits)(float)) {
  const auto of = [&](std::vector<float> numbers) {
    Tensor tensor(DTypeOf<T>(), {static_cast<int64_t>(numbers.size())});
    for (size_t i = 0; i < numbers.size(); ++i) {
      tensor.values<T>()[i].bits = bits(numbers[i]);
    }
    return tensor;
  };
  const Tensor a = of({6, -7, 5}), b = of({4, 4, -4});
  EXPECT_TRUE(Same((a + b).value(), of({10, -3, 1})));
  EXPECT_TRUE(Same((a - b).value(), of({2, -11, 9})));
  EXPECT_TRUE(Same((a * b).value(), of({24, -28, -20})));
  EXPECT_TRUE(Same((a / b).value(), of({1.5, -1.75, -1.25})));
  EXPECT_TRUE(Same(FloorDivide(a, b).value(), of({1, -2, -2})));
  EXPECT_TRUE(Same((a % b).value(), of({2, 1, -3})));
  EXPECT_TRUE(Same(Power(a, 2).value(), of({36, 49, 25})));
  EXPECT_TRUE(Same((-a).value(), of({-6, 7, -5})));
  EXPECT_TRUE(Same(Abs(a).value(), of({6, 7, 5})));
  EXPECT_TRUE(Same((a + 0.5).value(), of({6.5, -6.5, 5.5})));
  EXPECT_THAT((a < b)->template values<bool>(),
              ElementsAre(false, true, false));
  EXPECT_THAT((a == 5)->template values<bool>(),
              ElementsAre(false, false, true));
}

TEST(TensorArithmeticTest, HalfPrecision) {
  CheckHalf<Float16>(HalfBits);
  CheckHalf<BFloat16>(BFloatBits);
}

TEST(TensorArithmeticTest, ComplexNumbers) {
  const Tensor a = Tensor::Of<C64>({2}, {C64{3, 4}, C64{1, 0}});
  const Tensor b = Tensor::Of<C64>({1}, {C64{0, 2}});
  EXPECT_THAT((a + b)->values<C64>(), ElementsAre(C64{3, 6}, C64{1, 2}));
  EXPECT_THAT((a * b)->values<C64>(), ElementsAre(C64{-8, 6}, C64{0, 2}));
  EXPECT_THAT((a / b)->values<C64>(), ElementsAre(C64{2, -1.5}, C64{0, -0.5}));
  EXPECT_THAT((-a)->values<C64>(), ElementsAre(C64{-3, -4}, C64{-1, 0}));
  EXPECT_THAT(Abs(a)->values<float>(), ElementsAre(5, 1));
  EXPECT_THAT((a == C64(1))->values<bool>(), ElementsAre(false, true));
  EXPECT_THAT((a - C64(0, 4))->values<C64>(),
              ElementsAre(C64{3, 0}, C64{1, -4}));
  const C64 square = Power(a, 2)->values<C64>()[0];
  EXPECT_NEAR(square.real(), -7, 1e-5);
  EXPECT_NEAR(square.imag(), 24, 1e-5);
  EXPECT_EQ((a < b).status(),
            absl::UnimplementedError(
                "less \"c64 [2]\" and \"c64 [1]\": not defined for c64"));
  EXPECT_EQ((a % b).status().code(), absl::StatusCode::kUnimplemented);
}

// Divides where the squares of the parts are not numbers of T.
template <typename T>
void CheckQuotients(T part) {
  using Complex = std::complex<T>;
  const Tensor a = Tensor::Of<Complex>({3}, {{2 * part, 0}, {0, part}, {0, 0}});
  const Tensor b = Tensor::Of<Complex>({1}, {{0, part}});
  EXPECT_THAT((a / b)->template values<Complex>(),
              ElementsAre(Complex{0, -2}, Complex{1, 0}, Complex{0, 0}));
}

TEST(TensorArithmeticTest, QuotientsOfLargeAndSmallComplexNumbers) {
  CheckQuotients(1e30f);
  CheckQuotients(1e-30f);
  CheckQuotients(1e200);
  CheckQuotients(1e-200);
}

TEST(TensorArithmeticTest, TruthValues) {
  const Tensor a = Tensor::Of<bool>({4}, {false, false, true, true});
  const Tensor b = Tensor::Of<bool>({4}, {false, true, false, true});
  EXPECT_THAT((a & b)->values<bool>(), ElementsAre(false, false, false, true));
  EXPECT_THAT((a | b)->values<bool>(), ElementsAre(false, true, true, true));
  EXPECT_THAT((a ^ b)->values<bool>(), ElementsAre(false, true, true, false));
  EXPECT_THAT((~a)->values<bool>(), ElementsAre(true, true, false, false));
  EXPECT_THAT((a == b)->values<bool>(), ElementsAre(true, false, false, true));
  EXPECT_THAT((a != true)->values<bool>(),
              ElementsAre(true, true, false, false));
  for (const StatusOr<Tensor>& found :
       {a + b, a - b, a * b, a / b, a % b, FloorDivide(a, b), Power(a, b),
        a < b, a >= b, -a, Abs(a), MatMul(a, b)}) {
    EXPECT_EQ(found.status().code(), absl::StatusCode::kUnimplemented);
  }
}

// Bytes that a bool of C++ cannot hold.
TEST(TensorArithmeticTest, EveryByteButZeroIsTrue) {
  const uint8_t a_bytes[] = {0, 1, 2, 255};
  const uint8_t b_bytes[] = {0, 2, 1, 2};
  const Tensor a = Tensor::CopyOf(DType::kBool, {4}, a_bytes);
  const Tensor b = Tensor::CopyOf(DType::kBool, {4}, b_bytes);
  const auto bytes = [](const StatusOr<Tensor>& found) {
    std::vector<int> values;
    for (int64_t i = 0; i < found->num_bytes(); ++i) {
      values.push_back(static_cast<int>(found->data()[i]));
    }
    return values;
  };
  EXPECT_THAT(bytes(a & b), ElementsAre(0, 1, 1, 1));
  EXPECT_THAT(bytes(a | b), ElementsAre(0, 1, 1, 1));
  EXPECT_THAT(bytes(a ^ b), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(bytes(a == b), ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(bytes(a != b), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(bytes(a == true), ElementsAre(0, 1, 1, 1));
  EXPECT_THAT(bytes(~a), ElementsAre(1, 0, 0, 0));
  const Tensor two = Tensor::CopyOf(DType::kBool, {}, &b_bytes[1]);
  EXPECT_THAT(bytes(a & two), ElementsAre(0, 1, 1, 1));
  EXPECT_THAT(bytes(two ^ a), ElementsAre(1, 0, 0, 0));
}

TEST(TensorArithmeticTest, ANumberStandsOnEitherSide) {
  const Tensor a = Tensor::Of<int32_t>({3}, {1, 2, 3});
  EXPECT_THAT((a - 1)->values<int32_t>(), ElementsAre(0, 1, 2));
  EXPECT_THAT((1 - a)->values<int32_t>(), ElementsAre(0, -1, -2));
  EXPECT_THAT((2 < a)->values<bool>(), ElementsAre(false, false, true));
  EXPECT_THAT((a > 2U)->values<bool>(), ElementsAre(false, false, true));
  EXPECT_THAT((a / 2)->values<double>(), ElementsAre(0.5, 1, 1.5));
  const Tensor f = Tensor::Of<float>({}, {2});
  EXPECT_THAT((f * 0.25)->values<float>(), ElementsAre(0.5));
  EXPECT_THAT((f * 0.25)->shape(), IsEmpty());
}

TEST(TensorArithmeticTest, ANumberMustFit) {
  const Tensor a = Tensor::Of<int8_t>({1}, {1});
  EXPECT_EQ((a + 1.5).status(),
            absl::InvalidArgumentError(
                "add \"i8 [1]\" and \"1.5\": the number does not fit (need one "
                "of i8, found 1.5)"));
  EXPECT_EQ(
      (300 - a).status(),
      absl::InvalidArgumentError(
          "subtract \"300\" and \"i8 [1]\": the number does not fit (need "
          "one of i8, found 300)"));
  EXPECT_THAT((a > true).status().message(), HasSubstr("found true"));
  EXPECT_THAT((a + C64(1, 2)).status().message(), HasSubstr("found (1, 2)"));
  EXPECT_FALSE((Tensor::Of<uint64_t>({1}, {1}) + -1).ok());
  EXPECT_FALSE((Tensor::Of<float>({1}, {1}) + C64(1, 2)).ok());
  EXPECT_FALSE((Tensor::Of<bool>({1}, {true}) & 1).ok());
  EXPECT_EQ(Add(1, 2).status(),
            absl::InvalidArgumentError("add \"1\" and \"2\": two numbers (need "
                                       "at least 1 tensor, found 0)"));
}

TEST(TensorArithmeticTest, DTypesMustBeEqual) {
  EXPECT_EQ((Tensor(DType::kF32, {2, 3}) + Tensor(DType::kI32, {3})).status(),
            absl::InvalidArgumentError(
                "add \"f32 [2, 3]\" and \"i32 [3]\": the dtypes differ (need "
                "equal ones, found f32 and i32)"));
}

TEST(TensorArithmeticTest, ShapesMustBroadcast) {
  const Tensor a(DType::kF32, {2, 3});
  EXPECT_EQ((a > Tensor(DType::kF32, {5, 2, 4})).status(),
            absl::InvalidArgumentError(
                "greater \"f32 [2, 3]\" and \"f32 [5, 2, 4]\": the shapes do "
                "not broadcast on axis 2 of the result (need equal lengths or "
                "1, found 4 and 3)"));
  EXPECT_FALSE((a + Tensor(DType::kF32, {0, 3})).ok());
  EXPECT_THAT((a + Tensor(DType::kF32, {0, 1, 3}))->shape(),
              ElementsAre(0, 2, 3));
  EXPECT_THAT((Tensor(DType::kF32, {1}) + Tensor(DType::kF32, {0}))->shape(),
              ElementsAre(0));
}

TEST(TensorArithmeticTest, EightBitFloatsHaveNone) {
  for (DType dtype : {DType::kF8E4M3, DType::kF8E5M2}) {
    const Tensor a(dtype, {1, 1});
    for (const StatusOr<Tensor>& found :
         {a + a, a - 1, 1 * a, a / a, a % a, Power(a, a), a & a, a < a, a == a,
          -a, ~a, Abs(a), MatMul(a, a)}) {
      EXPECT_EQ(found.status().code(), absl::StatusCode::kUnimplemented);
      EXPECT_THAT(
          std::string(found.status().message()),
          HasSubstr("not defined for " + std::string(DTypeName(dtype))));
    }
  }
}

TEST(TensorArithmeticTest, BitsAreForIntegers) {
  const Tensor a(DType::kF64, {2});
  for (const StatusOr<Tensor>& found : {a & a, a | a, a ^ a, ~a}) {
    EXPECT_EQ(found.status().code(), absl::StatusCode::kUnimplemented);
  }
  EXPECT_EQ((~a).status().message(), "invert \"f64 [2]\": not defined for f64");
}

}  // namespace
}  // namespace belay::tensor_arithmetic_test
