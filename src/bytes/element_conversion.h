// Elements of one dtype as elements of another. Pure.

#ifndef BELAY_BYTES_ELEMENT_CONVERSION_H_
#define BELAY_BYTES_ELEMENT_CONVERSION_H_

#include <cstdint>

#include "belay/arrays/dtype.h"

namespace belay {

// Returns whether there is a conversion: from every number to every number,
// but not from complex to real ones. Strings convert to strings only.
bool IsConvertible(DType from, DType to);

// Converts `count` elements, dense on both sides, which do not overlap.
// Requires IsConvertible, and no strings. What fits exactly is exact, and
//   - floats round to nearest even; what is too large becomes infinity, in
//     f8e4m3, which has none, the largest number;
//   - a NaN stays one, with its sign;
//   - floats are cut towards zero to integers, a NaN to 0, and integers stop
//     at the ends of their range;
//   - a bool is false for zero and true for all else, and counts as 0 or 1;
//   - real numbers get the imaginary part 0.
void ConvertElements(DType from, const void* source, DType to, void* target,
                     int64_t count);

}  // namespace belay

#endif  // BELAY_BYTES_ELEMENT_CONVERSION_H_
