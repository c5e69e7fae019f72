// Conversions against formats that are spelled out as sorted tables of values.

#include "core/element_conversion.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace belay::element_conversion_test {
namespace {

// All positive finite values of a small format, by their bits.
struct Table {
  Table(DType type, int exponent_bits, int mantissa_bits, bool infinity)
      : dtype(type), has_infinity(infinity) {
    const int ones = 1 << mantissa_bits;
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const int exponents = (1 << exponent_bits) - (infinity ? 1 : 0);
    for (int e = 0; e < exponents; ++e) {
      for (int m = 0; m < ones; ++m) {
        values.push_back(e == 0
                             ? std::ldexp(m, 1 - bias - mantissa_bits)
                             : std::ldexp(ones + m, e - bias - mantissa_bits));
      }
    }
    if (!infinity) values.pop_back();  // the NaN
    sign = 1u << (exponent_bits + mantissa_bits);
    nan = infinity ? static_cast<uint32_t>(values.size()) + ones / 2 : sign - 1;
  }

  // The bits that a number rounds to.
  uint32_t Nearest(long double number) const {
    const uint32_t bit = std::signbit(number) ? sign : 0;
    if (std::isnan(number)) return bit | nan;
    number = std::fabs(number);
    const double last = values.back();
    if (number > last) {
      const double step = last - values[values.size() - 2];
      const bool overflows =
          number >= static_cast<long double>(last) + step / 2;
      const auto largest = static_cast<uint32_t>(values.size()) - 1;
      return bit | (largest + (overflows && has_infinity ? 1 : 0));
    }
    const auto above = std::lower_bound(values.begin(), values.end(), number);
    const auto place = static_cast<uint32_t>(above - values.begin());
    if (*above == number) return bit | place;
    const long double middle = (above[-1] + *above) / 2;
    if (number < middle) return bit | (place - 1);
    if (number > middle) return bit | place;
    return bit | (place % 2 == 0 ? place : place - 1);
  }

  // The value of bits; infinity where the table ends.
  double Value(uint32_t bits) const {
    const uint32_t magnitude = bits & (sign - 1);
    double value = std::numeric_limits<double>::quiet_NaN();
    if (magnitude < values.size()) value = values[magnitude];
    if (has_infinity && magnitude == values.size()) value = HUGE_VAL;
    return (bits & sign) != 0 ? -value : value;
  }

