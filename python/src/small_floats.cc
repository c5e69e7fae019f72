#include "small_floats.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>

namespace belay::python {
namespace {

// Returns the value of a small float: a sign bit, `exponent_bits` bits of
// exponent, and the mantissa.
float SmallFloat(unsigned bits, int exponent_bits, int mantissa_bits,
                 bool has_infinity) {
  const unsigned most = (1u << exponent_bits) - 1;
  const unsigned exponent = (bits >> mantissa_bits) & most;
  const unsigned mantissa = bits & ((1u << mantissa_bits) - 1);
  const unsigned all_ones = (1u << mantissa_bits) - 1;
  const bool is_negative = (bits >> (exponent_bits + mantissa_bits)) & 1;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  float value = 0;
  if (exponent == most && (has_infinity || mantissa == all_ones)) {
    const bool is_nan = !has_infinity || mantissa != 0;
    value = is_nan ? std::numeric_limits<float>::quiet_NaN()
                   : std::numeric_limits<float>::infinity();
  } else if (exponent == 0) {
    value = std::ldexp(static_cast<float>(mantissa), 1 - bias - mantissa_bits);
  } else {
    value = std::ldexp(static_cast<float>(mantissa + all_ones + 1),
                       static_cast<int>(exponent) - bias - mantissa_bits);
  }
  return is_negative ? -value : value;
}

}  // namespace

bool IsMissingInNumpy(DType dtype) {
  return dtype == DType::kBF16 || dtype == DType::kF8E4M3 ||
         dtype == DType::kF8E5M2;
}

Tensor Widened(const Tensor& tensor) {
  Tensor wide(DType::kF32, tensor.shape());
  const std::span<float> values = wide.values<float>();
  for (size_t i = 0; i < values.size(); ++i) {
    const std::byte* const at = tensor.data() + i * DTypeSize(tensor.dtype());
    if (tensor.dtype() == DType::kBF16) {
      uint16_t upper = 0;
      std::memcpy(&upper, at, sizeof(upper));
      const uint32_t bits = uint32_t{upper} << 16;
      std::memcpy(&values[i], &bits, sizeof(bits));
    } else {
      const bool has_infinity = tensor.dtype() == DType::kF8E5M2;
      values[i] = SmallFloat(static_cast<unsigned>(*at), has_infinity ? 5 : 4,
                             has_infinity ? 2 : 3, has_infinity);
    }
  }
  return wide;
}

}  // namespace belay::python
