// The kinds of values of dtypes.

#ifndef BELAY_CORE_DTYPE_H_
#define BELAY_CORE_DTYPE_H_

#include "belay/arrays/dtype.h"

namespace belay {

enum class DTypeKind : uint8_t { kFloat, kInteger, kComplex, kBool, kString };

DTypeKind KindOf(DType dtype);

}  // namespace belay

#endif  // BELAY_CORE_DTYPE_H_
