// The bits of floating-point formats that C++20 does not have.
//
// Every value of such a format is a double, so a double is what they are read
// to and rounded from.

#ifndef BELAY_BYTES_SMALL_FLOAT_H_
#define BELAY_BYTES_SMALL_FLOAT_H_

#include <algorithm>
#include <bit>
#include <cstdint>

namespace belay {

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

}  // namespace belay

#endif  // BELAY_BYTES_SMALL_FLOAT_H_
