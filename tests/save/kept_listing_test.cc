#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "belay/extend/state.h"
#include "belay/handlers/standard_handlers.h"
#include "belay/state.h"
#include "save/rank_plan.h"

namespace belay::kept_listing_test {
namespace {

ListedShards Keep(const State& state) {
  return {.origin = {.state = StateVersion::Of(state),
                     .handlers = nullptr,
                     .setting = 0},
          .shards = state.shards(),
          .moving = FindMoving({}, state.shards())};
}

class OfNothing : public Handler<std::monostate> {
 public:
  std::string typestr() const override { return "tuple"; }
  Status ListForSave(std::monostate&, State&) const override {
    return absl::OkStatus();
  }
  Status ListForRestore(std::monostate&, const StoredValue&,
                        State&) const override {
    return absl::OkStatus();
  }
};

TEST(KeptListing, OnlyWhatAnObjectHoldsMayMove) {
  std::vector<float> growing(3);
  std::string text = "text";
  double fixed = 1;
  State state;
  state.Add("fixed", fixed);
  state.Add("growing", growing);
  state.Add("text", text);
  ListedShards kept = Keep(state);
  ASSERT_EQ(kept.moving->size(), 2);
  EXPECT_EQ(kept.moving->at(0).shard, 1);
  EXPECT_EQ(kept.moving->at(1).shard, 2);
  EXPECT_EQ(kept.moving->at(1).text_bytes, 4);
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
  ListedShards kept = Keep(state);
  growing.push_back(1);
  EXPECT_FALSE(FindMovedElements(kept));
}

TEST(KeptListing, HandlersAndRowsListAnewEachTime) {
  std::optional<double> number;
  std::map<std::string, double> map;
  std::vector<std::string> texts;
  std::vector<double> rows;
  const auto is_kept = [](auto add) {
    State state;
    add(state);
    const HandlerListing listing =
        ListForSave(state, *GetHandlers(nullptr)).value();
    return FindMoving(listing, listing.shards).has_value();
  };
  EXPECT_FALSE(is_kept([&](State& state) { state.Add("a", number); }));
  EXPECT_FALSE(is_kept([&](State& state) { state.Add("a", map); }));
  EXPECT_FALSE(is_kept([&](State& state) { state.Add("a", texts); }));
  EXPECT_FALSE(is_kept([&](State& state) { state.AddRows("a", rows); }));
  number = 1;  // stored as a number is
  EXPECT_FALSE(is_kept([&](State& state) { state.Add("a", number); }));
}

TEST(KeptListing, ValuesThatHoldNothingAreKept) {
  std::vector<float> weights(3);
  std::monostate none;
  State state;
  state.Add("weights", weights);
  state.Add("none", none);
  AddValue(state, ".python/kind/a", RefTo(none),
           std::make_shared<const OfNothing>());
  const HandlerListing listing =
      ListForSave(state, *GetHandlers(nullptr)).value();
  EXPECT_EQ(listing.values.size(), 2);
  EXPECT_TRUE(FindMoving(listing, listing.shards).has_value());
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
