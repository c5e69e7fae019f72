// Access to the elements of a tensor by their C++ type.

#ifndef BELAY_TOOLS_ELEMENTS_H_
#define BELAY_TOOLS_ELEMENTS_H_

#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "belay/arrays/dtype.h"
#include "belay/arrays/tensor.h"

namespace belay::tools {

// Calls visit(T{}) with the C++ type of a numeric dtype, and returns what it
// returns.
template <typename Visit>
auto VisitType(DType dtype, Visit&& visit) {
  switch (dtype) {
    case DType::kF16:
      return visit(Float16{});
    case DType::kBF16:
      return visit(BFloat16{});
    case DType::kF32:
      return visit(float{});
    case DType::kF64:
      return visit(double{});
    case DType::kF8E4M3:
      return visit(Float8E4M3{});
    case DType::kF8E5M2:
      return visit(Float8E5M2{});
    case DType::kI8:
      return visit(int8_t{});
    case DType::kI16:
      return visit(int16_t{});
    case DType::kI32:
      return visit(int32_t{});
    case DType::kI64:
      return visit(int64_t{});
    case DType::kU16:
      return visit(uint16_t{});
    case DType::kU32:
      return visit(uint32_t{});
    case DType::kU64:
      return visit(uint64_t{});
    case DType::kBool:
      return visit(bool{});
    case DType::kC64:
      return visit(std::complex<float>{});
    case DType::kC128:
      return visit(std::complex<double>{});
    default:  // kU8; a string has no elements
      return visit(uint8_t{});
  }
}

template <typename T>
inline constexpr bool kIsComplex = std::is_same_v<T, std::complex<float>> ||
                                   std::is_same_v<T, std::complex<double>>;
// The types that C++ has no arithmetic for.
template <typename T>
inline constexpr bool kIsSmallFloat =
    std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16> ||
    std::is_same_v<T, Float8E4M3> || std::is_same_v<T, Float8E5M2>;
template <typename T>
inline constexpr bool kIsFloat =
    std::is_floating_point_v<T> || kIsSmallFloat<T>;

// The bit layout of a small float.
struct FloatFormat {
  int exponent_bits = 0;
  int mantissa_bits = 0;
  bool has_infinity = true;
};

template <typename T>
constexpr FloatFormat FormatOf() {
  if constexpr (std::is_same_v<T, Float16>) return {5, 10, true};
  if constexpr (std::is_same_v<T, BFloat16>) return {8, 7, true};
  if constexpr (std::is_same_v<T, Float8E5M2>) return {5, 2, true};
  return {4, 3, false};
}

// Returns the number that the bits of a small float represent.
inline double Decode(uint32_t bits, const FloatFormat& format) {
  const int mantissa_bits = format.mantissa_bits;
  const uint32_t top = (1U << format.exponent_bits) - 1;
  const uint32_t ones = (1U << mantissa_bits) - 1;
  const uint32_t exponent = bits >> mantissa_bits & top;
  const uint32_t mantissa = bits & ones;
  const bool is_negative = bits >> (format.exponent_bits + mantissa_bits) & 1U;
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  double value = 0;
  if (exponent == top && (format.has_infinity || mantissa == ones)) {
    const bool is_infinite = format.has_infinity && mantissa == 0;
    value = is_infinite ? std::numeric_limits<double>::infinity()
                        : std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    value = std::ldexp(mantissa, 1 - bias - mantissa_bits);
  } else {
    value = std::ldexp(mantissa + ones + 1,
                       static_cast<int>(exponent) - bias - mantissa_bits);
  }
  return is_negative ? -value : value;
}

// Converts a number to a type that C++ can calculate with; small floats become
// double.
template <typename T>
auto Number(T value) {
  if constexpr (kIsSmallFloat<T>) {
    return Decode(value.bits, FormatOf<T>());
  } else {
    return value;
  }
}

}  // namespace belay::tools

#endif  // BELAY_TOOLS_ELEMENTS_H_
