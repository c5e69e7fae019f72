// Object graphs as columns, for the tests of the index.

#ifndef BELAY_TESTS_STORED_GRAPH_TESTING_H_
#define BELAY_TESTS_STORED_GRAPH_TESTING_H_

#include <set>
#include <string>

#include "model_testing.h"
#include "plan/stored_objects.h"
#include "plan/stored_values.h"

namespace belay {

// Any bytes that a name can have, seldom UTF-8.
inline std::string RandomName(Random& random) {
  std::string name(Uniform(0, 5, random), '\0');
  for (char& c : name) c = static_cast<char>(Uniform(1, 255, random));
  return name;
}

// Columns without damage, which seldom make a graph that CheckGraph likes.
inline StoredGraph RandomGraph(size_t num_arrays, Random& random) {
  StoredGraph graph;
  const int64_t nodes = Uniform(1, 6, random);
  const auto any_node = [&] {
    return static_cast<int32_t>(Uniform(0, nodes - 1, random));
  };
  for (int32_t i = 0; i < nodes; ++i) {
    graph.node_parent.push_back(any_node() - 1);
    graph.node_optimizer.push_back(any_node() - 1);
    graph.node_name.push_back(RandomName(random));
    for (int64_t n = Uniform(0, 2, random); n > 0; --n) {
      graph.child_holder.push_back(i);
      graph.child_name.push_back(RandomName(random));
      graph.child_node.push_back(any_node());
    }
    for (int64_t n = Uniform(0, 2, random); n > 0; --n) {
      graph.attribute_node.push_back(i);
      graph.attribute_name.push_back(RandomName(random));
      graph.attribute_array.push_back(static_cast<uint32_t>(
          Uniform(0, static_cast<int64_t>(num_arrays) - 1, random)));
      graph.attribute_layout.push_back(RandomName(random));
      graph.attribute_opaque.push_back(Uniform(0, 1, random) == 1);
    }
    for (int64_t n = Uniform(0, 1, random); n > 0; --n) {
      graph.slot_optimizer.push_back(i);
      graph.slot_variable.push_back(any_node());
      graph.slot_name.push_back(RandomName(random));
      graph.slot_node.push_back(any_node());
    }
  }
  return graph;
}

// The root holds "model", which holds "w" (the array "a"), and "größe", an
// optimizer with a number ("d/e"), opaque bytes ("b"), a slot for "w" ("d/f")
// and the model once more.
inline StoredGraph SmallGraph() {
  return {
      .node_parent = {-1, 0, 0, 1, 3},
      .node_optimizer = {-1, -1, -1, -1, 2},
      .node_name = {"", "model",
                    "gr\xc3\xb6\xc3\x9f"
                    "e",
                    "w", "m"},
      .child_holder = {0, 0, 1, 2},
      .child_name = {"model",
                     "gr\xc3\xb6\xc3\x9f"
                     "e",
                     "w", "target"},
      .child_node = {1, 2, 3, 1},
      .attribute_node = {2, 2, 3, 4},
      .attribute_name = {"step", "random", "VARIABLE_VALUE", "VARIABLE_VALUE"},
      .attribute_array = {3, 1, 0, 4},
      .attribute_layout = {"", "", "[x,-] on x=2", ""},
      .attribute_opaque = {0, 1, 0, 0},
      .slot_optimizer = {2},
      .slot_variable = {3},
      .slot_name = {"m"},
      .slot_node = {4}};
}

// Columns without damage, of a checkpoint that has so many arrays and nodes.
inline StoredValues RandomValues(size_t num_arrays, size_t num_nodes,
                                 Random& random) {
  StoredValues values;
  std::set<std::string> keys;
  for (int64_t n = Uniform(0, 4, random); n > 0; --n) {
    keys.insert("v" + RandomName(random));
  }
  for (const std::string& key : keys) {
    std::set<std::string> parts;
    for (int64_t n = Uniform(0, 3, random); n > 0 && num_arrays > 0; --n) {
      parts.insert(RandomName(random));
    }
    for (const std::string& part : parts) {
      values.part_value.push_back(static_cast<uint32_t>(values.key.size()));
      values.part_name.push_back(part);
      values.part_array.push_back(static_cast<uint32_t>(
          Uniform(0, static_cast<int64_t>(num_arrays) - 1, random)));
    }
    values.key.push_back(key);
    values.typestr.push_back("t" + RandomName(random));
    values.node.push_back(static_cast<int32_t>(
        Uniform(-1, static_cast<int64_t>(num_nodes) - 1, random)));
    values.name.push_back(RandomName(random));
  }
  return values;
}

// "d" has the parts "e" and "f"; nothing is stored of "n".
inline StoredValues SmallValues() {
  return {.key = {"d", "n"},
          .typestr = {"pair", "None"},
          .node = {-1, -1},
          .name = {"", ""},
          .part_value = {0, 0},
          .part_name = {"e", "f"},
          .part_array = {3, 4}};
}

}  // namespace belay

#endif  // BELAY_TESTS_STORED_GRAPH_TESTING_H_
