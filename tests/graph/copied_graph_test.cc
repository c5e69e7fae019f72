#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>

#include "graph/merge.h"
#include "graph/object_graph.h"

namespace belay::copied_graph_test {
namespace {

void AddChild(int32_t parent, const std::string& name, ObjectGraph& graph) {
  const auto child = static_cast<int32_t>(graph.nodes.size());
  graph.nodes[static_cast<size_t>(parent)].children.push_back(
      {.name = name, .node = child});
  graph.nodes.push_back({.parent = parent, .name = name});
}

// One megabyte of names, whose paths are 20 gigabytes.
ObjectGraph LongPaths() {
  ObjectGraph graph;
  graph.nodes.emplace_back();
  for (int32_t i = 0; i < 998; ++i) {
    AddChild(i, std::string(1000, 'n'), graph);
  }
  for (int i = 0; i < 20'000; ++i) {
    AddChild(998, "leaf" + std::to_string(i), graph);
  }
  return graph;
}

SavedCheckpoint WithGraph(const ObjectGraph& graph) {
  SavedCheckpoint saved;
  StoredValues values;
  saved.graph = ToStoredGraph(graph, {}, values).value();
  return saved;
}

TEST(CopiedGraphTest, LongPathsAreNotMade) {
  const ObjectGraph graph = LongPaths();
  const SavedCheckpoint saved = WithGraph(graph);
  CopyPlan plan;
  EXPECT_EQ(CopiedGraph(saved, plan).value(), graph);
  // The key says which object the array becomes a value of.
  plan.made = {{.key = "leaf0/.ATTRIBUTES/v"}};
  const Status made = CopiedGraph(saved, plan).status();
  EXPECT_TRUE(absl::IsResourceExhausted(made)) << made;
  EXPECT_EQ(made, CheckPathBytes(graph));
}

TEST(CopiedGraphTest, WhatRulesMakeBecomesAValueOfTheObjectOfItsKey) {
  ObjectGraph graph;
  graph.nodes.emplace_back();
  AddChild(0, "net", graph);
  const SavedCheckpoint saved = WithGraph(graph);
  CopyPlan plan;
  plan.made = {{.key = "net/.ATTRIBUTES/v"}};
  const std::optional<ObjectGraph> copied = CopiedGraph(saved, plan).value();
  ASSERT_TRUE(copied.has_value());
  ASSERT_EQ(copied->nodes[1].attributes.size(), 1);
  EXPECT_EQ(copied->nodes[1].attributes[0].name, "v");
  plan.made = {{.key = "other/.ATTRIBUTES/v"}};
  EXPECT_EQ(CopiedGraph(saved, plan).value(), std::nullopt);
}

}  // namespace
}  // namespace belay::copied_graph_test
