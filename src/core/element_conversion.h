// Converts elements between dtypes, and finds the values that conversion
// changes.

#ifndef BELAY_CORE_ELEMENT_CONVERSION_H_
#define BELAY_CORE_ELEMENT_CONVERSION_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

#include "belay/arrays/dtype.h"

namespace belay {

enum class DTypeKind : uint8_t { kFloat, kInteger, kComplex, kBool, kString };

DTypeKind FindKind(DType dtype);

// The range of a dtype's numbers; for a complex dtype, that of its parts.
struct NumberRange {
  enum class Kind : uint8_t { kFloat, kSigned, kUnsigned, kBool };
  Kind kind = Kind::kFloat;
  int precision = 0;     // bits of the mantissa, or of the largest integer
  int max_exponent = 0;  // largest e with 2^e in the range
  int min_exponent = 0;  // 2^e is the smallest number above 0
  bool has_infinity = true;
};

constexpr NumberRange FindNumberRange(DType dtype) {
  using Kind = NumberRange::Kind;
  constexpr struct {
    DType dtype;
    NumberRange range;
  } kRanges[] = {
      {DType::kF16, {Kind::kFloat, 11, 15, -24}},
      {DType::kBF16, {Kind::kFloat, 8, 127, -133}},
      {DType::kF8E4M3, {Kind::kFloat, 4, 8, -9, false}},
      {DType::kF8E5M2, {Kind::kFloat, 3, 15, -16}},
      {DType::kF32, {Kind::kFloat, 24, 127, -149}},
      {DType::kC64, {Kind::kFloat, 24, 127, -149}},
      {DType::kF64, {Kind::kFloat, 53, 1023, -1074}},
      {DType::kC128, {Kind::kFloat, 53, 1023, -1074}},
      {DType::kI8, {Kind::kSigned, 7, 7, 0, false}},
      {DType::kI16, {Kind::kSigned, 15, 15, 0, false}},
      {DType::kI32, {Kind::kSigned, 31, 31, 0, false}},
      {DType::kI64, {Kind::kSigned, 63, 63, 0, false}},
      {DType::kU8, {Kind::kUnsigned, 8, 7, 0, false}},
      {DType::kU16, {Kind::kUnsigned, 16, 15, 0, false}},
      {DType::kU32, {Kind::kUnsigned, 32, 31, 0, false}},
      {DType::kU64, {Kind::kUnsigned, 64, 63, 0, false}},
  };
  for (const auto& row : kRanges) {
    if (row.dtype == dtype) return row.range;
  }
  return {Kind::kBool, 1, 0, 0, false};
}

// A floating-point format: sign, exponent and mantissa bits. The largest
// exponent is used for infinity and NaN. A format without infinity has one NaN,
// all ones, and the other patterns with the largest exponent are numbers.
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
  // The pattern for overflow: infinity, or the largest number in a format
  // without infinity.
  constexpr uint64_t largest() const {
    if (!has_infinity) return sign() - 2;
    return sign() - (uint64_t{1} << mantissa_bits);
  }
};

// The format of a type that C++20 does not have. A double can represent each of
// its values.
template <typename T>
inline constexpr FloatFormat kFormatOf = {
    .exponent_bits = 8 * sizeof(T) - FindNumberRange(DTypeOf<T>()).precision,
    .mantissa_bits = FindNumberRange(DTypeOf<T>()).precision - 1,
    .has_infinity = FindNumberRange(DTypeOf<T>()).has_infinity};
inline constexpr FloatFormat kF64Format = {.exponent_bits = 11,
                                           .mantissa_bits = 52};

// Returns the bits of the nearest value; ties round to even. A NaN becomes the
// quiet NaN with the same sign.
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
  // From kMantissa + 2 on, the result is less than half a unit for any shift.
  const int shift = std::min(kMantissa - kFormat.mantissa_bits + exponent - own,
                             kMantissa + 2);
  const uint64_t below_half = (uint64_t{1} << (shift - 1)) - 1;
  const uint64_t is_odd = (significand >> shift) & 1;
  const uint64_t units = (significand + below_half + is_odd) >> shift;
  // The leading one of a normal number increments the exponent, as does a
  // carry.
  const uint64_t rounded = units + (static_cast<uint64_t>(exponent - kSmallest)
                                    << kFormat.mantissa_bits);
  return sign | std::min(rounded, kFormat.largest());
}

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
    // Subtracts the implicit leading one, which a subnormal number does not
    // have.
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

// Finds values that a conversion changes beyond rounding. The code has no
// branches, so that compilers vectorize loops that count them.

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
  // The largest number may round up past the largest value of `to`.
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

