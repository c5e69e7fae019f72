#include "graph/object_graph.h"

#include <memory>
#include <random>

#include "gmock/gmock.h"
#include "graph_testing.h"

namespace belay::object_graph_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kEnd = "/.ATTRIBUTES/VARIABLE_VALUE";

TEST(ObjectGraphTest, Escape) {
  EXPECT_EQ(EscapeName("plain"), "plain");
  EXPECT_EQ(EscapeName("a/b/c"), "a.Sb.Sc");
  EXPECT_EQ(EscapeName("c/"), "c.S");
  EXPECT_EQ(EscapeName("d/.S"), "d.S..S");
  EXPECT_EQ(EscapeName("d/.ATTRIBUTES/f"), "d.S..ATTRIBUTES.Sf");
  EXPECT_EQ(EscapeName("."), "..");
  EXPECT_EQ(EscapeName(".S"), "..S");
  EXPECT_EQ(EscapeName("größe"), "größe");
}

// TensorFlow's testVariableNameEscaping.
TEST(ObjectGraphTest, VariableNameEscaping) {
  float a = 0, b = 0, c = 0, d = 0, e = 0;
  Thing leaf{.values = {{"v", 0}}};
  Thing root{.children = {{"a/b/c", a},
                          {"b", b},
                          {"c/", c},
                          {"d/.S", d},
                          {"d/.ATTRIBUTES/f", e},
                          {"leaf", leaf}},
             .values = {{"v1", 0}}};
  EXPECT_THAT(KeysOf(Tracked(root).graph),
              ElementsAre("/.ATTRIBUTES/v1", "a.Sb.Sc" + kEnd, "b" + kEnd,
                          "c.S" + kEnd, "d.S..S" + kEnd,
                          "d.S..ATTRIBUTES.Sf" + kEnd, "leaf/.ATTRIBUTES/v"));
}

// TensorFlow's testNumberedPath.
TEST(ObjectGraphTest, NumberedPath) {
  float v = 0;
  Thing leaf{.children = {{"v", v}}};
  Thing root{.children = {{"leaf", leaf}}};
  EXPECT_THAT(KeysOf(Tracked(root).graph), ElementsAre("leaf/v" + kEnd));
}

// TensorFlow's testLocalNameValidation; the names come back as they were.
TEST(ObjectGraphTest, LocalNameValidation) {
  float a = 0;
  Thing leaf{.children = {{"a", a}}, .values = {{"x/y", 0}}};
  Thing root{.children = {{".ATTRIBUTES", leaf}}};
  const ObjectGraph graph = Tracked(root).graph;
  EXPECT_THAT(KeysOf(graph), ElementsAre("..ATTRIBUTES/.ATTRIBUTES/x.Sy",
                                         "..ATTRIBUTES/a" + kEnd));
  EXPECT_THAT(PathElements(graph, 2), ElementsAre(".ATTRIBUTES", "a"));
  EXPECT_EQ(graph.nodes[1].attributes[0].name, "x/y");
}

TEST(ObjectGraphTest, SharedObjectsAndLoops) {
  float x = 0;
  Thing first, second;
  first.children = {{"second", second}, {"x", x}};
  second.children = {{"first", first}, {"self", second}, {"x", x}};
  const ObjectGraph graph = Tracked(first).graph;
  ASSERT_EQ(graph.nodes.size(), 3);
  EXPECT_THAT(graph.nodes[1].children,
              ElementsAre(GraphChild{"first", 0}, GraphChild{"self", 1},
                          GraphChild{"x", 2}));
  EXPECT_THAT(KeysOf(graph), ElementsAre("x" + kEnd));
}

TEST(ObjectGraphTest, NodesComeBreadthFirstAndPathsAreShortest) {
  float deep = 0, flat = 0;
  Thing inner{.children = {{"deep", deep}, {"flat", flat}}};
  Thing outer{.children = {{"inner", inner}}};
  Thing root{.children = {{"outer", outer}, {"flat", flat}}};
  const LiveGraph live = Tracked(root, {{"deep", deep}});
  std::vector<std::string> names;
  for (int32_t i = 0; i < std::ssize(live.graph.nodes); ++i) {
    names.push_back(PrettyName(live.graph, i));
  }
  EXPECT_THAT(names, ElementsAre("(root)", "(root).outer", "(root).flat",
                                 "(root).deep", "(root).outer.inner"));
}

// The root's keyword arguments; TensorFlow's
// test_initialize_with_root_object_and_kwargs.
TEST(ObjectGraphTest, AttachedChildren) {
  float v = 0, other = 0;
  Thing root{.children = {{"v", v}}};
  EXPECT_EQ(Tracked(root, {{"v", v}, {"w", other}}).graph.nodes.size(), 3);
  EXPECT_EQ(TrackObjects(root, 0, {{"v", other}}).status(),
            absl::InvalidArgumentError(
                "track \"(root)\": the root has another child named \"v\" "
                "already"));
  EXPECT_THAT(TrackObjects(root, 0, {{"z", ObjectRef()}}).status().message(),
              HasSubstr("child \"z\" is null"));
}

