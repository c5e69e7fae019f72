// What a State holds, and whether it lists what it listed before.

#ifndef BELAY_STATE_STATE_H_
#define BELAY_STATE_STATE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "belay/state.h"

namespace belay {

// Tells whether a State lists what it listed before.

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

// What State::Own holds, from one round of a restore to the next, and the
// functions that say where memory lies.

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

#endif  // BELAY_STATE_STATE_H_
