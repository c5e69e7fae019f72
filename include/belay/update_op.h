// How an update changes an element.

#ifndef BELAY_UPDATE_OP_H_
#define BELAY_UPDATE_OP_H_

#include <cstdint>
#include <string_view>

#include "belay/dtype.h"

namespace belay {

// Element x becomes the following of x and its delta d. Integers wrap around;
// their quotient is cut towards zero. Of a NaN and a number, min and max are
// NaN.
enum class UpdateOp : uint8_t {
  kUpdate,  // d
  kAdd,     // x + d
  kSub,     // x - d
  kMul,     // x * d
  kDiv,     // x / d
  kMin,     // the smaller one
  kMax,     // the larger one
};

// Returns the lower-case name: "update", "add", "sub", "mul", "div", "min" or
// "max". Local.
std::string_view UpdateOpName(UpdateOp op);

// Returns whether the op can be applied to elements of that dtype: kUpdate to
// all but strings, arithmetic to all but bool, f8 and strings, and kMin and
// kMax not to complex numbers either. Local.
bool IsUpdateDefined(UpdateOp op, DType dtype);

}  // namespace belay

#endif  // BELAY_UPDATE_OP_H_
