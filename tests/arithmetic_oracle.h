// What the tests of tensor arithmetic check against: plain loops over
// coordinates, one element at a time.

#ifndef BELAY_TESTS_ARITHMETIC_ORACLE_H_
#define BELAY_TESTS_ARITHMETIC_ORACLE_H_

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <type_traits>
#include <vector>

#include "belay/arrays/tensor.h"

namespace belay {

// The number of the element that stands at `at` of a result, whose last axes
// are those of `shape`; an axis of length 1 repeats.
inline int64_t RepeatedElement(const Shape& shape, const Shape& at) {
  int64_t element = 0;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const int64_t i = at[at.size() - shape.size() + axis];
    element = element * shape[axis] + (shape[axis] == 1 ? 0 : i);
  }
  return element;
}

template <typename Result, typename T, typename Function>
void ApplyFrom(size_t axis, Shape& at, const Tensor& a, const Tensor& b,
               Function function, Tensor& result) {
  if (axis == at.size()) {
    result.values<Result>()[RepeatedElement(result.shape(), at)] =
        function(a.values<T>()[RepeatedElement(a.shape(), at)],
                 b.values<T>()[RepeatedElement(b.shape(), at)]);
    return;
  }
  for (at[axis] = 0; at[axis] < result.shape()[axis]; ++at[axis]) {
    ApplyFrom<Result, T>(axis + 1, at, a, b, function, result);
  }
}

// function(x, y) of all elements of two tensors that broadcast to `shape`.
template <typename Result, typename T, typename Function>
Tensor Applied(const Shape& shape, const Tensor& a, const Tensor& b,
               Function function) {
  Tensor result(DTypeOf<Result>(), shape);
  Shape at(shape.size(), 0);
  ApplyFrom<Result, T>(0, at, a, b, function, result);
  return result;
}

// Equal bit for bit.
inline bool Same(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         (a.num_bytes() == 0 ||
          std::memcmp(a.data(), b.data(), a.num_bytes()) == 0);
}

// Random tensors and shapes.
class TensorDraw {
 public:
  explicit TensorDraw(uint64_t seed) : rng_(seed) {}

  int64_t Number(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(rng_);
  }

  // Any bits of an integer, any float of small magnitude.
  template <typename T>
  T Value() {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(rng_());
    } else {
      return static_cast<T>(Number(-4096, 4096)) / 256;
    }
  }

  template <typename T>
  Tensor Values(const Shape& shape, bool may_be_zero = true) {
    Tensor tensor(DTypeOf<T>(), shape);
    for (T& value : tensor.values<T>()) {
      value = Value<T>();
      if (!may_be_zero && value == T{0}) value = T{1};
    }
    return tensor;
  }

  Shape AnyShape() {
    Shape shape(Number(0, 4));
    for (int64_t& length : shape) {
      length = Number(0, 20) == 0 ? 0 : Number(1, 5);
    }
    return shape;
  }

  // A shape that broadcasts to `shape`.
  Shape AnySmaller(const Shape& shape) {
    Shape smaller(shape.begin() + Number(0, shape.size()), shape.end());
    for (int64_t& length : smaller) {
      if (Number(0, 2) == 0) length = 1;
    }
    return smaller;
  }

 private:
  std::mt19937_64 rng_;
};

// The bits of a number that half precision holds exactly. Not for zero.
inline uint16_t HalfBits(float value) {
  const int exponent = std::ilogb(value);
  const float fraction = std::fabs(value) / std::ldexp(1.0F, exponent) - 1;
  return static_cast<uint16_t>((std::signbit(value) ? 0x8000 : 0) |
                               ((exponent + 15) << 10) |
                               static_cast<int>(fraction * 1024));
}

inline uint16_t BFloatBits(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return static_cast<uint16_t>(bits >> 16);
}

}  // namespace belay

#endif  // BELAY_TESTS_ARITHMETIC_ORACLE_H_
