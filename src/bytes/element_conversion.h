// Elements of one dtype as elements of another. Pure.

#ifndef BELAY_BYTES_ELEMENT_CONVERSION_H_
#define BELAY_BYTES_ELEMENT_CONVERSION_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "belay/arrays/dtype.h"

namespace belay {

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

#endif  // BELAY_BYTES_ELEMENT_CONVERSION_H_
