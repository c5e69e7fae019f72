// Losses of conversions, counted from the values before and after.

#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "core/element_conversion.h"
#include "gtest/gtest.h"

namespace belay::lossy_values_test {
namespace {

constexpr DType kNumbers[] = {
    DType::kF16,    DType::kBF16,  DType::kF32,  DType::kF64, DType::kI8,
    DType::kI16,    DType::kI32,   DType::kI64,  DType::kU8,  DType::kU16,
    DType::kU32,    DType::kU64,   DType::kBool, DType::kC64, DType::kC128,
    DType::kF8E4M3, DType::kF8E5M2};

bool IsComplex(DType dtype) {
  return dtype == DType::kC64 || dtype == DType::kC128;
}
bool IsInteger(DType dtype) {
  const auto kind = FindNumberRange(dtype).kind;
  return kind == NumberRange::Kind::kSigned ||
         kind == NumberRange::Kind::kUnsigned;
}

using Elements = std::vector<std::byte>;

template <typename T>
T ElementAs(DType dtype, const Elements& elements, int64_t i) {
  T value;
  ConvertElements(dtype, elements.data() + i * DTypeSize(dtype), DTypeOf<T>(),
                  &value, 1);
  return value;
}

// Each number of each dtype is one of these.
std::complex<long double> ValueAt(DType dtype, const Elements& elements,
                                  int64_t i) {
  if (dtype == DType::kU64) return ElementAs<uint64_t>(dtype, elements, i);
  if (IsInteger(dtype)) return ElementAs<int64_t>(dtype, elements, i);
  if (IsComplex(dtype)) {
    const auto value = ElementAs<std::complex<double>>(dtype, elements, i);
    return {value.real(), value.imag()};
  }
  return ElementAs<double>(dtype, elements, i);
}

// Returns true for each loss of a number that has become `after`.
std::vector<bool> Lost(DType from, long double before, DType to,
                       long double after) {
  if (to == DType::kBool) return {false, false, before != 0 && before != 1};
  if (IsInteger(to)) {
    if (!std::isfinite(before)) return {false, true, false};
    const bool is_signed =
        FindNumberRange(to).kind == NumberRange::Kind::kSigned;
    const long double end = std::ldexp(1.0L, FindNumberRange(to).precision);
    const long double whole = std::trunc(before);
    const bool fits = whole >= (is_signed ? -end : 0) && whole < end;
    EXPECT_TRUE(!fits || after == whole);
    return {!fits, false, fits && whole != before};
  }
  if (std::isnan(before)) return {false, false, false};
  if (std::isinf(before)) return {false, !std::isinf(after), false};
  // 464 is the middle between 448 and the number that is a NaN there.
  const bool is_too_large =
      to == DType::kF8E4M3 ? std::fabs(before) > 464 : std::isinf(after);
  const bool is_changed =
      IsInteger(from) ? before != after : before != 0 && after == 0;
  return {is_too_large, false, !is_too_large && is_changed};
}

std::vector<bool> LostParts(DType from, std::complex<long double> before,
                            DType to, std::complex<long double> after) {
  std::vector<bool> lost = Lost(from, before.real(), to, after.real());
  if (!IsComplex(from)) return lost;
  const std::vector<bool> imaginary =
      Lost(from, before.imag(), to, after.imag());
  for (size_t i = 0; i < lost.size(); ++i) lost[i] = lost[i] || imaginary[i];
  return lost;
}

template <typename T>
void Append(T value, Elements& elements) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&value);
  elements.insert(elements.end(), bytes, bytes + sizeof(value));
}

// Numbers around all at which any dtype ends, in the dtype.
void AppendEnds(DType dtype, Elements& elements) {
  std::vector<double> numbers = {0, 1, 2, 0.5, 1.5, 464, 465, 448};
  for (int exponent = -160; exponent <= 130; ++exponent) {
    numbers.push_back(std::ldexp(1, exponent));
    for (const int precision : {3, 4, 8, 11, 24}) {
      numbers.push_back(std::ldexp(2 - std::ldexp(1, -precision), exponent));
    }
  }
  const auto huge = std::numeric_limits<double>::infinity();
  for (const double number : numbers) {
    for (const double one :
         {number, std::nextafter(number, 0.0), std::nextafter(number, huge),
          number + 1, number - 1, number + 0.5}) {
      for (const double value : {one, -one}) {
        if (IsComplex(dtype)) {
          const std::complex<double> part(1, value);
          Elements element(DTypeSize(dtype));
          ConvertElements(DType::kC128, &part, dtype, element.data(), 1);
          elements.insert(elements.end(), element.begin(), element.end());
        } else {
          Elements element(DTypeSize(dtype));
          ConvertElements(DType::kF64, &value, dtype, element.data(), 1);
          elements.insert(elements.end(), element.begin(), element.end());
        }
      }
    }
  }
}

