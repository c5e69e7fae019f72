// Conversion of elements between dtypes, and which values it changes.

#ifndef BELAY_CORE_ELEMENT_CONVERSION_H_
#define BELAY_CORE_ELEMENT_CONVERSION_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

#include "belay/arrays/dtype.h"

namespace belay {

// The bits of floating-point formats that C++20 does not have.
//
// Every value of such a format is a double, so a double is what they are read
// to and rounded from.

// Sign, exponent and mantissa, the largest exponent being that of infinity and
// NaN. Without infinity there is one NaN, all ones, and the other patterns of
// the largest exponent are numbers.
struct FloatFormat {
  int exponent_bits;
  int mantissa_bits;
  bool has_infinity = true;

  constexpr int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  constexpr uint64_t sign() const {
    return uint64_t{1} << (exponent_bits + mantissa_bits);
  }
  constexpr uint64_t nan() const {
    if (!has_infinity) return sign() - 1;
    return sign() - (uint64_t{1} << (mantissa_bits - 1));
  }
  // What is too large becomes infinity or, where there is none, the largest
  // number.
  constexpr uint64_t largest() const {
    if (!has_infinity) return sign() - 2;
    return sign() - (uint64_t{1} << mantissa_bits);
  }
};

inline constexpr FloatFormat kF16Format = {.exponent_bits = 5,
                                           .mantissa_bits = 10};
inline constexpr FloatFormat kBF16Format = {.exponent_bits = 8,
                                            .mantissa_bits = 7};
inline constexpr FloatFormat kF8E4M3Format = {
    .exponent_bits = 4, .mantissa_bits = 3, .has_infinity = false};
inline constexpr FloatFormat kF8E5M2Format = {.exponent_bits = 5,
                                              .mantissa_bits = 2};
inline constexpr FloatFormat kF64Format = {.exponent_bits = 11,
                                           .mantissa_bits = 52};

// Returns the bits of the nearest value, of two equally near ones the one with
// an even mantissa. A NaN becomes the quiet NaN with its sign.
template <FloatFormat kFormat>
uint64_t RoundToFormat(double value) {
  const auto bits = std::bit_cast<uint64_t>(value);
  const uint64_t magnitude = bits & (kF64Format.sign() - 1);
  const uint64_t sign = magnitude == bits ? 0 : kFormat.sign();
  if (magnitude > kF64Format.largest()) return sign | kFormat.nan();

  constexpr int kMantissa = kF64Format.mantissa_bits;
  constexpr int kSmallest = 1 - kFormat.bias();
  const int own = static_cast<int>(magnitude >> kMantissa) - kF64Format.bias();
  const int exponent = std::max(own, kSmallest);
  const uint64_t significand = (magnitude & ((uint64_t{1} << kMantissa) - 1)) |
                               (uint64_t{1} << kMantissa);
  // From kMantissa + 2 on less than half a unit is left, whatever the shift.
  const int shift = std::min(kMantissa - kFormat.mantissa_bits + exponent - own,
                             kMantissa + 2);
  const uint64_t below_half = (uint64_t{1} << (shift - 1)) - 1;
  const uint64_t is_odd = (significand >> shift) & 1;
  const uint64_t units = (significand + below_half + is_odd) >> shift;
  // The leading one of a normal number adds itself to the exponent, and so does
  // a carry.
  const uint64_t rounded = units + (static_cast<uint64_t>(exponent - kSmallest)
                                    << kFormat.mantissa_bits);
  return sign | std::min(rounded, kFormat.largest());
}

// Returns the value of the bits.
template <FloatFormat kFormat>
double ValueOfFormat(uint64_t bits) {
  const uint64_t magnitude = bits & (kFormat.sign() - 1);
  const uint64_t sign = magnitude == bits ? 0 : kF64Format.sign();
  const uint64_t exponent = magnitude >> kFormat.mantissa_bits;
  constexpr int kShift = kF64Format.mantissa_bits - kFormat.mantissa_bits;
  constexpr uint64_t kRebias = kF64Format.bias() - kFormat.bias();
  uint64_t value =
      (magnitude << kShift) + (kRebias << kF64Format.mantissa_bits);
  if (exponent == 0) {
    // Too large by the leading one that such a number does not have.
    constexpr uint64_t kOne = (kRebias + 1) << kF64Format.mantissa_bits;
    value = std::bit_cast<uint64_t>(
        std::bit_cast<double>(kOne + (magnitude << kShift)) -
        std::bit_cast<double>(kOne));
  } else if (magnitude > kFormat.largest()) {
    value = kF64Format.nan();
  } else if (kFormat.has_infinity && magnitude == kFormat.largest()) {
    value = kF64Format.largest();
  }
  return std::bit_cast<double>(sign | value);
}

// Which values a conversion of dtypes changes by more than rounding them.
//
// Without branches, so that loops that count them stay loops of vectors.

// The numbers that a dtype has; of a complex one, its parts.
struct NumberRange {
  enum class Kind : uint8_t { kFloat, kSigned, kUnsigned, kBool };
  Kind kind = Kind::kFloat;
  int precision = 0;     // bits of a mantissa, or of the largest integer
  int max_exponent = 0;  // largest e such that 2^e is no larger than any number
  int min_exponent = 0;  // 2^e is the smallest number above 0
  bool has_infinity = true;
};

constexpr NumberRange RangeOf(DType dtype) {
  using Kind = NumberRange::Kind;
  switch (dtype) {
    case DType::kF16:
      return {Kind::kFloat, 11, 15, -24};
    case DType::kBF16:
      return {Kind::kFloat, 8, 127, -133};
    case DType::kF8E4M3:
      return {Kind::kFloat, 4, 8, -9, false};
    case DType::kF8E5M2:
      return {Kind::kFloat, 3, 15, -16};
    case DType::kF32:
    case DType::kC64:
      return {Kind::kFloat, 24, 127, -149};
    case DType::kF64:
    case DType::kC128:
      return {Kind::kFloat, 53, 1023, -1074};
    case DType::kI8:
      return {Kind::kSigned, 7, 7, 0, false};
    case DType::kI16:
      return {Kind::kSigned, 15, 15, 0, false};
    case DType::kI32:
      return {Kind::kSigned, 31, 31, 0, false};
    case DType::kI64:
      return {Kind::kSigned, 63, 63, 0, false};
    case DType::kU8:
      return {Kind::kUnsigned, 8, 7, 0, false};
    case DType::kU16:
      return {Kind::kUnsigned, 16, 15, 0, false};
    case DType::kU32:
      return {Kind::kUnsigned, 32, 31, 0, false};
    case DType::kU64:
      return {Kind::kUnsigned, 64, 63, 0, false};
    case DType::kBool:
    case DType::kString:
      break;
  }
  return {Kind::kBool, 1, 0, 0, false};
}

// Whether there are values of `from` that change by more than rounding.
constexpr bool IsLossy(const NumberRange& from, const NumberRange& to) {
  using Kind = NumberRange::Kind;
  if (from.kind == Kind::kBool) return false;
  if (to.kind == Kind::kBool) return true;
  if (to.kind != Kind::kFloat) {
    return from.kind == Kind::kFloat || to.precision < from.precision ||
           (from.kind == Kind::kSigned && to.kind == Kind::kUnsigned);
  }
  if (from.kind != Kind::kFloat) {
    return to.precision < from.precision || to.max_exponent < from.max_exponent;
  }
  // The largest number may round to more than there is.
  return to.max_exponent < from.max_exponent ||
         (to.max_exponent == from.max_exponent &&
          to.precision < from.precision) ||
         to.min_exponent > from.min_exponent ||
         (from.has_infinity && !to.has_infinity);
}

constexpr double PowerOfTwo(int exponent) {
  double power = 1;
  for (; exponent > 0; --exponent) power *= 2;
  for (; exponent < 0; ++exponent) power /= 2;
  return power;
}

// From where on a number rounds to infinity or, where there is none, to more
// than the largest number; infinity if no double does.
constexpr double FirstTooLarge(DType to) {
  const NumberRange range = RangeOf(to);
  if (range.precision == 53) return std::numeric_limits<double>::infinity();
  // Half a unit above 448, where 480 would be a NaN, 448 is nearest still.
  if (!range.has_infinity) return 464 + PowerOfTwo(-44);
  return (2 - PowerOfTwo(-range.precision)) * PowerOfTwo(range.max_exponent);
}

// The largest number that rounds to 0; 0 if no double does.
constexpr double LastVanishing(DType to) {
  const NumberRange range = RangeOf(to);
  return range.precision == 53 ? 0 : PowerOfTwo(range.min_exponent - 1);
}

// How a value changes by more than rounding, each 0 or 1. See Loss.
struct LossFlags {
  int64_t too_large = 0;
  int64_t not_finite = 0;
  int64_t changed = 0;

