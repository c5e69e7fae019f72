// The form of an array where it is stored, which may be another one than the
// program's. Pure.

#ifndef BELAY_PLAN_STORED_STORED_FORM_H_
#define BELAY_PLAN_STORED_STORED_FORM_H_

#include <string>

#include "belay/arrays/box.h"
#include "belay/arrays/dtype.h"
#include "plan/restore_choice.h"

namespace belay {

struct StoredForm {
  DType dtype = DType::kU8;
  Shape shape;

  friend bool operator==(const StoredForm&, const StoredForm&) = default;
};

// Whether there is an element that both have, or neither has any: a restore of
// nothing would say nothing of what it left out. Requires as many axes.
bool HaveSomeInCommon(const Shape& a, const Shape& b);

// Whether values that are stored so may be restored as they are wanted. Where
// lengths may differ they need some in common.
bool Fits(const StoredForm& stored, const StoredForm& wanted,
          Tolerance tolerance);

// "f32 [4, 3]".
std::string FormText(const StoredForm& form);

// The part of a wanted box that is stored: what lies within the stored shape.
// Requires as many axes.
Box StoredPart(const Box& wanted, const Shape& stored);

}  // namespace belay

#endif  // BELAY_PLAN_STORED_STORED_FORM_H_
