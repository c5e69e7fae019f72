#include <chrono>
#include <memory>

#include "gmock/gmock.h"
#include "graph/merge.h"
#include "graph_testing.h"

namespace belay::merge_graphs_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::string kEnd = "/.ATTRIBUTES/VARIABLE_VALUE";

// Merges the graphs of ranks 0, 1, ...
StatusOr<MergedGraph> Merge(const std::vector<ObjectGraph>& graphs) {
  std::vector<const ObjectGraph*> borrowed;
  std::vector<int> order;
  for (const ObjectGraph& graph : graphs) {
    order.push_back(static_cast<int>(borrowed.size()));
    borrowed.push_back(&graph);
  }
  StatusOr<MergedGraph> merged = MergeGraphs(ListRanks(borrowed, order));
  if (merged.ok()) {
    EXPECT_EQ(CheckGraph(merged->graph), absl::OkStatus());
  }
  return merged;
}

TEST(MergeGraphsTest, EqualGraphsAreMergedOnce) {
  float v = 0;
  Thing root{.children = {{"v", v}}};
  const ObjectGraph graph = Tracked(root).graph;
  const StatusOr<MergedGraph> merged =
      MergeGraphs({{.rank = 0, .graph = &graph},
                   {.rank = 1, .graph = &graph},
                   {.rank = 2, .graph = &graph}});
  ASSERT_EQ(merged.status(), absl::OkStatus());
  EXPECT_EQ(merged->graph, graph);
  EXPECT_THAT(merged->renames, ::testing::Each(IsEmpty()));
  EXPECT_EQ(merged->renames.size(), 3);
  EXPECT_FALSE(MergeGraphs({}).ok());
}

TEST(MergeGraphsTest, PipelineStages) {
  float a = 0, b = 0, step = 0;
  Thing layer0{.children = {{"w", a}}}, layer1{.children = {{"w", b}}};
  Thing model0{.children = {{"0", layer0}}},
      model1{.children = {{"1", layer1}}};
  Thing rank0{.children = {{"model", model0}, {"step", step}}};
  Thing rank1{.children = {{"model", model1}, {"step", step}}};
  const auto merged = Merge({Tracked(rank0).graph, Tracked(rank1).graph});
  ASSERT_EQ(merged.status(), absl::OkStatus());
  EXPECT_THAT(
      KeysOf(merged->graph),
      ElementsAre("step" + kEnd, "model/0/w" + kEnd, "model/1/w" + kEnd));
  EXPECT_THAT(merged->renames, ElementsAre(IsEmpty(), IsEmpty()));
}

// One rank reaches an object by a shorter path than the other, or knows two
// paths where the other has one.
TEST(MergeGraphsTest, OneObjectByOtherPaths) {
  float w = 0;
  Thing inner{.children = {{"w", w}}};
  Thing outer{.children = {{"inner", inner}}};
  Thing rank0{.children = {{"outer", outer}}};
  Thing rank1{.children = {{"outer", outer}, {"inner", inner}}};
  const auto merged = Merge({Tracked(rank0).graph, Tracked(rank1).graph});
  ASSERT_EQ(merged.status(), absl::OkStatus());
  EXPECT_THAT(KeysOf(merged->graph), ElementsAre("inner/w" + kEnd));
  EXPECT_THAT(merged->renames[0],
              ElementsAre(std::pair("outer/inner/w" + kEnd, "inner/w" + kEnd)));
  EXPECT_THAT(merged->renames[1], IsEmpty());
}

// Tied weights: only rank 0 knows that both names are one object.
TEST(MergeGraphsTest, SharingIsJoinedOverRanks) {
  float w = 0;
  Thing both{.children = {{"embedding", w}, {"head", w}}};
  Thing last{.children = {{"head", w}}};
  for (const bool swapped : {false, true}) {
    std::vector<ObjectGraph> graphs = {Tracked(both).graph,
                                       Tracked(last).graph};
    if (swapped) std::swap(graphs[0], graphs[1]);
    const auto merged = Merge(graphs);
    ASSERT_EQ(merged.status(), absl::OkStatus());
    EXPECT_EQ(merged->graph.nodes.size(), 2);
    EXPECT_EQ(merged->graph.nodes[0].children.size(), 2);
  }
}

TEST(MergeGraphsTest, LoopsAreUnited) {
  Thing a, b, c;
  a.children = {{"next", a}};
  a.values = {{"v", 0}};
  b.children = {{"next", c}};
  b.values = {{"v", 0}};
  c.values = {{"u", 0}};
  // Rank 0: the root is its own successor. Rank 1: it has another one, which
  // is the root where rank 0 looks.
  const auto merged = Merge({Tracked(a).graph, Tracked(b).graph});
  EXPECT_EQ(merged.status(),
            absl::InvalidArgumentError(
                "merge object graphs \"(root)\": \"(root)\" and "
                "\"(root).next\" are two objects on rank 1, and one object on "
                "rank 0"));
}

TEST(MergeGraphsTest, SharedHereAndDistinctThere) {
  float v = 0, w = 0;
  Thing one{.children = {{"v", v}}}, two{.children = {{"v", w}}};
  Thing sharing{.children = {{"a", one}, {"b", one}}};
  Thing distinct{.children = {{"a", one}, {"b", two}}};
  const ObjectGraph shared = Tracked(sharing).graph;
  EXPECT_EQ(Merge({shared, Tracked(distinct).graph, shared}).status(),
            absl::InvalidArgumentError(
                "merge object graphs \"(root)\": \"(root).a\" and \"(root).b\" "
                "are two objects on rank 1, and one object on ranks 0, 2"));
}

