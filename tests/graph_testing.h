// Objects for the tests of the object graph.

#ifndef BELAY_TESTS_GRAPH_TESTING_H_
#define BELAY_TESTS_GRAPH_TESTING_H_

#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "belay/trackable.h"
#include "graph/live_graph.h"
#include "graph/object_graph.h"
#include "gtest/gtest.h"

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

// The graph of an object that describes itself without a mistake.
inline LiveGraph Tracked(const ObjectRef& root,
                         const std::vector<Attached>& attached = {}) {
  StatusOr<LiveGraph> live = TrackObjects(root, 0, attached);
  EXPECT_EQ(live.status(), absl::OkStatus());
  if (!live.ok()) return {};
  EXPECT_EQ(CheckGraph(live->graph), absl::OkStatus());
  return *std::move(live);
}

inline std::string MistakeOf(const ObjectRef& root) {
  const StatusOr<LiveGraph> live = TrackObjects(root, 0);
  return std::string(live.status().message());
}

// All keys, by node.
inline std::vector<std::string> KeysOf(const ObjectGraph& graph) {
  std::vector<std::string> keys;
  for (const GraphNode& node : graph.nodes) {
    for (const auto& attribute : node.attributes) keys.push_back(attribute.key);
  }
  return keys;
}

}  // namespace belay

#endif  // BELAY_TESTS_GRAPH_TESTING_H_
