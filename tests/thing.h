// An object for tests of what is tracked.

#ifndef BELAY_TESTS_THING_H_
#define BELAY_TESTS_THING_H_

#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "belay/objects/trackable.h"

namespace belay {

// An object whose children, values and slots a test sets at will, as one sets
// attributes in Python.
struct Thing {
  std::vector<std::pair<std::string, ObjectRef>> children;
  std::map<std::string, float> values;
  std::vector<std::tuple<std::string, ObjectRef, ObjectRef>> slots;

  void Track(Tracker& tracker) {
    for (auto& [name, value] : values) tracker.Value(name, value);
    for (auto& [name, child] : children) tracker.Child(name, child);
    for (auto& [name, variable, slot] : slots) {
      tracker.Slot(name, variable, slot);
    }
  }
};

}  // namespace belay

#endif  // BELAY_TESTS_THING_H_