struct Trained {
  float w = 1, b = 2, wm = 3, wv = 4, bm = 5;
  Thing model, adam, root;

  Trained() {
    model.children = {{"b", b}, {"w", w}};
    adam.values = {{"lr", 0}};
    adam.slots = {{"m", w, wm}, {"v", w, wv}, {"m", b, bm}};
    root.children = {{"adam", adam}, {"model", model}};
  }
};

TEST(ObjectGraphTest, SlotVariables) {
  Trained t;
  const ObjectGraph graph = Tracked(t.root).graph;
  EXPECT_THAT(
      KeysOf(graph),
      ElementsAre("adam/.ATTRIBUTES/lr", "model/b" + kEnd, "model/w" + kEnd,
                  "model/b/.OPTIMIZER_SLOT/adam/m" + kEnd,
                  "model/w/.OPTIMIZER_SLOT/adam/m" + kEnd,
                  "model/w/.OPTIMIZER_SLOT/adam/v" + kEnd));
  EXPECT_THAT(PathElements(graph, 6),
              ElementsAre("model", "w", ".OPTIMIZER_SLOT", "adam", "m"));
  EXPECT_EQ(PrettyName(graph, 6), "(root).adam's state 'm' for (root).model.w");
}

TEST(ObjectGraphTest, WrongSlots) {
  float w = 0, m = 0, stray = 0;
  Thing parent{.children = {{"x", stray}}};
  Thing root{.children = {{"w", w}, {"m", m}}, .slots = {{"m", w, m}}};
  EXPECT_EQ(MistakeOf(root),
            "track \"(root)\": slot \"m\" is an object that has another path "
            "as well: (root).m");
  root = {.children = {{"w", w}}, .slots = {{"m", stray, m}}};
  EXPECT_EQ(MistakeOf(root),
            "track \"(root)\": slot \"m\" is for a variable that is not a "
            "child of any object");
  root = {.children = {{"w", w}}, .slots = {{"m", w, m}, {"m", w, stray}}};
  EXPECT_EQ(MistakeOf(root), "track \"(root)\": two slots \"m\" for (root).w");
  root = {.children = {{"w", w}}, .slots = {{"m", w, parent}}};
  EXPECT_EQ(TrackObjects(root, 0).status(),
            absl::UnimplementedError("track \"(root)'s state 'm' for "
                                     "(root).w\": a slot cannot have children, "
                                     "as \"x\""));
  root = {.children = {{"w", w}}, .slots = {{"m", w, ObjectRef()}}};
  EXPECT_THAT(MistakeOf(root), HasSubstr("slot \"m\" is null"));
}

TEST(ObjectGraphTest, OnlyWhatLeadsToValuesHasValues) {
  Trained t;
  std::vector<Thing> empty(2);
  t.root.children.emplace_back("empty", empty);
  Thing back{.children = {{"root", t.root}}};
  t.root.children.emplace_back("back", back);
  const ObjectGraph graph = Tracked(t.root).graph;
  const std::vector<bool> have = HaveValues(graph);
  for (int32_t i = 0; i < std::ssize(graph.nodes); ++i) {
    const bool is_empty =
        PrettyName(graph, i).find("empty") != std::string::npos;
    EXPECT_EQ(have[static_cast<size_t>(i)], !is_empty) << PrettyName(graph, i);
  }
}

// A few names can make paths without end; they are counted before.
TEST(ObjectGraphTest, PathBytesAreNoLessThanThePaths) {
  Trained t;
  const ObjectGraph graph = Tracked(t.root).graph;
  int64_t bytes = 0;
  for (const ObjectInfo& object : ListObjects(graph)) {
    bytes += std::ssize(object.path);
  }
  EXPECT_GE(PathBytes(graph), bytes);
  EXPECT_LE(PathBytes(graph), 4 * bytes);
  ObjectGraph deep;
  deep.nodes.emplace_back();
  for (int32_t i = 0; i < 998; ++i) {
    deep.nodes.push_back({.parent = i, .name = std::string(1000, 'n')});
  }
  for (int i = 0; i < 20'000; ++i) {
    deep.nodes.push_back({.parent = 998, .name = "leaf"});
  }
  EXPECT_GT(PathBytes(deep), int64_t{19} << 30);
}

