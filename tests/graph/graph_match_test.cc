#include "graph/graph_match.h"

#include "gmock/gmock.h"
#include "graph_testing.h"

namespace belay::graph_match_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::string kEnd = "/.ATTRIBUTES/VARIABLE_VALUE";

TEST(GraphMatchTest, EverythingMatchesItself) {
  float w = 1, m = 2;
  Thing adam{.values = {{"lr", 3}}, .slots = {{"m", w, m}}};
  Thing root{.children = {{"w", w}, {"adam", adam}}};
  const LiveGraph live = Tracked(root);
  const auto stored = Stored(live);
  w = m = adam.values["lr"] = 0;
  Restorer restorer;
  Restoration restoration = restorer.Ask(live.graph);
  const LoadStatus status = restorer.Continue(restoration, live, stored);
  EXPECT_EQ(status.AssertConsumed(), absl::OkStatus());
  EXPECT_EQ(status.AssertExistingObjectsMatched(), absl::OkStatus());
  EXPECT_EQ(status.AssertNontrivialMatch(), absl::OkStatus());
  EXPECT_EQ(status.report().matched.size(), 3);
  EXPECT_EQ(w, 1);
  EXPECT_EQ(m, 2);
  EXPECT_EQ(adam.values["lr"], 3);
}

// TensorFlow's testLateDependencyTracking.
TEST(GraphMatchTest, LateDependencyTracking) {
  float v = 3;
  Thing original{.children = {{"a", v}}};
  Thing saved{.children = {{"dep", original}}};
  const LiveGraph stored = Tracked(saved);
  const auto values = Stored(stored);
  float late = 0;
  Thing fresh;
  Thing root{.children = {{"dep", fresh}}};
  Restorer restorer;
  Restoration restoration = restorer.Ask(stored.graph);
  LoadStatus status = restorer.Continue(restoration, Tracked(root), values);
  EXPECT_EQ(status.AssertExistingObjectsMatched(), absl::OkStatus());
  EXPECT_THAT(status.AssertConsumed().message(),
              HasSubstr("unresolved object in checkpoint (root).dep.a"));
  EXPECT_THAT(status.report().deferred, ElementsAre("(root).dep.a"));
  fresh.children = {{"a", late}};
  status = restorer.Continue(restoration, Tracked(root), values);
  EXPECT_EQ(status.AssertConsumed(), absl::OkStatus());
  EXPECT_THAT(status.report().deferred, IsEmpty());
  EXPECT_EQ(late, 3);
}

// TensorFlow's testDepAfterVar: the variable exists before it is attached.
TEST(GraphMatchTest, DepAfterVar) {
  float v = 14;
  Thing dep{.children = {{"var", v}}};
  Thing saved{.children = {{"dep", dep}}};
  const LiveGraph stored = Tracked(saved);
  const auto values = Stored(stored);
  float other = 0;
  Thing other_dep{.children = {{"var", other}}};
  Thing root;
  Restorer restorer;
  Restoration restoration = restorer.Ask(stored.graph);
  restorer.Continue(restoration, Tracked(root), values);
  EXPECT_EQ(other, 0);
  root.children = {{"dep", other_dep}};
  const LoadStatus status =
      restorer.Continue(restoration, Tracked(root), values);
  EXPECT_EQ(status.AssertConsumed(), absl::OkStatus());
  EXPECT_EQ(other, 14);
}

// What was read once is not read again, whatever happened to it since.
TEST(GraphMatchTest, ValuesAreReadOnce) {
  float v = 1, w = 2;
  Thing saved{.children = {{"v", v}, {"w", w}}};
  const LiveGraph stored = Tracked(saved);
  const auto values = Stored(stored);
  Thing root{.children = {{"v", v}}};
  Restorer restorer;
  Restoration restoration = restorer.Ask(stored.graph);
  restorer.Continue(restoration, Tracked(root), values);
  v = 7;  // training goes on
  w = 0;
  root.children.emplace_back("w", w);
  EXPECT_EQ(
      restorer.Continue(restoration, Tracked(root), values).AssertConsumed(),
      absl::OkStatus());
  EXPECT_EQ(v, 7);
  EXPECT_EQ(w, 2);
  Restoration again = restorer.Ask(stored.graph);
  restorer.Continue(again, Tracked(root), values);
  EXPECT_EQ(v, 1);
}

