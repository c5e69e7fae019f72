#include "save/kept_listing.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "belay/state.h"

namespace belay::kept_listing_test {
namespace {

KeptListing Keep(const State& state) {
  return {.origin = {.state = StateVersion::Of(state),
                     .handlers = nullptr,
                     .setting = 0},
          .shards = state.shards(),
          .moving = FindMoving({}, state.shards()).value()};
}

TEST(KeptListing, OnlyWhatAnObjectHoldsMayMove) {
  std::vector<float> growing(3);
  std::string text = "text";
  double fixed = 1;
  State state;
  state.Add("fixed", fixed);
  state.Add("growing", growing);
  state.Add("text", text);
  KeptListing kept = Keep(state);
  ASSERT_EQ(kept.moving.size(), 2);
  EXPECT_EQ(kept.moving[0].shard, 1);
  EXPECT_EQ(kept.moving[1].shard, 2);
  EXPECT_EQ(kept.moving[1].text_bytes, 4);
  growing = std::vector<float>(3);
  EXPECT_TRUE(FindMovedElements(kept));
  EXPECT_EQ(kept.shards[1].data, growing.data());
  text = "also";
  EXPECT_TRUE(FindMovedElements(kept));
  text = "longer";
  EXPECT_FALSE(FindMovedElements(kept));
}

TEST(KeptListing, AnotherLengthIsNoted) {
  std::vector<float> growing(3);
  State state;
  state.Add("growing", growing);
  KeptListing kept = Keep(state);
  growing.push_back(1);
  EXPECT_FALSE(FindMovedElements(kept));
}

TEST(KeptListing, HandlersAndRowsListAnewEachTime) {
  HandlerListing handled;
  handled.handlers.emplace_back();
  EXPECT_FALSE(FindMoving(handled, {}).has_value());
  HandlerListing rows;
  rows.values.emplace_back();
  EXPECT_FALSE(FindMoving(rows, {}).has_value());
}

// A State lists the same as before unless something was added to it, or it was
// moved from.
TEST(StateVersion, TellsWhatWasAdded) {
  double value = 1;
  State state;
  state.Add("a", value);
  const StateVersion before = StateVersion::Of(state);
  State copy = state;
  EXPECT_EQ(StateVersion::Of(copy), before);
  copy.Add("b", value);
  EXPECT_NE(StateVersion::Of(copy), before);
  EXPECT_EQ(StateVersion::Of(state), before);
  State other;
  other.Add("a", value);
  EXPECT_NE(StateVersion::Of(other), before);
  const State moved = std::move(state);
  EXPECT_EQ(StateVersion::Of(moved), before);
  EXPECT_NE(StateVersion::Of(state), before);  // NOLINT
}

}  // namespace
}  // namespace belay::kept_listing_test
