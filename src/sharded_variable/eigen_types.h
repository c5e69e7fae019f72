// The Eigen scalar of each dtype, and integer arithmetic that wraps around.

#ifndef BELAY_SHARDED_VARIABLE_EIGEN_TYPES_H_
#define BELAY_SHARDED_VARIABLE_EIGEN_TYPES_H_

#include <Eigen/Core>
#include <algorithm>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <type_traits>

#include "belay/arrays/dtype.h"

namespace belay {

// A scalar type as a value that a generic lambda can take.
template <typename T>
struct ScalarType {
  using type = T;
};

// Returns visit(ScalarType<T>{}) with the scalar of the dtype. For a dtype
// without arithmetic, f8 or a string, returns a value-initialized result.
template <typename Visit>
auto VisitScalarType(DType dtype, Visit&& visit) {
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
      return decltype(visit(ScalarType<float>{}))();
  }
}

template <typename T>
inline constexpr bool kIsBool = std::is_same_v<T, bool>;
template <typename T>
inline constexpr bool kIsInteger = std::is_integral_v<T> && !kIsBool<T>;
template <typename T>
inline constexpr bool kIsComplex = Eigen::NumTraits<T>::IsComplex;
template <typename T>
inline constexpr bool kIsHalf =
    std::is_same_v<T, Eigen::half> || std::is_same_v<T, Eigen::bfloat16>;

// Half precision is computed as f32.
template <typename T>
using Real = std::conditional_t<kIsHalf<T>, float, T>;

// Dense elements as an Eigen array, at any address an element may have.
template <typename T>
auto MapOf(std::byte* data, int64_t count) {
  using Elements = Eigen::Array<T, Eigen::Dynamic, 1>;
  return Eigen::Map<Elements>(reinterpret_cast<T*>(data), count);
}
template <typename T>
auto MapOf(const std::byte* data, int64_t count) {
  using Elements = Eigen::Array<T, Eigen::Dynamic, 1>;
  return Eigen::Map<const Elements>(reinterpret_cast<const T*>(data), count);
}

// The type in which integers are computed: overflow of unsigned types is
// defined, and types narrower than int would be promoted to it.
template <typename T>
using Unsigned = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

template <typename Function>
struct Wrapping {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(
        Function{}(static_cast<Unsigned<T>>(a), static_cast<Unsigned<T>>(b)));
  }
};

template <typename T>
T WrappingNegate(T a) {
  return Wrapping<std::minus<>>{}(T{0}, a);
}

// Rounds towards zero. Requires b != 0.
struct WrappingDivide {
  template <typename T>
  T operator()(T a, T b) const {
    if constexpr (std::is_signed_v<T>) {
      // The one quotient that does not fit; the processor would trap.
      if (b == -1) return WrappingNegate(a);
    }
    return static_cast<T>(a / b);
  }
};

// The functions of two elements of a dtype.
template <typename T, typename Function>
using WrappingIfInteger =
    std::conditional_t<kIsInteger<T>, Wrapping<Function>, Function>;
template <typename T>
using AddOf = WrappingIfInteger<T, std::plus<>>;
template <typename T>
using SubtractOf = WrappingIfInteger<T, std::minus<>>;
template <typename T>
using MultiplyOf = WrappingIfInteger<T, std::multiplies<>>;

// Returns the position of the first zero, if any.
template <typename T>
std::optional<int64_t> FindZero(const std::byte* data, int64_t count) {
  const T* const begin = reinterpret_cast<const T*>(data);
  const T* const found = std::find(begin, begin + count, T{0});
  if (found == begin + count) return std::nullopt;
  return found - begin;
}

}  // namespace belay

#endif  // BELAY_SHARDED_VARIABLE_EIGEN_TYPES_H_
