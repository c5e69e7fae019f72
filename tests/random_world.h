// Random objects, with loops, sharing and odd names.

#ifndef BELAY_TESTS_RANDOM_WORLD_H_
#define BELAY_TESTS_RANDOM_WORLD_H_

#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "graph_testing.h"

namespace belay {

using Rng = std::mt19937_64;

inline const std::vector<std::string> kNames = {
    "a",  "b",     "w",  "layer/0", ".ATTRIBUTES", ".OPTIMIZER_SLOT", ".", "/",
    "..", "größe", ".S", "a.Sb",    "a/b",         "VARIABLE_VALUE",  "0"};

inline size_t Draw(Rng& rng, size_t below) { return rng() % below; }

struct World;

// Refers to others by their numbers, so that a world can be copied.
struct Object {
  World* world = nullptr;
  std::vector<std::pair<std::string, size_t>> children;
  std::map<std::string, int64_t> values;  // and their lengths
  std::vector<std::tuple<std::string, size_t, size_t>> slots;
  float memory[8] = {};

  void Track(Tracker& tracker);
};

struct World {
  std::vector<Object> objects;  // number 0 is the root
  size_t num_slots = 0;         // the last ones are slots

  std::set<size_t> Reachable() const {
    std::set<size_t> found = {0};
    for (size_t before = 0; before != found.size();) {
      before = found.size();
      for (const size_t i : std::set<size_t>(found)) {
        for (const auto& [name, to] : objects[i].children) found.insert(to);
      }
    }
    return found;
  }
  // Slots whose variable is not held by anybody would be a mistake.
  std::vector<std::tuple<std::string, size_t, size_t>> SlotsOf(
      size_t optimizer) const {
    std::vector<std::tuple<std::string, size_t, size_t>> slots;
    const std::set<size_t> reachable = Reachable();
    for (const auto& slot : objects[optimizer].slots) {
      if (reachable.count(std::get<1>(slot)) > 0) slots.push_back(slot);
    }
    return slots;
  }
  LiveGraph Track() {
    for (Object& object : objects) object.world = this;
    return Tracked(objects[0]);
  }
  size_t NumberOf(const LiveGraph& live, int32_t node) const {
    const void* address = live.ids[static_cast<size_t>(node)].address;
    return static_cast<size_t>(static_cast<const Object*>(address) -
                               objects.data());
  }
};

inline void Object::Track(Tracker& tracker) {
  for (auto& [name, length] : values) tracker.Value(name, {length}, memory);
  for (auto& [name, to] : children) tracker.Child(name, world->objects[to]);
  for (auto& [name, variable, slot] :
       world->SlotsOf(static_cast<size_t>(this - world->objects.data()))) {
    tracker.Slot(name, world->objects[variable], world->objects[slot]);
  }
}

inline void AddChild(Rng& rng, World& world, Object& object) {
  const std::string& name = kNames[Draw(rng, kNames.size())];
  for (const auto& child : object.children) {
    if (child.first == name) return;
  }
  object.children.emplace_back(
      name, Draw(rng, world.objects.size() - world.num_slots));
}

inline World DrawWorld(Rng& rng) {
  World world;
  const size_t num_objects = 1 + Draw(rng, 12);
  world.num_slots = Draw(rng, 4);
  world.objects.resize(num_objects + world.num_slots);
  for (size_t i = 0; i < world.objects.size(); ++i) {
    Object& object = world.objects[i];
    for (size_t n = Draw(rng, 3); n > 0; --n) {
      object.values[kNames[Draw(rng, kNames.size())]] =
          static_cast<int64_t>(Draw(rng, 8));
    }
    if (i >= num_objects) continue;
    for (size_t n = Draw(rng, 5); n > 0; --n) AddChild(rng, world, object);
  }
  for (size_t i = 0; i < world.num_slots; ++i) {
    // Names differ, so that no two slots are the same one.
    world.objects[Draw(rng, num_objects)].slots.emplace_back(
        "slot" + std::to_string(i), Draw(rng, num_objects), num_objects + i);
  }
  return world;
}

}  // namespace belay

#endif  // BELAY_TESTS_RANDOM_WORLD_H_
