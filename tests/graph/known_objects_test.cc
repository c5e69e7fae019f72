// What a program's objects are known by between two matches.
#include "gmock/gmock.h"
#include "graph/graph_match.h"
#include "graph_testing.h"

namespace belay::known_objects_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const std::string kEnd = "/.ATTRIBUTES/VARIABLE_VALUE";

// A fresh object may lie where one that is gone did.
TEST(KnownObjectsTest, AnAddressThatIsUsedAgainIsAnotherObject) {
  float place = 1, other = 2;
  Thing saved{.children = {{"x", place}, {"y", other}}};
  const LiveGraph stored = Tracked(saved);
  const auto values = Stored(stored);
  for (const bool looks_between : {false, true}) {
    Thing root{.children = {{"x", place}}};
    Restorer restorer;
    Restoration restoration = restorer.Ask(stored.graph);
    restorer.Continue(restoration, Tracked(root), values);
    EXPECT_EQ(place, 1);
    EXPECT_EQ(restorer.restored.numbers.size(), 1);
    root.children.clear();
    if (looks_between) {
      restorer.Continue(restoration, Tracked(root), values);
      EXPECT_THAT(restorer.restored.numbers, IsEmpty());
    }
    place = 0;
    root.children = {{"y", place}};
    const LoadStatus status =
        restorer.Continue(restoration, Tracked(root), values);
    EXPECT_EQ(place, 2);
    EXPECT_EQ(status.AssertExistingObjectsMatched(), absl::OkStatus());
    EXPECT_THAT(status.report().deferred, ElementsAre("(root).x"));
    ASSERT_EQ(status.report().matched.size(), 1);
    EXPECT_EQ(status.report().matched[0].stored_key, "y" + kEnd);
    EXPECT_EQ(restorer.restored.numbers.size(), 1);
    // And an unrelated one is not read at all.
    std::vector<float> longer(3);
    root.children = {{"z", TrackedValue(Shape{}, AtAddress(&place))},
                     {"w", longer}};
    const MatchResult match =
        MatchObjects(restoration, Tracked(root), restorer.restored, 0);
    EXPECT_THAT(match.reads, IsEmpty());
    EXPECT_THAT(match.rank_match.missing, ElementsAre("z" + kEnd, "w" + kEnd));
  }
}

// Whole objects too: the holder's address is used again, and so is its part's.
TEST(KnownObjectsTest, AnObjectWithItsPartsThatIsUsedAgainIsAnother) {
  float a = 1, b = 2, slot_a = 3, slot_b = 4;
  Thing first{.children = {{"w", a}}}, second{.children = {{"w", b}}};
  Thing adam{.slots = {{"m", a, slot_a}, {"m", b, slot_b}}};
  Thing saved{.children = {{"x", first}, {"y", second}, {"adam", adam}}};
  const LiveGraph stored = Tracked(saved);
  const auto values = Stored(stored);
  adam.slots = {{"m", a, slot_a}};
  Thing root{.children = {{"x", first}, {"adam", adam}}};
  Restorer restorer;
  Restoration restoration = restorer.Ask(stored.graph);
  restorer.Continue(restoration, Tracked(root), values);
  a = slot_a = 0;
  root.children = {{"y", first}, {"adam", adam}};
  restorer.Continue(restoration, Tracked(root), values);
  EXPECT_EQ(a, 2);
  EXPECT_EQ(slot_a, 4);
}

// A shorter path changes the keys of an object, which is still the same.
TEST(KnownObjectsTest, AnObjectWithAnotherPathBesideItsOwnIsKnown) {
  float w = 1, m = 2, part = 3;
  Thing adam{.slots = {{"m", w, m}}};
  const auto function = [&part](Tracker& t) { t.Child("part", part); };
  Thing holder{.children = {{"function", function}}};
  Thing layer{.children = {{"w", w}, {"adam", adam}, {"holder", holder}}};
  Thing saved{.children = {{"layer", layer}}};
  const LiveGraph stored = Tracked(saved);
  const auto values = Stored(stored);
  Thing root{.children = {{"layer", layer}}};
  Restorer restorer;
  Restoration restoration = restorer.Ask(stored.graph);
  restorer.Continue(restoration, Tracked(root), values);
  w = m = part = 7;  // training goes on
  root.children.emplace_back("w", w);
  root.children.emplace_back("holder", holder);
  const LoadStatus status =
      restorer.Continue(restoration, Tracked(root), values);
  EXPECT_EQ(status.AssertConsumed(), absl::OkStatus());
  EXPECT_EQ(w, 7);
  EXPECT_EQ(m, 7);
  EXPECT_EQ(part, 7);
}

}  // namespace
}  // namespace belay::known_objects_test
