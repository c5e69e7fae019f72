// What becomes of the steps behind which a training goes back.

#ifndef BELAY_NEWER_STEPS_H_
#define BELAY_NEWER_STEPS_H_

#include <cstdint>

#include "belay/cxx20.h"

namespace belay {

// A program restores a step that is not the newest, and goes on from there. The
// newer steps are of a branch that is given up, and nobody must take them for
// what comes after.
enum class NewerSteps : uint8_t {
  // They stay, and to save over them is an error.
  kRefuse,
  // They are moved to a directory of their own, "<dir>/<prefix>.aside_0001" or
  // the next free number, under the names that they have. It is a directory of
  // steps as any other.
  kSetAside,
  // They are deleted; what is kept for good, was saved by no manager, is pinned
  // or has somebody else's files in it is set aside.
  kDelete,
};

}  // namespace belay

#endif  // BELAY_NEWER_STEPS_H_