// A value that its object only has later.
TEST(GraphMatchTest, ValuesThatComeLater) {
  Thing saved{.values = {{"built", 5}}};
  const LiveGraph stored = Tracked(saved);
  Thing root;
  Restorer restorer;
  Restoration restoration = restorer.Ask(stored.graph);
  LoadStatus status =
      restorer.Continue(restoration, Tracked(root), Stored(stored));
  EXPECT_THAT(status.AssertConsumed().message(), HasSubstr("unused attribute"));
  const auto values = Stored(stored);
  root.values["built"] = 0;
  status = restorer.Continue(restoration, Tracked(root), values);
  EXPECT_EQ(status.AssertConsumed(), absl::OkStatus());
  EXPECT_EQ(root.values["built"], 5);
}

// TensorFlow's testOverlappingRestores: whatever the order in which things are
// attached, the restore that was asked for last determines the value.
TEST(GraphMatchTest, OverlappingRestores) {
  float v1 = 13, v2 = 12;
  Thing dep1{.children = {{"var", v1}}}, dep2{.children = {{"var", v2}}};
  Thing saved1{.children = {{"first", dep1}}};
  Thing saved2{.children = {{"second", dep2}}};
  const LiveGraph first = Tracked(saved1), second = Tracked(saved2);
  const auto values1 = Stored(first), values2 = Stored(second);
  for (const bool first_is_attached_last : {false, true}) {
    float var = 0;
    Thing dep{.children = {{"var", var}}};
    Thing root;
    Restorer restorer;
    Restoration restore1 = restorer.Ask(first.graph);
    Restoration restore2 = restorer.Ask(second.graph);
    restorer.Continue(restore1, Tracked(root), values1);
    restorer.Continue(restore2, Tracked(root), values2);
    for (const bool is_first :
         {!first_is_attached_last, first_is_attached_last}) {
      root.children.emplace_back(is_first ? "first" : "second", dep);
      // The newest first.
      restorer.Continue(restore2, Tracked(root), values2);
      restorer.Continue(restore1, Tracked(root), values1);
    }
    EXPECT_EQ(var, 12);
  }
}

// TensorFlow's testAmbiguousLoad: one stored object is not split into two.
TEST(GraphMatchTest, AmbiguousLoad) {
  float v = 1;
  Thing dep3{.children = {{"v", v}}};
  Thing dep1{.children = {{"dep3", dep3}}}, dep2{.children = {{"dep3", dep3}}};
  Thing saved{.children = {{"dep1", dep1}, {"dep2", dep2}}};
  float a = 0, b = 0;
  Thing a3{.children = {{"v", a}}}, b3{.children = {{"v", b}}};
  Thing a1{.children = {{"dep3", a3}}}, b2{.children = {{"dep3", b3}}};
  Thing root{.children = {{"dep1", a1}, {"dep2", b2}}};
  Restorer restorer;
  Restoration restoration = restorer.Ask(Tracked(saved).graph);
  const LoadStatus status = restorer.Continue(restoration, Tracked(root),
                                              {{"dep1/dep3/v" + kEnd, 1.0f}});
  EXPECT_THAT(status.AssertConsumed().message(),
              HasSubstr("2 objects not bound to checkpointed "
                        "values"));
  EXPECT_FALSE(status.AssertExistingObjectsMatched().ok());
  EXPECT_THAT(status.report().warnings,
              ElementsAre("Inconsistent references: (root).dep1.dep3 of the "
                          "checkpoint is (root).dep1.dep3, so it cannot be "
                          "(root).dep2.dep3"));
  EXPECT_EQ(a, 1);
  EXPECT_EQ(b, 0);
}

// TensorFlow's testObjectsCombined: two stored objects become one.
TEST(GraphMatchTest, ObjectsCombined) {
  float v1 = 1, v2 = 2;
  Thing dep1{.children = {{"v1", v1}}}, dep2{.children = {{"v2", v2}}};
  Thing saved{.children = {{"dep1", dep1}, {"dep2", dep2}}};
  const LiveGraph stored = Tracked(saved);
  const auto values = Stored(stored);
  float a = 0, b = 0;
  Thing both{.children = {{"v1", a}, {"v2", b}}};
  Thing root{.children = {{"dep1", both}, {"dep2", both}}};
  Restorer restorer;
  Restoration restoration = restorer.Ask(stored.graph);
  const LoadStatus status =
      restorer.Continue(restoration, Tracked(root), values);
  EXPECT_EQ(status.AssertConsumed(), absl::OkStatus());
  EXPECT_EQ(status.AssertExistingObjectsMatched(), absl::OkStatus());
  EXPECT_EQ(a, 1);
  EXPECT_EQ(b, 2);
}