TEST(ObjectGraphTest, TheListingHasOneOfEachNode) {
  Trained t;
  const ObjectGraph graph = Tracked(t.root).graph;
  const std::vector<ObjectInfo> objects = ListObjects(graph);
  ASSERT_EQ(objects.size(), graph.nodes.size());
  for (size_t i = 0; i < objects.size(); ++i) {
    const GraphNode& node = graph.nodes[i];
    EXPECT_EQ(objects[i].path, PrettyName(graph, static_cast<int32_t>(i)));
    EXPECT_EQ(objects[i].parent, node.parent);
    EXPECT_EQ(objects[i].values.size(), node.attributes.size());
    EXPECT_EQ(objects[i].children.size(), node.children.size());
    EXPECT_EQ(objects[i].slots.size(), node.slots.size());
  }
  const ObjectInfo& adam = objects[1];
  EXPECT_EQ(adam.path, "(root).adam");
  EXPECT_EQ(adam.children.size(), 0);
  EXPECT_EQ(adam.values[0].name, "lr");
  EXPECT_EQ(adam.values[0].key, "adam/.ATTRIBUTES/lr");
  EXPECT_EQ(adam.slots[0].name, "m");
  EXPECT_EQ(objects[static_cast<size_t>(adam.slots[0].variable)].path,
            "(root).model.b");
  EXPECT_EQ(objects[static_cast<size_t>(adam.slots[0].object)].path,
            "(root).adam's state 'm' for (root).model.b");
}

TEST(ObjectGraphTest, BytesAndBack) {
  Trained t;
  const ObjectGraph graph = Tracked(t.root).graph;
  const StatusOr<ObjectGraph> decoded = DecodeGraph(EncodeGraph(graph));
  ASSERT_EQ(decoded.status(), absl::OkStatus());
  EXPECT_EQ(*decoded, graph);
  EXPECT_EQ(GraphFingerprint(*decoded), GraphFingerprint(graph));
  Trained other;
  EXPECT_EQ(GraphFingerprint(Tracked(other.root).graph),
            GraphFingerprint(graph));
  other.adam.values["decay"] = 0;
  EXPECT_NE(GraphFingerprint(Tracked(other.root).graph),
            GraphFingerprint(graph));
}

// Whatever the bytes are: a sound graph or DataLoss.
void ExpectSoundOrDataLoss(const std::string& bytes) {
  const StatusOr<ObjectGraph> decoded = DecodeGraph(bytes);
  if (!decoded.ok()) {
    EXPECT_EQ(decoded.status().code(), absl::StatusCode::kDataLoss);
    return;
  }
  EXPECT_EQ(CheckGraph(*decoded), absl::OkStatus());
  ListObjects(*decoded);
  ObjectNames(*decoded);
  HaveValues(*decoded);
}

TEST(ObjectGraphTest, DamagedBytesAreDataLoss) {
  Trained t;
  const std::string bytes = EncodeGraph(Tracked(t.root).graph);
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(DecodeGraph(bytes.substr(0, size)).status().code(),
              absl::StatusCode::kDataLoss);
  }
  EXPECT_FALSE(DecodeGraph(bytes + "x").ok());
  std::mt19937_64 rng(1);
  int num_refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string damaged = bytes;
    const int num_changes = 1 + static_cast<int>(rng() % 3);
    for (int i = 0; i < num_changes; ++i) {
      damaged[rng() % damaged.size()] =
          static_cast<char>(rng() % 2 == 0 ? rng() % 8 : rng());
    }
    num_refused += !DecodeGraph(damaged).ok();
    ExpectSoundOrDataLoss(damaged);
  }
  EXPECT_GT(num_refused, 10000);
  for (int round = 0; round < 20000; ++round) {
    std::string noise(rng() % 200, '\0');
    for (char& c : noise) c = static_cast<char>(rng() % 4);
    ExpectSoundOrDataLoss(noise);
  }
}

TEST(ObjectGraphTest, GraphsThatCannotBeAreRefused) {
  Trained t;
  const ObjectGraph good = Tracked(t.root).graph;
  const auto refused = [&](auto damage) {
    ObjectGraph graph = good;
    damage(graph.nodes);
    return std::string(CheckGraph(graph).message());
  };
  using Nodes = std::vector<GraphNode>;
  EXPECT_THAT(refused([](Nodes& n) { n.clear(); }), HasSubstr("no root"));
  EXPECT_THAT(refused([](Nodes& n) { n[0].children[0].node = 99; }),
              HasSubstr("a child is missing"));
  EXPECT_THAT(refused([](Nodes& n) { n[0].children[0].node = 6; }),
              HasSubstr("a child is a slot"));
  EXPECT_THAT(refused([](Nodes& n) { n[0].children[0].name = "x"; }),
              HasSubstr("no object holds it"));
  EXPECT_THAT(
      refused([](Nodes& n) { n[0].children.push_back(n[0].children[0]); }),
      HasSubstr("two children have one name"));
  EXPECT_THAT(refused([](Nodes& n) { n[1].slots[0].node = 0; }),
              HasSubstr("a slot is missing"));
  EXPECT_THAT(refused([](Nodes& n) { n[1].parent = 3; }),
              HasSubstr("has no path"));
  EXPECT_THAT(refused([](Nodes& n) { n[0].parent = 0; }),
              HasSubstr("is not a root"));
  EXPECT_THAT(refused([](Nodes& n) {
                n[5].children.push_back({"x", 1});
              }),
              HasSubstr("a slot has children"));
}

}  // namespace
}  // namespace belay::object_graph_test
