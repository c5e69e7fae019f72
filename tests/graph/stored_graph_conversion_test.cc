#include <algorithm>
#include <type_traits>

#include "graph/object_graph.h"
#include "graph_testing.h"
#include "random_world.h"

namespace belay::stored_graph_conversion_test {
namespace {

// The array table of a checkpoint of this graph, with arrays that no object
// has around them.
std::vector<StoredArray> ArraysOf(const ObjectGraph& graph) {
  std::vector<StoredArray> arrays = {{"\x01"}, {"m"}, {"\x7f"}};
  for (const GraphNode& node : graph.nodes) {
    for (const GraphAttribute& attribute : node.attributes) {
      arrays.push_back({attribute.key, attribute.dtype, attribute.shape});
    }
  }
  std::sort(arrays.begin(), arrays.end(),
            [](const auto& a, const auto& b) { return a.key < b.key; });
  return arrays;
}

ObjectGraph RandomObjectGraph(Rng& rng) {
  World world = DrawWorld(rng);
  ObjectGraph graph = world.Track().graph;
  for (GraphNode& node : graph.nodes) {
    for (GraphAttribute& attribute : node.attributes) {
      attribute.opaque = Draw(rng, 4) == 0;
      if (Draw(rng, 2) == 0) attribute.layout = kNames[Draw(rng, 15)];
    }
  }
  return graph;
}

TEST(StoredGraphConversionTest, TheColumnsOfASmallGraph) {
  Thing w, m, model, adam, root;
  w.values = {{"VARIABLE_VALUE", 1.0f}};
  m.values = {{"VARIABLE_VALUE", 2.0f}};
  model.children = {{"w", w}};
  adam.values = {{"lr", 0.1f}};
  adam.children = {{"target", model}};
  adam.slots = {{"m", w, m}};
  root.children = {{"adam", adam}, {"model", model}};
  const ObjectGraph graph = Tracked(root).graph;
  const std::vector<StoredArray> arrays = ArraysOf(graph);
  StoredValues values;
  const StoredGraph stored = ToStoredGraph(graph, arrays, values).value();
  using Numbers = std::vector<int32_t>;
  using Names = std::vector<std::string>;
  // The model is first reached as the optimizer's target or as the root's
  // child: both are next to the root; the shortest path wins.
  EXPECT_EQ(stored.node_name, Names({"", "adam", "model", "w", "m"}));
  EXPECT_EQ(stored.node_parent, Numbers({-1, 0, 0, 2, 3}));
  EXPECT_EQ(stored.node_optimizer, Numbers({-1, -1, -1, -1, 1}));
  EXPECT_EQ(stored.child_holder, Numbers({0, 0, 1, 2}));
  EXPECT_EQ(stored.child_name, Names({"adam", "model", "target", "w"}));
  EXPECT_EQ(stored.child_node, Numbers({1, 2, 2, 3}));
  EXPECT_EQ(stored.attribute_node, Numbers({1, 3, 4}));
  EXPECT_EQ(stored.attribute_name,
            Names({"lr", "VARIABLE_VALUE", "VARIABLE_VALUE"}));
  EXPECT_EQ(arrays[stored.attribute_array[0]].key, "adam/.ATTRIBUTES/lr");
  EXPECT_EQ(arrays[stored.attribute_array[1]].key,
            "model/w/.ATTRIBUTES/VARIABLE_VALUE");
  EXPECT_EQ(stored.attribute_layout, Names({"", "", ""}));
  EXPECT_EQ(stored.attribute_opaque, std::vector<uint8_t>({0, 0, 0}));
  EXPECT_EQ(stored.slot_optimizer, Numbers({1}));
  EXPECT_EQ(stored.slot_variable, Numbers({3}));
  EXPECT_EQ(stored.slot_name, Names({"m"}));
  EXPECT_EQ(stored.slot_node, Numbers({4}));
}

TEST(StoredGraphConversionTest, RandomGraphsComeBack) {
  Rng rng(1);
  size_t values = 0, slots = 0;
  for (int round = 0; round < 1000; ++round) {
    const ObjectGraph graph = RandomObjectGraph(rng);
    const std::vector<StoredArray> arrays = ArraysOf(graph);
    StoredValues none;
    const StatusOr<StoredGraph> stored = ToStoredGraph(graph, arrays, none);
    ASSERT_EQ(stored.status(), absl::OkStatus());
    EXPECT_EQ(FindDamage(*stored, arrays.size()), "");
    ASSERT_EQ(FromStoredGraph(*stored, arrays).value(), graph) << round;
    values += stored->attribute_node.size();
    slots += stored->slot_node.size();
  }
  EXPECT_GT(values, 1000);
  EXPECT_GT(slots, 300);
}

// They are rows of another table, and come back behind the arrays.
TEST(StoredGraphConversionTest, ValuesWithHandlersComeBack) {
  Thing root, child;
  child.values = {{"a", 1.0f}, {"also", 1.0f}, {"any", 3.0f}, {"b", 2.0f}};
  root.children = {{"child", child}};
  ObjectGraph graph = Tracked(root).graph;
  const std::vector<StoredArray> arrays = ArraysOf(graph);
  std::vector<GraphAttribute>& attributes = graph.nodes[1].attributes;
  for (const size_t i : {1, 2}) {
    attributes[i].dtype = DType::kU8;
    attributes[i].typestr = i == 1 ? "csr" : "any";
  }
  StoredValues values{.key = {attributes[1].key},
                      .typestr = {"csr"},
                      .node = {-1},
                      .name = {""}};
  const StoredGraph stored = ToStoredGraph(graph, arrays, values).value();
  EXPECT_EQ(values.node, std::vector<int32_t>({1}));
  EXPECT_EQ(values.name, std::vector<std::string>({"also"}));
  EXPECT_EQ(stored.attribute_name, std::vector<std::string>({"a", "any", "b"}));
  ObjectGraph expected = graph;
  std::vector<GraphAttribute>& found = expected.nodes[1].attributes;
  std::rotate(found.begin() + 1, found.begin() + 2, found.end());
  // One that is an array for other readers is one for us as well.
  found[1].dtype = DType::kF32;
  found[1].typestr = "";
  EXPECT_EQ(FromStoredGraph(stored, arrays, values).value(), expected);
  values.node = {2};
  EXPECT_EQ(FromStoredGraph(stored, arrays, values).status(),
            absl::DataLossError("read object graph \"\": values/node of row 0 "
                                "is out of range"));
  StoredValues none;
  EXPECT_TRUE(ToStoredGraph(graph, arrays, none).ok());  // it is an array, too
}

TEST(StoredGraphConversionTest, EveryValueMustBeAnArray) {
  Thing root;
  root.values = {{"b", 1.0f}};
  const ObjectGraph graph = Tracked(root).graph;
  const std::string failed = "store object graph \"/.ATTRIBUTES/b\": ";
  const auto store = [&](std::vector<StoredArray> arrays) {
    StoredValues none;
    return ToStoredGraph(graph, arrays, none).status();
  };
  const Status none =
      absl::InternalError(failed + "the checkpoint has no such array");
  EXPECT_EQ(store({}), none);
  EXPECT_EQ(store({{"/.ATTRIBUTES/a"}, {"/.ATTRIBUTES/c"}}), none);
  EXPECT_EQ(store({{"/.ATTRIBUTES/b", DType::kF64, {}}}),
            absl::InternalError(failed + "the array is another one (need f32 "
                                         "[], found f64 [])"));
  EXPECT_EQ(store({{"/.ATTRIBUTES/b", DType::kF32, {1}}}),
            absl::InternalError(failed + "the array is another one (need f32 "
                                         "[], found f32 [1])"));
  EXPECT_EQ(store({{"/.ATTRIBUTES/b", DType::kF32, {}}}), absl::OkStatus());
}

TEST(StoredGraphConversionTest, DamageIsNamed) {
  EXPECT_EQ(FromStoredGraph({}, {}).status(),
            absl::DataLossError("check object graph \"\": it has no root"));
  StoredGraph stored;
  stored.node_parent = {-1};
  stored.node_optimizer = {-1, -1};
  stored.node_name = {""};
  EXPECT_EQ(FromStoredGraph(stored, {}).status(),
            absl::DataLossError(
                "read object graph \"\": column \"graph/nodes/optimizer\" has "
                "the wrong length (need 1 rows, found 2)"));
}

// A graph that was let through can be used without fear.
void UseGraph(const ObjectGraph& graph) {
  ASSERT_EQ(CheckGraph(graph), absl::OkStatus());
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    PrettyName(graph, static_cast<int32_t>(i));
  }
  HaveValues(graph);
  ObjectNames(graph);
  EXPECT_EQ(DecodeGraph(EncodeGraph(graph)).value(), graph);
}

TEST(StoredGraphConversionTest, NoOtherNumberCrashes) {
  Rng rng(3);
  int refused = 0, taken = 0;
  for (int round = 0; round < 100; ++round) {
    const ObjectGraph graph = RandomObjectGraph(rng);
    const std::vector<StoredArray> arrays = ArraysOf(graph);
    StoredValues none;
    StoredGraph stored = ToStoredGraph(graph, arrays, none).value();
    const auto look = [&] {
      const StatusOr<ObjectGraph> found = FromStoredGraph(stored, arrays);
      if (found.ok()) UseGraph(*found);
      if (!found.ok()) {
        EXPECT_TRUE(absl::IsDataLoss(found.status())) << found.status();
      }
      ++(found.ok() ? taken : refused);
    };
    ForEachGraphColumn(stored, [&](std::string_view, auto& column) {
      using Row = typename std::decay_t<decltype(column)>::value_type;
      for (Row& row : column) {
        const Row old = row;
        if constexpr (std::is_same_v<Row, std::string>) {
          row.clear();
          look();
        } else {
          for (const int64_t other :
               {int64_t{-2}, int64_t{-1}, int64_t{0}, int64_t{1}, int64_t{2},
                int64_t{old} + 1, int64_t{old} - 1, int64_t{INT32_MAX},
                int64_t{INT32_MIN}, int64_t{1} << 31}) {
            row = static_cast<Row>(other);
            look();
          }
        }
        row = old;
      }
    });
  }
  EXPECT_GT(refused, 10000);
  EXPECT_GT(taken, 1000);
}

}  // namespace
}  // namespace belay::stored_graph_conversion_test
