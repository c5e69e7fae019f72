// What to do with newer steps when a program goes back to an older one.

#ifndef BELAY_MANAGER_NEWER_STEPS_H_
#define BELAY_MANAGER_NEWER_STEPS_H_

#include <cstdint>

#include "belay/cxx20.h"

namespace belay {

// A program restores a step that is not the newest, and continues from there.
// The newer steps belong to an abandoned branch. They must not be mistaken for
// steps that follow the restored one.
enum class NewerSteps : uint8_t {
  // They stay, and saving over them is an error.
  kRefuse,
  // They are moved, under their own names, to the directory
  // "<dir>/<prefix>.aside_0001", or with the next free number. It is a
  // directory of steps like any other.
  kSetAside,
  // They are deleted. A step is set aside instead if it is kept for good, was
  // not saved by a manager, is pinned, or contains files that belay did not
  // write.
  kDelete,
};

}  // namespace belay

#endif  // BELAY_MANAGER_NEWER_STEPS_H_
