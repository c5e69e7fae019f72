// Which values a conversion of dtypes changes by more than rounding them.
//
// Without branches, so that loops that count them stay loops of vectors.

#ifndef BELAY_BYTES_LOSSY_VALUES_H_
#define BELAY_BYTES_LOSSY_VALUES_H_

#include <bit>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

#include "belay/arrays/dtype.h"

namespace belay {

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

}  // namespace belay

#endif  // BELAY_BYTES_LOSSY_VALUES_H_
