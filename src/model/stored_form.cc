#include "model/stored_form.h"

namespace belay {

Box StoredPart(const Box& wanted, const Shape& stored) {
  const Shape nothing(stored.size(), 0);
  return Intersect(wanted, WholeBox(stored))
      .value_or(Box{.offset = nothing, .shape = nothing});
}

}  // namespace belay
