// What a restore does with one value of the program. Plain values.

#ifndef BELAY_PLAN_RESTORE_CHOICE_H_
#define BELAY_PLAN_RESTORE_CHOICE_H_

#include <compare>
#include <string>

#include "belay/values/transform.h"

namespace belay {

// What may differ between a stored value and that of the program.
struct Tolerance {
  bool dtype = false;
  bool lengths = false;  // but not the number of axes
  bool nothing = false;  // with lengths: there may be no element in common

  friend auto operator<=>(const Tolerance&, const Tolerance&) = default;
};

struct RestoreChoice {
  bool skip = false;           // leave it as it is
  bool may_be_absent = false;  // leave it as it is if it is not stored
  std::string stored_key;      // empty: the program's
  Tolerance tolerance;
  Transform transform;  // not empty: what it is computed as
};

}  // namespace belay

#endif  // BELAY_PLAN_RESTORE_CHOICE_H_
