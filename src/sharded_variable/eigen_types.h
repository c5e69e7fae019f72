// Which Eigen scalar stands for which dtype, and integers without overflow.

#ifndef BELAY_SHARDED_VARIABLE_EIGEN_TYPES_H_
#define BELAY_SHARDED_VARIABLE_EIGEN_TYPES_H_

#include <Eigen/Core>
#include <algorithm>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <type_traits>

#include "belay/arrays/dtype.h"

namespace belay {

// The dtype's scalar, as a value that a generic lambda can take.
template <typename T>
struct ScalarType {
  using type = T;
};

// Calls `visit(ScalarType<T>{})` with the scalar of the dtype, and returns what
// it returns; `otherwise()` for a dtype without arithmetic: f8 and strings.
template <typename Visit, typename Otherwise>
auto VisitScalarType(DType dtype, Visit&& visit, Otherwise&& otherwise) {
  switch (dtype) {
    case DType::kF16:
      return visit(ScalarType<Eigen::half>{});
    case DType::kBF16:
      return visit(ScalarType<Eigen::bfloat16>{});
    case DType::kF32:
      return visit(ScalarType<float>{});
    case DType::kF64:
      return visit(ScalarType<double>{});
    case DType::kI8:
      return visit(ScalarType<int8_t>{});
    case DType::kI16:
      return visit(ScalarType<int16_t>{});
    case DType::kI32:
      return visit(ScalarType<int32_t>{});
    case DType::kI64:
      return visit(ScalarType<int64_t>{});
    case DType::kU8:
      return visit(ScalarType<uint8_t>{});
    case DType::kU16:
      return visit(ScalarType<uint16_t>{});
    case DType::kU32:
      return visit(ScalarType<uint32_t>{});
    case DType::kU64:
      return visit(ScalarType<uint64_t>{});
    case DType::kBool:
      return visit(ScalarType<bool>{});
    case DType::kC64:
      return visit(ScalarType<std::complex<float>>{});
    case DType::kC128:
      return visit(ScalarType<std::complex<double>>{});
    default:
      return otherwise();
  }
}

template <typename T>
inline constexpr bool kIsBool = std::is_same_v<T, bool>;
template <typename T>
inline constexpr bool kIsInteger = std::is_integral_v<T> && !kIsBool<T>;
template <typename T>
inline constexpr bool kIsComplex = Eigen::NumTraits<T>::IsComplex;

// Dense elements as an Eigen array, at any address an element may have.
template <typename T>
using ArrayMap = Eigen::Map<Eigen::Array<T, Eigen::Dynamic, 1>>;
template <typename T>
using ConstArrayMap = Eigen::Map<const Eigen::Array<T, Eigen::Dynamic, 1>>;

template <typename T>
ArrayMap<T> MapOf(std::byte* data, int64_t count) {
  return ArrayMap<T>(reinterpret_cast<T*>(data), count);
}
template <typename T>
ConstArrayMap<T> MapOf(const std::byte* data, int64_t count) {
  return ConstArrayMap<T>(reinterpret_cast<const T*>(data), count);
}

// What integers are added and multiplied as: unsigned, where overflow is
// defined, and at least as wide as int, to which C++ promotes.
template <typename T>
using Wrapping = std::conditional_t<(sizeof(T) < sizeof(unsigned)), unsigned,
                                    std::make_unsigned_t<T>>;

struct WrappingAdd {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(static_cast<Wrapping<T>>(a) +
                          static_cast<Wrapping<T>>(b));
  }
};

struct WrappingSubtract {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(static_cast<Wrapping<T>>(a) -
                          static_cast<Wrapping<T>>(b));
  }
};

struct WrappingMultiply {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(static_cast<Wrapping<T>>(a) *
                          static_cast<Wrapping<T>>(b));
  }
};

// Cut towards zero. Requires b != 0.
struct WrappingDivide {
  template <typename T>
  T operator()(T a, T b) const {
    if constexpr (std::is_signed_v<T>) {
      // The one quotient that does not fit; the processor would trap.
      if (b == -1) return WrappingSubtract{}(T{0}, a);
    }
    return static_cast<T>(a / b);
  }
};

// The functions of two elements of a dtype.
template <typename T>
using AddOf = std::conditional_t<kIsInteger<T>, WrappingAdd, std::plus<>>;
template <typename T>
using SubtractOf =
    std::conditional_t<kIsInteger<T>, WrappingSubtract, std::minus<>>;
template <typename T>
using MultiplyOf =
    std::conditional_t<kIsInteger<T>, WrappingMultiply, std::multiplies<>>;
template <typename T>
using DivideOf =
    std::conditional_t<kIsInteger<T>, WrappingDivide, std::divides<>>;

// Returns the place of the first zero, or -1.
template <typename T>
int64_t FindZero(const std::byte* data, int64_t count) {
  const T* const begin = reinterpret_cast<const T*>(data);
  const T* const place = std::find(begin, begin + count, T{0});
  return place == begin + count ? -1 : place - begin;
}

}  // namespace belay

#endif  // BELAY_SHARDED_VARIABLE_EIGEN_TYPES_H_
