#include "graph/attribute_fit.h"

#include "base/text.h"
#include "model/stored_form.h"

namespace belay {

std::string TypeText(const GraphAttribute& attribute) {
  if (attribute.has_handler()) return Cat(kTypeText, attribute.typestr);
  return FormText({attribute.dtype, attribute.shape});
}

bool IsSameKind(const GraphAttribute& stored, const GraphAttribute& needed) {
  if (needed.has_handler()) return true;
  return !stored.has_handler() && stored.dtype == needed.dtype &&
         stored.shape == needed.shape;
}

bool Fits(const GraphAttribute& stored, const GraphAttribute& needed,
          Tolerance tolerance) {
  if (stored.has_handler()) return false;
  return Fits(StoredForm{stored.dtype, stored.shape},
              StoredForm{needed.dtype, needed.shape}, tolerance);
}

}  // namespace belay
