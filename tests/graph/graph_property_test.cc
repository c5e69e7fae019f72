// Random objects, with loops, sharing and odd names, against oracles that walk
// the objects themselves and know neither tables nor keys.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "gmock/gmock.h"
#include "graph_testing.h"
#include "random_world.h"

namespace belay::graph_property_test {
namespace {

void Change(Rng& rng, World& world) {
  Object& object = world.objects[Draw(rng, world.objects.size())];
  const size_t kind = Draw(rng, 6);
  const bool is_slot = static_cast<size_t>(&object - world.objects.data()) >=
                       world.objects.size() - world.num_slots;
  if (kind == 0 && !object.children.empty()) {
    object.children.erase(
        object.children.begin() +
        static_cast<int64_t>(Draw(rng, object.children.size())));
  } else if (kind == 1 && !object.children.empty()) {
    object.children[Draw(rng, object.children.size())].second =
        Draw(rng, world.objects.size() - world.num_slots);
  } else if (kind == 2 && !is_slot) {
    AddChild(rng, world, object);
  } else if (kind == 3 && !object.values.empty()) {
    object.values.erase(object.values.begin());
  } else if (kind == 4) {
    object.values[kNames[Draw(rng, kNames.size())]] =
        static_cast<int64_t>(Draw(rng, 8));
  } else if (kind == 5) {
    object.slots.clear();
  } else {
    std::shuffle(object.children.begin(), object.children.end(), rng);
  }
}

using Value = std::pair<size_t, std::string>;  // an object, a name

// What a match comes to, in objects and names.
struct Outcome {
  std::set<std::pair<Value, Value>> reads;  // program, checkpoint
  std::set<std::pair<Value, Value>> incompatible;
  std::set<Value> missing, unused;
  std::set<size_t> deferred;

  friend bool operator==(const Outcome&, const Outcome&) = default;
};

class Oracle {
 public:
  Oracle(const World& saved, const World& live) : saved_(saved), live_(live) {}

  Outcome Run() {
    Bind(0, 0);
    for (size_t i = 0; i < order_.size(); ++i) {
      const size_t s = order_[i];
      for (const auto& [name, to] : saved_.objects[s].children) {
        Follow(live_.objects[bound_.at(s)].children, name, to);
      }
    }
    for (const size_t s : BreadthFirst(saved_)) Slots(s);
    for (const size_t s : order_) Values(s);
    std::set<size_t> all = live_.Reachable();
    AddSlots(live_, all);
    for (const size_t l : all) {
      for (const auto& [name, length] : live_.objects[l].values) {
        if (taken_.count({l, name}) == 0) outcome_.missing.insert({l, name});
      }
    }
    all = saved_.Reachable();
    AddSlots(saved_, all);
    for (const size_t s : all) {
      for (const auto& [name, length] : saved_.objects[s].values) {
        if (used_.count({s, name}) == 0) outcome_.unused.insert({s, name});
      }
    }
    for (const size_t s : waiting_) {
      if (bound_.count(s) == 0 && HasValues(s)) outcome_.deferred.insert(s);
    }
    return outcome_;
  }

 private:
  static void AddSlots(const World& world, std::set<size_t>& all) {
    for (const size_t i : std::set<size_t>(all)) {
      for (const auto& slot : world.SlotsOf(i)) all.insert(std::get<2>(slot));
    }
  }

  static std::vector<size_t> BreadthFirst(const World& world) {
    std::vector<size_t> order = {0};
    for (size_t i = 0; i < order.size(); ++i) {
      for (const auto& [name, to] : world.objects[order[i]].children) {
        if (std::count(order.begin(), order.end(), to) == 0) {
          order.push_back(to);
        }
      }
    }
    return order;
  }

  void Bind(size_t s, size_t l) {
    if (bound_.emplace(s, l).second) order_.push_back(s);
  }

  void Follow(const std::vector<std::pair<std::string, size_t>>& children,
              const std::string& name, size_t to) {
    for (const auto& [live_name, live] : children) {
      if (live_name == name) return Bind(to, live);
    }
    waiting_.insert(to);
  }

  void Slots(size_t s) {
    for (const auto& [name, variable, slot] : saved_.SlotsOf(s)) {
      const bool has_optimizer = bound_.count(s) > 0;
      const bool has_variable = bound_.count(variable) > 0;
      bool found = false;
      if (has_optimizer && has_variable) {
        for (const auto& [n, v, live] : live_.SlotsOf(bound_.at(s))) {
          if (n != name || v != bound_.at(variable)) continue;
          found = true;
          Bind(slot, live);
        }
      }
      if (!found && (has_optimizer || has_variable)) waiting_.insert(slot);
    }
  }

  void Values(size_t s) {
    const size_t l = bound_.at(s);
    for (const auto& [name, length] : saved_.objects[s].values) {
      const auto& wanted = live_.objects[l].values;
      if (wanted.count(name) == 0) continue;
      used_.insert({s, name});
      const bool is_first = taken_.insert({l, name}).second;
      const std::pair<Value, Value> both = {{l, name}, {s, name}};
      if (wanted.at(name) != length) {
        outcome_.incompatible.insert(both);
      } else if (is_first) {
        outcome_.reads.insert(both);
      }
    }
  }

