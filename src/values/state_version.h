// Tells whether a State lists what it listed before.

#ifndef BELAY_VALUES_STATE_VERSION_H_
#define BELAY_VALUES_STATE_VERSION_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "belay/state.h"

namespace belay {

// Two States with equal versions list the same memory under the same keys: one
// is the other, or a copy. What was moved from has fewer values.
struct StateVersion {
  uint64_t number = 0;
  size_t num_shards = 0;
  size_t num_typed = 0;

  static StateVersion Of(const State& state) {
    return {state.version_, state.shards_.size(), state.typed_.size()};
  }
  static void Change(State& state) {
    static std::atomic<uint64_t> last{0};
    state.version_ = ++last;
  }
  // Leaves the State without them.
  static std::vector<Shard> TakeShards(State& state) {
    Change(state);
    return std::exchange(state.shards_, {});
  }

  bool operator==(const StateVersion&) const = default;
};

}  // namespace belay

#endif  // BELAY_VALUES_STATE_VERSION_H_
