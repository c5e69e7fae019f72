#include "plan/stored/stored_form.h"

#include "base/text.h"
#include "bytes/element_conversion.h"

namespace belay {

bool HaveSomeInCommon(const Shape& a, const Shape& b) {
  return (NumElements(a) > 0) == (NumElements(b) > 0);
}

bool Fits(const StoredForm& stored, const StoredForm& wanted,
          Tolerance tolerance) {
  const bool fits_dtype =
      stored.dtype == wanted.dtype ||
      (tolerance.dtype && IsConvertible(stored.dtype, wanted.dtype));
  const bool fits_shape =
      stored.shape == wanted.shape ||
      (tolerance.lengths && stored.shape.size() == wanted.shape.size() &&
       (tolerance.nothing || HaveSomeInCommon(stored.shape, wanted.shape)));
  return fits_dtype && fits_shape;
}

std::string FormText(const StoredForm& form) {
  return Cat(DTypeName(form.dtype), " ", ShapeText(form.shape));
}

Box StoredPart(const Box& wanted, const Shape& stored) {
  const Shape nothing(stored.size(), 0);
  return Intersect(wanted, WholeBox(stored))
      .value_or(Box{.offset = nothing, .shape = nothing});
}

}  // namespace belay