// All elements of small dtypes; of others, any bits and those that matter.
Elements SomeOf(DType dtype) {
  Elements elements;
  const int64_t size = DTypeSize(dtype);
  for (uint32_t i = 0; i < 256 && size == 1; ++i) {
    Append(static_cast<uint8_t>(i), elements);
  }
  for (uint32_t i = 0; i < 65536 && size == 2; ++i) {
    Append(static_cast<uint16_t>(i), elements);
  }
  if (size <= 2) return elements;
  AppendEnds(dtype, elements);
  std::mt19937_64 random(7);
  for (int i = 0; i < 9000; ++i) {
    for (int64_t part = 0; part < size; part += 4) {
      Append(static_cast<uint32_t>(random() >> (random() % 33)), elements);
    }
  }
  return elements;
}

TEST(LossyValues, CountsWhatIsLostOfAnyDTypeInAnyOther) {
  for (const DType from : kNumbers) {
    const Elements elements = SomeOf(from);
    const auto count = static_cast<int64_t>(elements.size()) / DTypeSize(from);
    for (const DType to : kNumbers) {
      if (!IsConvertible(from, to)) continue;
      SCOPED_TRACE(std::string(DTypeName(from)) + " to " +
                   std::string(DTypeName(to)));
      Elements converted(count * DTypeSize(to));
      Elements uncounted(converted.size());
      ConversionLosses losses;
      ConvertElements(from, elements.data(), to, converted.data(), count,
                      &losses);
      ConvertElements(from, elements.data(), to, uncounted.data(), count);
      EXPECT_EQ(converted, uncounted);
      EXPECT_EQ(losses.values, count);
      std::vector<int64_t> counts(kNumLosses, 0);
      std::vector<int64_t> first(kNumLosses, -1);
      for (int64_t i = 0; i < count && from != to; ++i) {
        const std::vector<bool> lost = LostParts(
            from, ValueAt(from, elements, i), to, ValueAt(to, converted, i));
        for (size_t loss = 0; loss < kNumLosses; ++loss) {
          if (!lost[loss]) continue;
          ++counts[loss];
          if (first[loss] < 0) first[loss] = i;
        }
      }
      bool any = false;
      for (size_t loss = 0; loss < kNumLosses; ++loss) {
        SCOPED_TRACE(loss);
        EXPECT_EQ(losses.counts[loss], counts[loss]);
        any = any || counts[loss] > 0;
        if (counts[loss] == 0 || losses.counts[loss] == 0) continue;
        EXPECT_EQ(std::memcmp(losses.examples[loss].data(),
                              elements.data() + first[loss] * DTypeSize(from),
                              DTypeSize(from)),
                  0);
      }
      EXPECT_EQ(IsLossyConversion(from, to), any);
      EXPECT_EQ(losses.Any(), any);
    }
  }
}

TEST(LossyValues, AddsToWhatWasCountedBefore) {
  const std::vector<double> values = {1e300, -1e300, 1e-300, 0, 1, NAN};
  std::vector<float> converted(values.size());
  ConversionLosses losses;
  for (int i = 0; i < 3; ++i) {
    ConvertElements(DType::kF64, values.data(), DType::kF32, converted.data(),
                    6, &losses);
  }
  EXPECT_EQ(losses.values, 18);
  EXPECT_EQ(losses.counts, (std::array<int64_t, 3>{6, 0, 3}));
  double example = 0;
  std::memcpy(&example, losses.examples[0].data(), sizeof(example));
  EXPECT_EQ(example, 1e300);
}

}  // namespace
}  // namespace belay::lossy_values_test