// Returns the smallest number that rounds to infinity or, in a format without
// infinity, past the largest number; infinity if no double does.
constexpr double FirstTooLarge(DType to) {
  const NumberRange range = FindNumberRange(to);
  if (range.precision == 53) return std::numeric_limits<double>::infinity();
  // f8e4m3 ends at 448, and the next pattern is NaN. Values up to half a unit
  // above 448 still round to 448.
  if (!range.has_infinity) return 464 + PowerOfTwo(-44);
  return (2 - PowerOfTwo(-range.precision)) * PowerOfTwo(range.max_exponent);
}

// Returns the largest number that rounds to 0; 0 if no double does.
constexpr double LastVanishing(DType to) {
  const NumberRange range = FindNumberRange(to);
  return range.precision == 53 ? 0 : PowerOfTwo(range.min_exponent - 1);
}

// How a value changes beyond rounding, each 0 or 1. See Loss.
struct LossFlags {
  int64_t too_large = 0;
  int64_t not_finite = 0;
  int64_t changed = 0;

  constexpr LossFlags operator|(LossFlags other) const {
    return {too_large | other.too_large, not_finite | other.not_finite,
            changed | other.changed};
  }
};

// Returns true if a float with kPrecision mantissa bits represents this integer
// exactly, assuming that it is in range.
template <int kPrecision>
constexpr bool IsExact(uint64_t magnitude) {
  const uint64_t last_bit = magnitude & (0 - magnitude);
  return ((magnitude >> kPrecision) < last_bit) | (magnitude == 0);
}

inline uint64_t FindMagnitude(uint64_t value) { return value; }
inline uint64_t FindMagnitude(int64_t value) {
  const auto bits = static_cast<uint64_t>(value);
  return value < 0 ? 0 - bits : bits;
}

template <DType kTo>
LossFlags LossInFloat(double value) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kFirst = FirstTooLarge(kTo);
  constexpr double kVanishes = LastVanishing(kTo);
  constexpr int kLacksInfinity = FindNumberRange(kTo).has_infinity ? 0 : 1;
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
  const uint64_t magnitude = FindMagnitude(value);
  const bool is_too_large = magnitude > kLargest;
  return {.too_large = is_too_large,
          .changed = !is_too_large &
                     !IsExact<FindNumberRange(kTo).precision>(magnitude)};
}

template <typename T>
LossFlags LossInInteger(double value) {
  using Limits = std::numeric_limits<T>;
  constexpr auto kLowest = static_cast<double>(Limits::min());
  // If a double can be between the smallest integer and the integer below it,
  // such a value is truncated to the smallest integer.
  constexpr bool kHasBelow = kLowest - 1 < kLowest;
  constexpr double kEnd = PowerOfTwo(Limits::digits);
  // Doubles of at least kUnits are integers, so adding kUnits rounds to an
  // integer.
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

// Returns the loss when `value`, a widened element, is converted to T.
template <typename T, typename Wide>
LossFlags LossIn(Wide value) {
  constexpr DType kTo = DTypeOf<T>();
  constexpr NumberRange::Kind kKind = FindNumberRange(kTo).kind;
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

// Any numeric dtype converts to any other, except complex to real. Strings
// convert only to strings.
bool IsConvertible(DType from, DType to);

// How a conversion changes a value beyond rounding.
enum class Loss : uint8_t {
  // A finite value out of range: it becomes infinity, the largest number, or an
  // end of the integer range.
  kTooLarge = 0,
  // A NaN or infinity that the target dtype does not have.
  kNotFinite = 1,
  // Other changes: a number becomes 0, an integer loses its fraction, a float
  // cannot represent an integer exactly, or a number other than 0 or 1 becomes
  // a bool.
  kChanged = 2,
};
inline constexpr size_t kNumLosses = 3;

// Accumulated losses of conversions from one dtype to another. A complex value
// is counted once per kind of loss.
struct ConversionLosses {
  using Element = std::array<std::byte, 16>;  // any dtype, from the start

  int64_t values = 0;                             // number of converted values
  std::array<int64_t, kNumLosses> counts = {};    // number lost, per Loss
  std::array<Element, kNumLosses> examples = {};  // first of each

  bool Any() const { return counts[0] + counts[1] + counts[2] > 0; }
};

// Returns true if converting from `from` to `to` may lose values. Requires
// IsConvertible.
bool IsLossyConversion(DType from, DType to);

// Converts `count` elements. Both sides are dense and do not overlap. Requires
// IsConvertible, and no strings. Values that fit stay exact; otherwise:
//   - Floats round to nearest even. Values out of range become infinity or, in
//     f8e4m3, which has no infinity, the largest number.
//   - A NaN stays a NaN, with its sign.
//   - Floats are truncated to integers; NaN becomes 0, and values out of range
//     become the nearest end of the integer range.
//   - Bools are false for zero, true otherwise, and convert to 0 or 1.
//   - Real numbers get the imaginary part 0.
// Adds to `losses`, which may be null.
void ConvertElements(DType from, const void* source, DType to, void* target,
                     int64_t count, ConversionLosses* losses = nullptr);

}  // namespace belay

#endif  // BELAY_CORE_ELEMENT_CONVERSION_H_