  constexpr LossFlags operator|(LossFlags other) const {
    return {too_large | other.too_large, not_finite | other.not_finite,
            changed | other.changed};
  }
};

// Whether a float with so many bits of mantissa has this integer, if it is not
// too large for it.
template <int kPrecision>
constexpr bool IsExact(uint64_t magnitude) {
  const uint64_t last_bit = magnitude & (0 - magnitude);
  return ((magnitude >> kPrecision) < last_bit) | (magnitude == 0);
}

inline uint64_t MagnitudeOf(uint64_t value) { return value; }
inline uint64_t MagnitudeOf(int64_t value) {
  const auto bits = static_cast<uint64_t>(value);
  return value < 0 ? 0 - bits : bits;
}

template <DType kTo>
LossFlags LossInFloat(double value) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kFirst = FirstTooLarge(kTo);
  constexpr double kVanishes = LastVanishing(kTo);
  constexpr int kLacksInfinity = RangeOf(kTo).has_infinity ? 0 : 1;
  const double magnitude = std::fabs(value);
  return {.too_large = (magnitude >= kFirst) & (magnitude < kInfinity),
          .not_finite = kLacksInfinity & (magnitude == kInfinity),
          .changed = (magnitude > 0) & (magnitude <= kVanishes)};
}

template <DType kTo, typename Integer>
LossFlags LossInFloat(Integer value) {
  constexpr double kBound = FirstTooLarge(kTo);
  constexpr bool kFits = kBound > 18446744073709551615.0;
  constexpr uint64_t kLargest =
      kFits
          ? std::numeric_limits<uint64_t>::max()
          : static_cast<uint64_t>(
                kBound == static_cast<uint64_t>(kBound) ? kBound - 1 : kBound);
  const uint64_t magnitude = MagnitudeOf(value);
  const bool is_too_large = magnitude > kLargest;
  return {
      .too_large = is_too_large,
      .changed = !is_too_large & !IsExact<RangeOf(kTo).precision>(magnitude)};
}

