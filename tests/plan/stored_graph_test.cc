#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "plan/stored_objects.h"
#include "stored_graph_testing.h"

namespace belay::stored_graph_test {
namespace {

constexpr size_t kArrays = 5;

std::string OutOfRange(const std::string& column, int row) {
  return "graph/" + column + " of row " + std::to_string(row) +
         " is out of range";
}

std::string WrongLength(const std::string& column, int need, int found) {
  return "column \"graph/" + column + "\" has the wrong length (need " +
         std::to_string(need) + " rows, found " + std::to_string(found) + ")";
}

TEST(StoredGraphTest, NothingIsWrongWithGoodColumns) {
  EXPECT_EQ(FindDamage({}, 0), "");
  EXPECT_EQ(FindDamage(SmallGraph(), kArrays), "");
  Random random(1);
  for (int i = 0; i < 200; ++i) {
    EXPECT_EQ(FindDamage(RandomGraph(kArrays, random), kArrays), "");
  }
}

TEST(StoredGraphTest, EveryColumnHasAnotherName) {
  std::vector<std::string> names;
  const StoredGraph graph = SmallGraph();
  ForEachGraphColumn(graph, [&](const char* name, const auto& column) {
    EXPECT_GT(column.size(), 0) << name;
    names.emplace_back(name);
  });
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::unique(names.begin(), names.end()), names.end());
  EXPECT_EQ(names.size() * sizeof(std::vector<int>), sizeof(StoredGraph));
}

// A row less, and a row more, in each column. The first column of a table says
// how many rows there are; so it is the second that is wrong then.
TEST(StoredGraphTest, EveryColumnHasTheRightLength) {
  const std::map<std::string, std::string> seconds = {
      {"nodes/parent", "nodes/optimizer"},
      {"children/holder", "children/name"},
      {"attributes/node", "attributes/name"},
      {"slots/optimizer", "slots/variable"}};
  int columns = 0;
  const StoredGraph good = SmallGraph();
  ForEachGraphColumn(good, [&](const std::string& path, const auto& column) {
    const std::string name = path.substr(std::string(".belay/graph/").size());
    const int rows = static_cast<int>(column.size());
    ++columns;
    for (const int other : {rows - 1, rows + 1}) {
      StoredGraph wrong = good;
      ForEachGraphColumn(wrong, [&](const std::string& at, auto& changed) {
        if (at == path) changed.resize(static_cast<size_t>(other));
      });
      const auto second = seconds.find(name);
      EXPECT_EQ(FindDamage(wrong, kArrays),
                second == seconds.end()
                    ? WrongLength(name, rows, other)
                    : WrongLength(second->second, other, rows));
    }
  });
  EXPECT_EQ(columns, 15);
}

struct BadRow {
  std::string column;
  int row;
  std::function<void(StoredGraph&)> change;
};

TEST(StoredGraphTest, EveryRowIsInRange) {
  const std::vector<BadRow> rows = {
      {"nodes/parent", 0, [](auto& g) { g.node_parent[0] = -2; }},
      {"nodes/parent", 4, [](auto& g) { g.node_parent[4] = 5; }},
      {"nodes/optimizer", 4, [](auto& g) { g.node_optimizer[4] = 5; }},
      {"nodes/optimizer", 1, [](auto& g) { g.node_optimizer[1] = -2; }},
      {"children/holder", 0, [](auto& g) { g.child_holder[0] = -1; }},
      {"children/holder", 3, [](auto& g) { g.child_holder[3] = 5; }},
      {"children/holder", 3, [](auto& g) { g.child_holder[3] = 0; }},
      {"children/node", 2, [](auto& g) { g.child_node[2] = -1; }},
      {"children/node", 2, [](auto& g) { g.child_node[2] = 5; }},
      {"attributes/node", 0, [](auto& g) { g.attribute_node[0] = -1; }},
      {"attributes/node", 3, [](auto& g) { g.attribute_node[3] = 5; }},
      {"attributes/node", 2, [](auto& g) { g.attribute_node[2] = 1; }},
      {"attributes/array", 1, [](auto& g) { g.attribute_array[1] = 5; }},
      {"attributes/array", 3, [](auto& g) { g.attribute_array[3] = ~0u; }},
      {"attributes/opaque", 0, [](auto& g) { g.attribute_opaque[0] = 2; }},
      {"slots/optimizer", 0, [](auto& g) { g.slot_optimizer[0] = -1; }},
      {"slots/optimizer", 0, [](auto& g) { g.slot_optimizer[0] = 5; }},
      {"slots/optimizer", 1,
       [](auto& g) {
         for (auto* c : {&g.slot_optimizer, &g.slot_variable, &g.slot_node}) {
           c->push_back(1);
         }
         g.slot_name.emplace_back("n");
       }},
      {"slots/variable", 0, [](auto& g) { g.slot_variable[0] = -1; }},
      {"slots/variable", 0, [](auto& g) { g.slot_variable[0] = 5; }},
      {"slots/node", 0, [](auto& g) { g.slot_node[0] = -1; }},
      {"slots/node", 0, [](auto& g) { g.slot_node[0] = 5; }},
  };
  for (const BadRow& row : rows) {
    StoredGraph graph = SmallGraph();
    row.change(graph);
    EXPECT_EQ(FindDamage(graph, kArrays), OutOfRange(row.column, row.row));
  }
  // The last rows that are good.
  StoredGraph graph = SmallGraph();
  graph.child_node[3] = 4;
  graph.attribute_array[0] = 4;
  EXPECT_EQ(FindDamage(graph, kArrays), "");
  EXPECT_EQ(FindDamage(graph, 4), OutOfRange("attributes/array", 0));
}

// Nothing can belong to a node where there are none.
TEST(StoredGraphTest, WithoutNodesThereIsNothingElse) {
  StoredGraph graph = SmallGraph();
  graph.node_parent.clear();
  graph.node_optimizer.clear();
  graph.node_name.clear();
  EXPECT_EQ(FindDamage(graph, kArrays), OutOfRange("children/holder", 0));
}

}  // namespace
}  // namespace belay::stored_graph_test
