#include "graph/attribute_fit.h"

#include "base/element_conversion.h"
#include "base/text.h"

namespace belay {

std::string TypeText(const GraphAttribute& attribute) {
  if (attribute.has_handler()) return Cat("type ", attribute.typestr);
  return Cat(DTypeName(attribute.dtype), " ", ShapeText(attribute.shape));
}

bool IsSameKind(const GraphAttribute& stored, const GraphAttribute& needed) {
  if (needed.has_handler()) return true;
  return !stored.has_handler() && stored.dtype == needed.dtype &&
         stored.shape == needed.shape;
}

bool Fits(const GraphAttribute& stored, const GraphAttribute& needed,
          Tolerance tolerance) {
  if (stored.has_handler()) return false;
  const bool fits_dtype =
      stored.dtype == needed.dtype ||
      (tolerance.dtype && IsConvertible(stored.dtype, needed.dtype));
  const bool fits_shape =
      stored.shape == needed.shape ||
      (tolerance.lengths && stored.shape.size() == needed.shape.size());
  return fits_dtype && fits_shape;
}

}  // namespace belay