  DType dtype;
  bool has_infinity;
  std::vector<double> values;
  uint32_t sign = 0;
  uint32_t nan = 0;
};

const std::vector<Table>& Tables() {
  static const std::vector<Table> tables = {
      Table(DType::kF16, 5, 10, true), Table(DType::kBF16, 8, 7, true),
      Table(DType::kF8E4M3, 4, 3, false), Table(DType::kF8E5M2, 5, 2, true)};
  return tables;
}

template <typename From>
std::vector<uint32_t> ToBits(const std::vector<From>& from, DType to) {
  std::vector<std::byte> bytes(from.size() * DTypeSize(to));
  ConvertElements(DTypeOf<From>(), from.data(), to, bytes.data(),
                  static_cast<int64_t>(from.size()));
  std::vector<uint32_t> bits(from.size(), 0);
  for (size_t i = 0; i < bits.size(); ++i) {
    std::memcpy(&bits[i], bytes.data() + i * DTypeSize(to), DTypeSize(to));
  }
  return bits;
}

template <typename To>
std::vector<To> FromBits(const Table& table,
                         const std::vector<uint32_t>& bits) {
  const auto size = static_cast<size_t>(DTypeSize(table.dtype));
  std::vector<std::byte> bytes(bits.size() * size);
  for (size_t i = 0; i < bits.size(); ++i) {
    std::memcpy(bytes.data() + i * size, &bits[i], size);
  }
  std::vector<To> values(bits.size());
  ConvertElements(table.dtype, bytes.data(), DTypeOf<To>(), values.data(),
                  static_cast<int64_t>(values.size()));
  return values;
}

template <typename From, typename To>
To Convert(From from) {
  To to;
  ConvertElements(DTypeOf<From>(), &from, DTypeOf<To>(), &to, 1);
  return to;
}

std::vector<uint32_t> AllBits(const Table& table) {
  std::vector<uint32_t> bits(2 * table.sign);
  for (uint32_t i = 0; i < bits.size(); ++i) bits[i] = i;
  return bits;
}

template <typename From>
void ExpectNearest(const Table& table, const std::vector<From>& numbers) {
  const std::vector<uint32_t> found = ToBits(numbers, table.dtype);
  int wrong = 0;
  for (size_t i = 0; i < numbers.size() && wrong < 10; ++i) {
    const uint32_t need = table.Nearest(numbers[i]);
    if (found[i] == need) continue;
    ++wrong;
    ADD_FAILURE() << DTypeName(DTypeOf<From>()) << " " << +numbers[i] << " to "
                  << DTypeName(table.dtype) << ": need " << std::hex << need
                  << ", found " << found[i];
  }
}

// Every value of the table and every middle of two, and their neighbours.
template <typename Float>
std::vector<Float> NumbersAround(const Table& table) {
  std::vector<Float> numbers;
  const auto add = [&](Float number) {
    for (const Float sign : {Float{1}, Float{-1}}) {
      numbers.push_back(sign * number);
      numbers.push_back(sign * std::nextafter(number, Float{0}));
      numbers.push_back(sign * std::nextafter(number, Float(HUGE_VAL)));
    }
  };
  for (size_t i = 0; i < table.values.size(); ++i) {
    const double value = table.values[i];
    const double before = i == 0 ? 0 : table.values[i - 1];
    add(static_cast<Float>(value));
    add(static_cast<Float>(before + (value - before) / 2));
    // Past the largest: from there on it is too large.
    add(static_cast<Float>(value + (value - before) / 2));
  }
  return numbers;
}

template <typename Float>
std::vector<Float> Extremes() {
  using Limits = std::numeric_limits<Float>;
  std::vector<Float> numbers;
  for (const Float number :
       {Float{0}, Limits::denorm_min(), Limits::min(), Limits::max(),
        Limits::infinity(), Limits::quiet_NaN(), Limits::epsilon()}) {
    numbers.push_back(number);
    numbers.push_back(-number);
  }
  return numbers;
}

TEST(ElementConversionTest, SmallFloatsWidenToTheirValues) {
  for (const Table& table : Tables()) {
    SCOPED_TRACE(DTypeName(table.dtype));
    const std::vector<uint32_t> bits = AllBits(table);
    const std::vector<float> floats = FromBits<float>(table, bits);
    const std::vector<double> doubles = FromBits<double>(table, bits);
    for (size_t i = 0; i < bits.size(); ++i) {
      const double need = table.Value(bits[i]);
      ASSERT_EQ(std::isnan(need), std::isnan(floats[i])) << i;
      ASSERT_EQ(std::isnan(need), std::isnan(doubles[i])) << i;
      ASSERT_EQ(std::signbit(need), std::signbit(floats[i])) << i;
      ASSERT_EQ(std::signbit(need), std::signbit(doubles[i])) << i;
      if (std::isnan(need)) continue;
      ASSERT_EQ(floats[i], need) << i;
      ASSERT_EQ(doubles[i], need) << i;
    }
  }
}

TEST(ElementConversionTest, SmallFloatsSurviveTheWayThroughWiderOnes) {
  for (const Table& table : Tables()) {
    SCOPED_TRACE(DTypeName(table.dtype));
    const std::vector<uint32_t> bits = AllBits(table);
    const auto by_float = ToBits(FromBits<float>(table, bits), table.dtype);
    const auto by_double = ToBits(FromBits<double>(table, bits), table.dtype);
    for (size_t i = 0; i < bits.size(); ++i) {
      const bool is_nan = std::isnan(table.Value(bits[i]));
      const uint32_t need =
          is_nan ? (bits[i] & table.sign) | table.nan : bits[i];
      ASSERT_EQ(by_float[i], need);
      ASSERT_EQ(by_double[i], need);
    }
  }
}

TEST(ElementConversionTest, FloatsRoundToNearestEven) {
  for (const Table& table : Tables()) {
    ExpectNearest(table, NumbersAround<float>(table));
    ExpectNearest(table, NumbersAround<double>(table));
    ExpectNearest(table, Extremes<float>());
    ExpectNearest(table, Extremes<double>());
  }
}

TEST(ElementConversionTest, AnyBitsRoundToNearestEven) {
  std::mt19937_64 random(7);
  std::vector<float> floats(2500000);
  std::vector<double> doubles(floats.size() / 10);
  for (const Table& table : Tables()) {
    for (float& number : floats) {
      number = std::bit_cast<float>(static_cast<uint32_t>(random()));
    }
    // Most doubles are far too large: these are near the table's.
    for (double& number : doubles) {
      number = std::ldexp(static_cast<double>(static_cast<int64_t>(random())),
                          static_cast<int>(random() % 300) - 220);
    }
    ExpectNearest(table, floats);
    ExpectNearest(table, doubles);
  }
}

TEST(ElementConversionTest, IntegersRoundOnce) {
  std::mt19937_64 random(8);
  std::vector<int64_t> integers = {0, 1, -1, INT64_MAX, INT64_MIN};
  for (int i = 0; i < 200000; ++i) {
    const auto any = static_cast<int64_t>(random());
    integers.push_back(any >> (random() % 64));
  }
  // A middle of two, and a little more or less than a double can tell.
  for (int bit = 8; bit < 63; ++bit) {
    const int64_t middle = (int64_t{1} << bit) + (int64_t{1} << (bit - 8));
    for (const int64_t near : {middle - 1, middle, middle + 1}) {
      integers.push_back(near);
      integers.push_back(-near);
    }
  }
  std::vector<uint64_t> without_sign(integers.begin(), integers.end());
  for (const Table& table : Tables()) {
    ExpectNearest(table, integers);
    ExpectNearest(table, without_sign);
  }
  EXPECT_EQ(
      (Convert<int64_t, float>((int64_t{1} << 60) + (int64_t{1} << 36) + 1)),
      static_cast<float>((int64_t{1} << 60) + (int64_t{1} << 37)));
}

TEST(ElementConversionTest, FloatsAreCutToIntegersAndStopAtTheEnds) {
  EXPECT_EQ((Convert<float, int32_t>(2.99f)), 2);
  EXPECT_EQ((Convert<float, int32_t>(-2.99f)), -2);
  EXPECT_EQ((Convert<double, uint8_t>(-0.99)), 0);
  EXPECT_EQ((Convert<double, uint8_t>(-1)), 0);
  EXPECT_EQ((Convert<double, uint8_t>(255.99)), 255);
  EXPECT_EQ((Convert<double, uint8_t>(256)), 255);
  EXPECT_EQ((Convert<double, int8_t>(-128.99)), -128);
  EXPECT_EQ((Convert<double, int8_t>(-1e300)), -128);
  EXPECT_EQ((Convert<double, int32_t>(2147483647.5)), INT32_MAX);
  EXPECT_EQ((Convert<double, int64_t>(9223372036854775807.0)), INT64_MAX);
  EXPECT_EQ((Convert<double, int64_t>(9223372036854774784.0)),
            9223372036854774784);
  EXPECT_EQ((Convert<double, int64_t>(-9223372036854775808.0)), INT64_MIN);
  EXPECT_EQ((Convert<double, uint64_t>(18446744073709551616.0)), UINT64_MAX);
  EXPECT_EQ((Convert<double, uint64_t>(18446744073709549568.0)),
            18446744073709549568u);
  EXPECT_EQ((Convert<float, int16_t>(HUGE_VALF)), INT16_MAX);
  EXPECT_EQ((Convert<float, int16_t>(-HUGE_VALF)), INT16_MIN);
  EXPECT_EQ((Convert<float, int64_t>(NAN)), 0);
  EXPECT_EQ((Convert<BFloat16, uint16_t>({0x7fc0})), 0);
  EXPECT_EQ((Convert<Float16, uint16_t>({0x7bff})), 65504);
}

TEST(ElementConversionTest, IntegersStopAtTheEnds) {
  EXPECT_EQ((Convert<int64_t, int8_t>(-200)), -128);
  EXPECT_EQ((Convert<int64_t, int8_t>(200)), 127);
  EXPECT_EQ((Convert<int64_t, uint64_t>(-1)), 0);
  EXPECT_EQ((Convert<uint64_t, int64_t>(UINT64_MAX)), INT64_MAX);
  EXPECT_EQ((Convert<uint64_t, uint32_t>(UINT64_MAX)), UINT32_MAX);
  EXPECT_EQ((Convert<uint8_t, int8_t>(200)), 127);
  EXPECT_EQ((Convert<int32_t, int64_t>(INT32_MIN)), INT32_MIN);
  EXPECT_EQ((Convert<uint64_t, float>(UINT64_MAX)), 18446744073709551616.0f);
}

TEST(ElementConversionTest, BoolIsZeroOrNot) {
  EXPECT_FALSE((Convert<float, bool>(-0.0f)));
  EXPECT_TRUE((Convert<float, bool>(1e-40f)));
  EXPECT_TRUE((Convert<double, bool>(NAN)));
  EXPECT_TRUE((Convert<int64_t, bool>(int64_t{1} << 40)));
  EXPECT_TRUE((Convert<uint64_t, bool>(uint64_t{1} << 63)));
  EXPECT_EQ((Convert<bool, double>(true)), 1.0);
  EXPECT_EQ((Convert<bool, BFloat16>(true).bits), 0x3f80);
  const uint8_t odd = 2;  // of another program
  int32_t number = 0;
  ConvertElements(DType::kBool, &odd, DType::kI32, &number, 1);
  EXPECT_EQ(number, 1);
}

TEST(ElementConversionTest, ComplexNumbersConvertPartByPart) {
  using C64 = std::complex<float>;
  using C128 = std::complex<double>;
  EXPECT_EQ((Convert<C128, C64>(C128(0.1, -1e300))), C64(0.1f, -HUGE_VALF));
  EXPECT_EQ((Convert<C64, C128>(C64(0.5f, 3))), C128(0.5, 3));
  EXPECT_EQ((Convert<int8_t, C64>(-3)), C64(-3, 0));
  EXPECT_EQ((Convert<uint64_t, C128>(1)), C128(1, 0));
}

constexpr DType kNumbers[] = {
    DType::kF16, DType::kBF16, DType::kF32, DType::kF64, DType::kF8E4M3,
    DType::kI8,  DType::kI16,  DType::kI32, DType::kI64, DType::kF8E5M2,
    DType::kU8,  DType::kU16,  DType::kU32, DType::kU64, DType::kBool,
    DType::kC64, DType::kC128};

TEST(ElementConversionTest, SaysWhatConverts) {
  EXPECT_TRUE(IsConvertible(DType::kString, DType::kString));
  for (const DType dtype : kNumbers) {
    EXPECT_FALSE(IsConvertible(DType::kString, dtype));
    EXPECT_FALSE(IsConvertible(dtype, DType::kString));
    EXPECT_TRUE(IsConvertible(dtype, DType::kC64));
    EXPECT_TRUE(IsConvertible(dtype, dtype));
    const bool is_complex = dtype == DType::kC64 || dtype == DType::kC128;
    EXPECT_EQ(IsConvertible(dtype, DType::kF64), !is_complex);
    EXPECT_EQ(IsConvertible(DType::kC64, dtype), is_complex);
  }
}

// Nothing depends on where an element stands, and nothing past the end is
// touched.
void ExpectElementwise(DType from, DType to, int64_t count) {
  std::mt19937_64 random(static_cast<uint64_t>(count));
  std::vector<uint8_t> source(count * DTypeSize(from));
  for (uint8_t& byte : source) byte = static_cast<uint8_t>(random());
  const auto size = static_cast<size_t>(DTypeSize(to));
  std::vector<uint8_t> together((count + 1) * size, 0xa5), single(size);
  ConvertElements(from, source.data(), to, together.data(), count);
  for (int64_t i = 0; i < count; ++i) {
    ConvertElements(from, source.data() + i * DTypeSize(from), to,
                    single.data(), 1);
    ASSERT_EQ(std::memcmp(single.data(), together.data() + i * size, size), 0)
        << DTypeName(from) << " to " << DTypeName(to) << ", element " << i;
  }
  for (size_t i = 0; i < size; ++i) {
    ASSERT_EQ(together[count * size + i], 0xa5);
  }
}

TEST(ElementConversionTest, EveryPairConvertsElementByElement) {
  for (const DType from : kNumbers) {
    for (const DType to : kNumbers) {
      if (!IsConvertible(from, to)) continue;
      for (const int64_t count : {1, 7, 255, 256, 257, 600}) {
        ExpectElementwise(from, to, count);
      }
    }
  }
  ConvertElements(DType::kF32, nullptr, DType::kBF16, nullptr, 0);
}

}  // namespace
}  // namespace belay::element_conversion_test
