// Access to the members of a State.

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

// States with equal versions list the same memory under the same keys: they are
// the same State, or copies. The sizes tell a State that was moved from.
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
  static std::vector<Shard> TakeShards(State& state) {
    Change(state);
    return std::exchange(state.shards_, {});
  }

  bool operator==(const StateVersion&) const = default;
};

// The objects of Own, which a restore keeps from one round to the next,
// and the functions that find memory.
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
