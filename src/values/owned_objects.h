// What State::Own holds, from one round of a restore to the next, and the
// functions that say where memory lies.

#ifndef BELAY_VALUES_OWNED_OBJECTS_H_
#define BELAY_VALUES_OWNED_OBJECTS_H_

#include <memory>
#include <utility>
#include <vector>

#include "belay/state.h"

namespace belay {

struct OwnedObjects {
  using Objects = std::vector<std::shared_ptr<void>>;

  static const Objects& Of(const State& state) { return state.kept_; }
  static const Objects& Functions(const State& state) {
    return state.functions_;
  }
  static void Set(Objects objects, State& state) {
    state.kept_ = std::move(objects);
  }
};

}  // namespace belay

#endif  // BELAY_VALUES_OWNED_OBJECTS_H_