TEST(MergeGraphsTest, AllConflictsAreNamed) {
  float f = 0, g = 0;
  double d = 0;
  std::vector<float> two(2);
  std::string text;
  Thing rank0{.children = {{"dtype", f}, {"shape", g}, {"same", text}}};
  Thing rank1{.children = {{"dtype", d}, {"shape", two}, {"same", text}}};
  const auto opaque = [](Tracker& t) {
    t.Bytes(
        kVariableValue, [] { return std::string(); },
        [](const std::string&) { return absl::OkStatus(); });
  };
  Thing rank2{.children = {{"same", opaque}}};
  std::vector<ObjectGraph> graphs(6, Tracked(rank0).graph);
  graphs.push_back(Tracked(rank1).graph);
  graphs.push_back(Tracked(rank2).graph);
  EXPECT_EQ(Merge(graphs).status(),
            absl::InvalidArgumentError(
                "merge object graphs \"(root)\": \"dtype" + kEnd +
                "\" is f32 [] on ranks 0, 1, 2, 3, and 2 more and f64 [] on "
                "rank 6; \"shape" +
                kEnd +
                "\" is f32 [] on ranks 0, 1, 2, 3, and 2 more and f32 [2] on "
                "rank 6; \"same" +
                kEnd +
                "\" is string [] on ranks 0, 1, 2, 3, and 2 more and opaque "
                "bytes [] on rank 7"));
}

// Each rank keeps the slots of its own variables; the state of a variable may
// be on some ranks only.
TEST(MergeGraphsTest, Slots) {
  float w = 0, b = 0, m = 0, bm = 0;
  Thing adam0{.slots = {{"m", b, bm}, {"m", w, m}}};
  Thing adam1{.slots = {{"m", w, m}}};
  Thing rank0{.children = {{"adam", adam0}, {"b", b}, {"w", w}}};
  Thing rank1{.children = {{"w", w}, {"adam", adam1}}};
  const auto merged = Merge({Tracked(rank0).graph, Tracked(rank1).graph});
  ASSERT_EQ(merged.status(), absl::OkStatus());
  EXPECT_THAT(
      KeysOf(merged->graph),
      ElementsAre("b" + kEnd, "w" + kEnd, "b/.OPTIMIZER_SLOT/adam/m" + kEnd,
                  "w/.OPTIMIZER_SLOT/adam/m" + kEnd));
  ASSERT_EQ(merged->graph.nodes[1].slots.size(), 2);
  const auto swapped = Merge({Tracked(rank1).graph, Tracked(rank0).graph});
  ASSERT_EQ(swapped.status(), absl::OkStatus());
  EXPECT_EQ(swapped->graph.nodes.size(), 6);
}

// The keys of a rank after the merge are the keys at which its own objects
// stand in the merged graph.
TEST(MergeGraphsTest, EveryRankMatchesTheUnion) {
  float w = 0, v = 0;
  Thing inner{.children = {{"w", w}, {"v", v}}};
  Thing outer{.children = {{"inner", inner}}};
  Thing rank0{.children = {{"outer", outer}}};
  Thing rank1{.children = {{"outer", outer}, {"first", inner}}};
  const LiveGraph live = Tracked(rank0);
  const auto merged = Merge({live.graph, Tracked(rank1).graph});
  ASSERT_EQ(merged.status(), absl::OkStatus());
  const Restoration restoration{.saved = merged->graph};
  std::vector<std::pair<std::string, std::string>> by_match;
  for (const KeyedValue& read : MatchObjects(restoration, live, {}, 0).reads) {
    by_match.emplace_back(live.GetAttribute(live.values[read.value]).key,
                          read.key);
  }
  EXPECT_THAT(by_match,
              ::testing::UnorderedElementsAreArray(merged->renames[0]));
  EXPECT_EQ(by_match.size(), 2);
}

TEST(MergeGraphsTest, ManyValues) {
  std::vector<std::vector<float>> layers(100, std::vector<float>(1000));
  const auto root = [&](Tracker& t) {
    for (size_t i = 0; i < layers.size(); ++i) {
      t.Child("layer_" + std::to_string(i), [&layers, i](Tracker& layer) {
        for (size_t j = 0; j < layers[i].size(); ++j) {
          layer.Child("kernel_" + std::to_string(j), layers[i][j]);
        }
      });
    }
  };
  using Clock = std::chrono::steady_clock;
  const auto microseconds = [](Clock::duration d) {
    return std::chrono::duration<double, std::micro>(d).count() / 100000;
  };
  const auto start = Clock::now();
  const LiveGraph live = Tracked(root);
  const auto tracked = Clock::now();
  EXPECT_NE(GraphFingerprint(live.graph), 0);
  const auto fingerprinted = Clock::now();
  ASSERT_EQ(live.values.size(), 100000);
  ObjectGraph other = live.graph;
  other.nodes[0].attributes.push_back({.name = "more"});
  const auto before_merge = Clock::now();
  const auto merged = MergeGraphs(
      {{.rank = 0, .graph = &live.graph}, {.rank = 1, .graph = &other}});
  const auto after_merge = Clock::now();
  ASSERT_EQ(merged.status(), absl::OkStatus());
  EXPECT_EQ(merged->graph.nodes.size(), live.graph.nodes.size());
  std::cout << "us per value: naming " << microseconds(tracked - start)
            << ", fingerprint " << microseconds(fingerprinted - tracked)
            << ", merge of two " << microseconds(after_merge - before_merge)
            << "\n";
}

}  // namespace
}  // namespace belay::merge_graphs_test