// TensorFlow's testDependencyLoop, deferred and direct.
TEST(GraphMatchTest, DependencyLoop) {
  float v = 1, v2 = 2;
  Thing first, second;
  first.children = {{"second", second}, {"v", v}};
  second.children = {{"first", first}, {"v", v2}};
  const LiveGraph stored = Tracked(first);
  const auto values = Stored(stored);
  float a = 0, b = 0;
  Thing new_first, new_second;
  Restorer restorer;
  Restoration deferred = restorer.Ask(stored.graph);
  new_first.children = {{"v", a}};
  LoadStatus status = restorer.Continue(deferred, Tracked(new_first), values);
  EXPECT_THAT(status.report().deferred, ElementsAre("(root).second"));
  new_first.children.emplace_back("second", new_second);
  new_second.children = {{"first", new_first}, {"v", b}};
  status = restorer.Continue(deferred, Tracked(new_first), values);
  EXPECT_EQ(status.AssertConsumed(), absl::OkStatus());
  EXPECT_EQ(a, 1);
  EXPECT_EQ(b, 2);
  a = b = 0;
  Restoration direct = restorer.Ask(stored.graph);
  status = restorer.Continue(direct, Tracked(new_first), values);
  EXPECT_EQ(status.AssertConsumed(), absl::OkStatus());
  EXPECT_EQ(a, 1);
  EXPECT_EQ(b, 2);
}

// TensorFlow's testEmptyContainersIgnored and
// test_restore_after_adding_empty_trackable_data_structure.
TEST(GraphMatchTest, EmptyContainersIgnored) {
  int64_t counter = 1;
  std::vector<Thing> empty, also_empty;
  std::map<std::string, float> dict;
  std::vector<std::vector<Thing>> nested(1);
  Thing saved{.children = {{"a", empty}, {"save_counter", counter}}};
  Thing root{.children = {{"b", also_empty},
                          {"dep", nested},
                          {"dict", dict},
                          {"save_counter", counter}}};
  Restorer restorer;
  Restoration restoration = restorer.Ask(Tracked(saved).graph);
  const LoadStatus status = restorer.Continue(restoration, Tracked(root));
  EXPECT_EQ(status.AssertConsumed(), absl::OkStatus());
  EXPECT_EQ(status.AssertExistingObjectsMatched(), absl::OkStatus());
  // TensorFlow takes its save counter for a match.
  EXPECT_NE(status.AssertNontrivialMatch(), absl::OkStatus());
}

// TensorFlow's test_defer_objects_with_values_only.
TEST(GraphMatchTest, DeferObjectsWithValuesOnly) {
  float v = 1, w = 2;
  Thing bare, holder{.children = {{"bare", bare}}};
  Thing saved{.children = {{"v", v}, {"w", w}, {"holder", holder}}};
  Thing root;
  Restorer restorer;
  Restoration restoration = restorer.Ask(Tracked(saved).graph);
  const auto deferred = [&] {
    return restorer.Continue(restoration, Tracked(root)).report().deferred;
  };
  EXPECT_THAT(deferred(), ElementsAre("(root).v", "(root).w"));
  root.children.emplace_back("w", w);
  EXPECT_THAT(deferred(), ElementsAre("(root).v"));
  root.children.emplace_back("v", v);
  EXPECT_THAT(deferred(), IsEmpty());
}

// TensorFlow's testAttributeException: the object cannot take the value.
TEST(GraphMatchTest, AttributeException) {
  float v1 = 1, v2 = 2;
  Thing saved{.children = {{"v1", v1}, {"v2", v2}}};
  Thing no_value;
  Thing root{.children = {{"v1", no_value}, {"v2", v2}}};
  Restorer restorer;
  Restoration restoration = restorer.Ask(Tracked(saved).graph);
  const LoadStatus status = restorer.Continue(restoration, Tracked(root));
  EXPECT_EQ(status.AssertExistingObjectsMatched(), absl::OkStatus());
  EXPECT_EQ(status.AssertConsumed(),
            absl::FailedPreconditionError(
                "assert consumed: unused attributes in these objects (the "
                "attributes exist in the checkpoint but were not restored): "
                "(root).v1: \"v1" +
                kEnd + "\""));
}