template <typename T>
LossFlags LossInInteger(double value) {
  using Limits = std::numeric_limits<T>;
  constexpr auto kLowest = static_cast<double>(Limits::min());
  // Where doubles have the integer below the smallest, what is above it is cut
  // to the smallest; else there is nothing between them.
  constexpr bool kHasBelow = kLowest - 1 < kLowest;
  constexpr double kEnd = PowerOfTwo(Limits::digits);
  // Doubles from here on are integers, and a sum with it is rounded to one.
  constexpr double kUnits = PowerOfTwo(52);
  const double magnitude = std::fabs(value);
  const bool is_finite = magnitude < std::numeric_limits<double>::infinity();
  const bool is_below = kHasBelow ? value <= kLowest - 1 : value < kLowest;
  const bool is_out = is_below | (value >= kEnd);
  const bool has_fraction =
      (magnitude < kUnits) & ((magnitude + kUnits) - kUnits != magnitude);
  return {.too_large = is_finite & is_out,
          .not_finite = !is_finite,
          .changed = !is_out & has_fraction};
}

// The loss in a value that becomes a T. Requires that it is an integer, a float
// or a complex number in these wide types.
template <typename T, typename Wide>
LossFlags LossIn(Wide value) {
  constexpr DType kTo = DTypeOf<T>();
  constexpr NumberRange::Kind kKind = RangeOf(kTo).kind;
  if constexpr (std::is_same_v<Wide, std::complex<double>>) {
    return LossInFloat<kTo>(value.real()) | LossInFloat<kTo>(value.imag());
  } else if constexpr (kKind == NumberRange::Kind::kBool) {
    return {.changed = (value != Wide{0}) & (value != Wide{1})};
  } else if constexpr (kKind == NumberRange::Kind::kFloat) {
    return LossInFloat<kTo>(value);
  } else if constexpr (std::is_same_v<Wide, double>) {
    return LossInInteger<T>(value);
  } else {
    return {.too_large = !std::in_range<T>(value)};
  }
}

// Elements of one dtype as elements of another.

// Returns whether there is a conversion: from every number to every number,
// but not from complex to real ones. Strings convert to strings only.
bool IsConvertible(DType from, DType to);

// How a conversion changes a value by more than rounding it to the nearest of
// two floats.
enum class Loss : uint8_t {
  // A finite value is too large: it becomes infinity, the largest number, or an
  // end of the range of integers.
  kTooLarge = 0,
  // A NaN or an infinity, which the dtype does not have.
  kNotFinite = 1,
  // Else: a number becomes 0, an integer loses its fraction, a float does not
  // hold an integer exactly, a bool is neither 0 nor 1.
  kChanged = 2,
};
inline constexpr size_t kNumLosses = 3;

// What conversions from one dtype to another have done so far. A complex value
// counts once for each kind.
struct ConversionLosses {
  using Element = std::array<std::byte, 16>;  // of any dtype, from its start

  int64_t values = 0;                             // that were converted
  std::array<int64_t, kNumLosses> counts = {};    // of them, by Loss
  std::array<Element, kNumLosses> examples = {};  // the first of each

  bool Any() const { return counts[0] + counts[1] + counts[2] > 0; }
};

// Returns whether values of `from` may be lost in `to`. Requires IsConvertible.
bool IsLossyConversion(DType from, DType to);

// Converts `count` elements, dense on both sides, which do not overlap.
// Requires IsConvertible, and no strings. What fits exactly is exact, and
//   - floats round to nearest even; what is too large becomes infinity, in
//     f8e4m3, which has none, the largest number;
//   - a NaN stays one, with its sign;
//   - floats are cut towards zero to integers, a NaN to 0, and integers stop
//     at the ends of their range;
//   - a bool is false for zero and true for all else, and counts as 0 or 1;
//   - real numbers get the imaginary part 0.
// Adds to `losses`, which may be null, what this loses.
void ConvertElements(DType from, const void* source, DType to, void* target,
                     int64_t count, ConversionLosses* losses = nullptr);

}  // namespace belay

#endif  // BELAY_CORE_ELEMENT_CONVERSION_H_