  bool HasValues(size_t s) {
    std::set<size_t> seen = {s};
    for (size_t before = 0; before != seen.size();) {
      before = seen.size();
      for (const size_t i : std::set<size_t>(seen)) {
        for (const auto& c : saved_.objects[i].children) seen.insert(c.second);
      }
    }
    return std::any_of(seen.begin(), seen.end(), [&](size_t i) {
      return !saved_.objects[i].values.empty() || !saved_.SlotsOf(i).empty();
    });
  }

  const World& saved_;
  const World& live_;
  std::map<size_t, size_t> bound_;
  std::vector<size_t> order_;
  std::set<size_t> waiting_;
  std::set<Value> used_, taken_;
  Outcome outcome_;
};

// All values of a tracked world by their keys.
std::map<std::string, Value> ByKey(const World& world, const LiveGraph& live) {
  std::map<std::string, Value> values;
  for (const LiveValue& value : live.values) {
    const auto& attribute = live.GetAttribute(value);
    const bool is_new =
        values
            .emplace(attribute.key,
                     Value(world.NumberOf(live, value.node), attribute.name))
            .second;
    EXPECT_TRUE(is_new) << "two values have the key " << attribute.key;
  }
  return values;
}

Outcome OutcomeOf(const World& saved_world, const LiveGraph& saved,
                  const World& live_world, const LiveGraph& live) {
  const auto stored = ByKey(saved_world, saved);
  const auto wanted = ByKey(live_world, live);
  // Through bytes, as between ranks and files.
  const Restoration restoration{
      .saved = DecodeGraph(EncodeGraph(saved.graph)).value()};
  const MatchResult match = MatchObjects(restoration, live, {}, 0);
  const LoadReport report =
      MakeLoadReport(restoration.saved, {match.rank_match}).value();
  Outcome outcome;
  for (const KeyedValue& read : match.reads) {
    const auto& value = live.values[read.value];
    outcome.reads.insert(
        {wanted.at(live.GetAttribute(value).key), stored.at(read.key)});
  }
  for (const auto& value : report.incompatible) {
    outcome.incompatible.insert(
        {wanted.at(value.key), stored.at(value.stored_key)});
  }
  for (const auto& value : report.missing) {
    outcome.missing.insert(wanted.at(value.key));
  }
  for (const auto& value : report.unused) {
    outcome.unused.insert(stored.at(value.stored_key));
  }
  for (size_t i = 0; i < match.rank_match.nodes.size(); ++i) {
    if (match.rank_match.nodes[i] != NodeMatch::kDeferred) continue;
    outcome.deferred.insert(
        saved_world.NumberOf(saved, static_cast<int32_t>(i)));
  }
  return outcome;
}

TEST(GraphPropertyTest, EverythingMatchesItself) {
  Rng rng(1);
  size_t num_values = 0;
  for (int round = 0; round < 500; ++round) {
    World world = DrawWorld(rng);
    const LiveGraph live = world.Track();
    const Outcome outcome = OutcomeOf(world, live, world, live);
    EXPECT_EQ(outcome.reads.size(), live.values.size());
    for (const auto& [wanted, stored] : outcome.reads) {
      EXPECT_EQ(wanted, stored);
    }
    EXPECT_TRUE(outcome.missing.empty() && outcome.unused.empty() &&
                outcome.incompatible.empty() && outcome.deferred.empty());
    const Restoration restoration{.saved = live.graph};
    const MatchResult match = MatchObjects(restoration, live, {}, 0);
    EXPECT_EQ(StatusOf(live.graph, match).AssertConsumed(), absl::OkStatus());
    num_values += live.values.size();
  }
  EXPECT_GT(num_values, 1500);
}

TEST(GraphPropertyTest, ChangedObjectsMatchAsTheOracleSays) {
  Rng rng(2);
  size_t reads = 0, incompatible = 0, missing = 0, unused = 0, deferred = 0;
  for (int round = 0; round < 5000; ++round) {
    World saved = DrawWorld(rng);
    World changed = saved;
    for (size_t n = Draw(rng, 10); n > 0; --n) Change(rng, changed);
    const LiveGraph saved_graph = saved.Track();
    const LiveGraph live = changed.Track();
    const Outcome expected = Oracle(saved, changed).Run();
    ASSERT_EQ(OutcomeOf(saved, saved_graph, changed, live), expected)
        << "round " << round;
    reads += expected.reads.size();
    incompatible += expected.incompatible.size();
    missing += expected.missing.size();
    unused += expected.unused.size();
    deferred += expected.deferred.size();
  }
  // The draw reaches the cases that matter.
  EXPECT_GT(reads, 5000);
  EXPECT_GT(incompatible, 100);
  EXPECT_GT(missing, 1000);
  EXPECT_GT(unused, 1000);
  EXPECT_GT(deferred, 300);
}

}  // namespace
}  // namespace belay::graph_property_test