TEST(GraphMatchTest, SlotsWaitForTheirOptimizerAndTheirVariable) {
  float w = 1, m = 2;
  Thing adam{.slots = {{"m", w, m}}};
  Thing saved{.children = {{"w", w}, {"adam", adam}}};
  const LiveGraph stored = Tracked(saved);
  const auto values = Stored(stored);
  float new_w = 0, new_m = 0;
  Thing new_adam;
  Thing root;
  Restorer restorer;
  Restoration restoration = restorer.Ask(stored.graph);
  const auto deferred = [&] {
    return restorer.Continue(restoration, Tracked(root), values)
        .report()
        .deferred;
  };
  const std::string slot = "(root).adam's state 'm' for (root).w";
  EXPECT_THAT(deferred(), ElementsAre("(root).w", "(root).adam"));
  root.children.emplace_back("w", new_w);
  EXPECT_THAT(deferred(), ElementsAre("(root).adam", slot));
  root.children.emplace_back("adam", new_adam);
  const LoadStatus status =
      restorer.Continue(restoration, Tracked(root), values);
  EXPECT_THAT(status.AssertConsumed().message(),
              HasSubstr("unresolved slot restorations: " + slot));
  new_adam.slots = {{"m", new_w, new_m}};
  EXPECT_THAT(deferred(), IsEmpty());
  EXPECT_EQ(new_w, 1);
  EXPECT_EQ(new_m, 2);
}

// TensorFlow's test_restore_incompatible_shape; nothing is read of it.
TEST(GraphMatchTest, RestoreIncompatibleShape) {
  std::array<float, 2> two = {};
  std::array<float, 1> one = {};
  double wide = 0;
  float narrow = 0;
  Thing saved{.children = {{"v", two}, {"d", wide}}};
  Thing root{.children = {{"v", one}, {"d", narrow}}};
  const LiveGraph live = Tracked(root);
  Restorer restorer;
  Restoration restoration = restorer.Ask(Tracked(saved).graph);
  const MatchResult match =
      MatchObjects(restoration, live, restorer.restored, 0);
  EXPECT_THAT(match.reads, IsEmpty());
  const LoadStatus status = StatusOf(restoration.saved, match);
  EXPECT_EQ(status.AssertExistingObjectsMatched(),
            absl::FailedPreconditionError(
                "assert existing objects matched: \"v" + kEnd +
                "\": incompatible (need f32 [1], found f32 [2]); \"d" + kEnd +
                "\": incompatible (need f32 [], found f64 [])"));
  EXPECT_THAT(status.report().missing, IsEmpty());
  EXPECT_THAT(status.report().unused, IsEmpty());
}

// Keys are those of the file, even where the program has others.
TEST(GraphMatchTest, KeysAreReadByEdges) {
  float v = 1;
  Thing inner{.children = {{"v", v}}};
  Thing saved{.children = {{"long", inner}, {"v", v}}};
  Thing root{.children = {{"long", inner}}};
  const LiveGraph live = Tracked(root);
  const Restoration restoration{.saved = Tracked(saved).graph};
  EXPECT_THAT(ReadsOf(live, MatchObjects(restoration, live, {}, 0)),
              ElementsAre("long/v" + kEnd + " <- v" + kEnd));
}

TEST(GraphMatchTest, AnObjectThatIsReplacedIsRestoredAgain) {
  float a = 1;
  Thing saved{.children = {{"v", a}}};
  const LiveGraph stored = Tracked(saved);
  const auto values = Stored(stored);
  Thing root{.children = {{"v", a}}};
  Restorer restorer;
  Restoration restoration = restorer.Ask(stored.graph);
  restorer.Continue(restoration, Tracked(root), values);
  float b = 0;
  root.children = {{"v", b}};
  EXPECT_EQ(
      restorer.Continue(restoration, Tracked(root), values).AssertConsumed(),
      absl::OkStatus());
  EXPECT_EQ(b, 1);
}

}  // namespace
}  // namespace belay::graph_match_test
