// Access to private members of a State, and the shards of a variable.

#ifndef BELAY_STATE_STATE_H_
#define BELAY_STATE_STATE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "belay/sharded_variable.h"
#include "belay/state.h"

namespace belay {

// States with equal versions list the same memory under the same keys: they are
// the same State, or copies of it. The sizes reveal a moved-from State.
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

// The objects passed to Own, which a restore keeps from one round to the next,
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

// Returns a shard for each component with elements.
std::vector<Shard> ShardsOfVariable(std::string_view key,
                                    const ShardedVariable& variable);

// Makes the shard of a component ask the variable for its address at each use,
// because the variable may be assigned to or swapped. If the variable no longer
// has this component, the address is null. The result must outlive the shard.
std::shared_ptr<void> FollowVariable(ShardedVariable& variable, Shard& shard);

}  // namespace belay

#endif  // BELAY_STATE_STATE_H_
