// Element types of stored arrays.
//
// The numeric values are written to disk and never change or get reused.

#ifndef BELAY_ARRAYS_DTYPE_H_
#define BELAY_ARRAYS_DTYPE_H_

#include <complex>
#include <concepts>
#include <cstdint>
#include <ranges>
#include <string>
#include <string_view>
#include <type_traits>

#include "belay/status.h"

namespace belay {

// The type of one element. Stored little-endian.
enum class DType : uint8_t {
  kF16 = 1,     // IEEE binary16
  kBF16 = 2,    // upper half of a binary32
  kF32 = 3,     // IEEE binary32
  kF64 = 4,     // IEEE binary64
  kF8E4M3 = 5,  // 8-bit float, 4 exponent bits, no infinity
  kF8E5M2 = 6,  // 8-bit float, 5 exponent bits
  kI8 = 7,
  kI16 = 8,
  kI32 = 9,
  kI64 = 10,
  kU8 = 11,
  kU16 = 12,
  kU32 = 13,
  kU64 = 14,
  kBool = 15,    // one byte, 0 or 1
  kC64 = 16,     // two f32: real, imaginary
  kC128 = 17,    // two f64: real, imaginary
  kString = 18,  // one byte string of any length; always a scalar
};

// Returns the size of one element in bytes; 0 for kString. Local.
int64_t DTypeSize(DType dtype);

// Returns the lower-case name, such as "f32", "bf16" or "string". Local.
std::string_view DTypeName(DType dtype);

// Returns the type of that name, such as "f32", or "float32" as in NumPy and
// PyTorch. Local.
// Errors: InvalidArgument - unknown name; the message lists the known ones.
StatusOr<DType> ParseDType(std::string_view name);

// Returns whether `value` is the number of a known type. Local.
bool IsKnownDType(uint8_t value);

// Hold the bits of types that C++20 does not have. They have no arithmetic.
struct Float16 {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};
struct Float8E4M3 {
  uint8_t bits;
};
struct Float8E5M2 {
  uint8_t bits;
};

// The element types of an array: numbers, enums (stored as their numbers) and
// bytes.
template <typename T>
concept Element = ((std::is_arithmetic_v<T> || std::is_enum_v<T>)&&sizeof(T) <=
                       8 &&
                   !std::is_const_v<T>) ||
                  std::same_as<T, Float16> || std::same_as<T, BFloat16> ||
                  std::same_as<T, Float8E4M3> || std::same_as<T, Float8E5M2> ||
                  std::same_as<T, std::complex<float>> ||
                  std::same_as<T, std::complex<double>>;

// True if the elements of a range are const.
template <typename T>
inline constexpr bool kHasConstElements =
    std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<T>>>;

// Such as std::vector<float>, std::array<int, 3>, std::span<const double> and
// bool[4], but not strings such as "abc".
template <typename T>
concept ElementRange =
    std::ranges::contiguous_range<T> && std::ranges::sized_range<T> &&
    !std::same_as<std::remove_cvref_t<T>, std::string> &&
    !std::same_as<std::remove_cvref_t<T>, std::string_view> &&
    !(std::is_array_v<std::remove_reference_t<T>> && kHasConstElements<T> &&
      std::same_as<std::ranges::range_value_t<T>,
                   char>)&&Element<std::
                                       remove_cvref_t<
                                           std::ranges::range_reference_t<T>>>;

// Returns the DType that stores a T. Local. Does not compile for other types.
template <typename T>
constexpr DType DTypeOf() {
  if constexpr (std::is_same_v<T, Float16>) {
    return DType::kF16;
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return DType::kBF16;
  } else if constexpr (std::is_same_v<T, Float8E4M3>) {
    return DType::kF8E4M3;
  } else if constexpr (std::is_same_v<T, Float8E5M2>) {
    return DType::kF8E5M2;
  } else if constexpr (std::is_same_v<T, float>) {
    return DType::kF32;
  } else if constexpr (std::is_same_v<T, double>) {
    return DType::kF64;
  } else if constexpr (std::is_same_v<T, bool>) {
    return DType::kBool;
  } else if constexpr (std::is_same_v<T, std::complex<float>>) {
    return DType::kC64;
  } else if constexpr (std::is_same_v<T, std::complex<double>>) {
    return DType::kC128;
  } else if constexpr (std::is_same_v<T, std::string>) {
    return DType::kString;
  } else if constexpr (std::is_enum_v<T>) {
    return DTypeOf<std::underlying_type_t<T>>();  // also std::byte
  } else {
    static_assert(std::is_integral_v<T> && sizeof(T) <= 8,
                  "belay has no DType for this C++ type");
    constexpr bool kSigned = std::is_signed_v<T>;
    switch (sizeof(T)) {
      case 1:
        return kSigned ? DType::kI8 : DType::kU8;
      case 2:
        return kSigned ? DType::kI16 : DType::kU16;
      case 4:
        return kSigned ? DType::kI32 : DType::kU32;
      default:
        return kSigned ? DType::kI64 : DType::kU64;
    }
  }
}

}  // namespace belay

#endif  // BELAY_ARRAYS_DTYPE_H_
