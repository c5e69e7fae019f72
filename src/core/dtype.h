// The kinds of values of dtypes.

#ifndef BELAY_CORE_DTYPE_H_
#define BELAY_CORE_DTYPE_H_

#include "belay/arrays/dtype.h"

namespace belay {

enum class DTypeKind : uint8_t { kFloat, kInteger, kComplex, kBool, kString };

constexpr DTypeKind KindOf(DType dtype) {
  switch (dtype) {
    case DType::kF16:
    case DType::kBF16:
    case DType::kF32:
    case DType::kF64:
    case DType::kF8E4M3:
    case DType::kF8E5M2:
      return DTypeKind::kFloat;
    case DType::kC64:
    case DType::kC128:
      return DTypeKind::kComplex;
    case DType::kBool:
      return DTypeKind::kBool;
    case DType::kString:
      return DTypeKind::kString;
    default:
      return DTypeKind::kInteger;
  }
}

}  // namespace belay

#endif  // BELAY_CORE_DTYPE_H_
