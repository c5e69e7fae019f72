// Values that some ranks lack: a warning where all ranks are to have them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "belay/checkpoint.h"
#include "belay/log.h"
#include "values.h"

namespace belay::keys_of_some_ranks_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::Ok;

class KeysOfSomeRanksTest : public testing::CheckpointTest {
 protected:
  KeysOfSomeRanksTest() {
    SetLogSink(
        [this](LogLevel, std::string_view line) { lines_.emplace_back(line); },
        LogLevel::kWarning);
  }
  ~KeysOfSomeRanksTest() override { SetLogSink(nullptr); }

  // What was logged since; the rest of the line follows the directory.
  std::vector<std::string> Said() { return std::exchange(lines_, {}); }

  std::string Line(const std::string& difference) const {
    return "save \"" + run() + "\": " + difference +
           "; values that only some ranks have are stored from those";
  }

  std::vector<std::string> lines_;
  PlanCache cache_;
};

TEST_F(KeysOfSomeRanksTest, RankZeroSaysSoOnceForEachSetOfKeys) {
  double number = 1;
  std::string text = "text";
  std::map<std::string, double> map = {{"a", 1}};
  State same, other;
  same.Add("number", number);
  if (rank_ == 0) same.Add("only/here", text);
  other.Add("number", number);
  if (rank_ == size_ - 1 && size_ > 1) {
    other.Add("map", map);
    other.Add("more", number);
  }
  int64_t step = 0;
  for (State* state : {&same, &same, &other, &same}) {
    Ok(Save(comm_, run(), ++step, *state, {.cache = &cache_}));
  }
  if (rank_ > 0 || size_ == 1) {
    EXPECT_THAT(Said(), IsEmpty());
    return;
  }
  const std::string last = "rank " + std::to_string(size_ - 1);
  EXPECT_THAT(
      Said(),
      ElementsAre(
          Line("rank 1 lacks \"only/here\", which rank 0 has"),
          Line(last + " has \"map/a\", which rank 0 lacks, and so for 1 other "
                      "keys")));
}

TEST_F(KeysOfSomeRanksTest, EmptyValuesCount) {
  std::map<std::string, double> empty;
  std::optional<double> none;
  State state;
  if (rank_ == 0) {
    state.Add("empty", empty);
    state.Add("none", none);
  }
  Ok(Save(comm_, run(), 1, state));
  if (rank_ > 0 || size_ == 1) {
    EXPECT_THAT(Said(), IsEmpty());
    return;
  }
  EXPECT_THAT(Said(), ElementsAre(Line(
                          "rank 1 lacks \"empty\", which rank 0 has, and so "
                          "for 1 other keys")));
}

// A rank whose own values did not change learns of others', too.
TEST_F(KeysOfSomeRanksTest, OnARankThatHasKeptItsListing) {
  double number = 1, more = 2;
  State state;
  state.Add("number", number);
  Ok(Save(comm_, run(), 1, state, {.cache = &cache_}));
  EXPECT_THAT(Said(), IsEmpty());
  if (rank_ == size_ - 1 && size_ > 1) state.Add("more", more);
  Ok(Save(comm_, run(), 2, state, {.cache = &cache_}));
  if (rank_ > 0 || size_ == 1) {
    EXPECT_THAT(Said(), IsEmpty());
    return;
  }
  EXPECT_THAT(Said(), ElementsAre(Line("rank " + std::to_string(size_ - 1) +
                                       " has \"more\", which rank 0 lacks")));
}

// As the layers of a pipeline, which each rank has of its own.
TEST_F(KeysOfSomeRanksTest, PiecesAndObjectsMayBeOnAnyRanks) {
  std::vector<double> layer = {1, 2};
  const std::string mine = "layer" + std::to_string(rank_);
  State state;
  state.AddPiece(mine, {2}, {{0}, {2}}, AtAddress(layer.data()));
  if (rank_ == 0) {
    state.AddPiece("whole", {2}, WholeBox({2}), AtAddress(layer.data()));
  }
  Ok(Save(comm_, run(), 1, state));
  std::map<std::string, std::vector<double>> layers = {{mine, layer}};
  Checkpoint checkpoint(comm_, {{"layers", layers}});
  Ok(checkpoint.Save(run() + "_objects"));
  EXPECT_THAT(Said(), IsEmpty());
}

}  // namespace
}  // namespace belay::keys_of_some_ranks_test
