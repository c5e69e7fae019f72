// How an update changes an element.

#ifndef BELAY_VARIABLE_UPDATE_OP_H_
#define BELAY_VARIABLE_UPDATE_OP_H_

#include <cstdint>
#include <string_view>

#include "belay/arrays/dtype.h"

namespace belay {

// The new value of an element x for an update value d. Integers wrap around;
// their quotient is rounded toward zero. min and max of a NaN and a number are
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

// Returns whether the op is defined for a dtype: kUpdate for all but strings;
// arithmetic for all but bool, f8 and strings; kMin and kMax for the same
// dtypes except complex numbers. Local.
bool IsUpdateDefined(UpdateOp op, DType dtype);

}  // namespace belay

#endif  // BELAY_VARIABLE_UPDATE_OP_H_
