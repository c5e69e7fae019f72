// What travels to rank 0, counted for any number of simulated ranks.
#include "model/telling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "model_testing.h"

namespace belay {
namespace {

using Bytes = std::vector<int64_t>;  // of the answer of each rank

// Ranks that tell rank 0 again and again what they list.
class World {
 public:
  explicit World(size_t num_ranks) : told(num_ranks) {}

  // Tells what `lists` has; returns what each rank has sent for that.
  Bytes Tell(const std::vector<RankShards>& lists) {
    std::vector<Telling> now;
    std::vector<std::string> announcements, answers;
    Bytes bytes;
    for (size_t rank = 0; rank < told.size(); ++rank) {
      now.push_back(TellingOf(lists[rank], static_cast<int>(rank)));
      announcements.push_back(Announce(now[rank], told[rank]));
      EXPECT_LE(announcements.back().size(), 36u);
    }
    const std::vector<std::string> asks = AskFor(announcements, told[0]);
    for (size_t rank = 0; rank < told.size(); ++rank) {
      EXPECT_LE(asks[rank].size(), 2u);
      answers.push_back(Answer(asks[rank], now[rank], told[rank]));
      bytes.push_back(static_cast<int64_t>(answers.back().size()));
    }
    StatusOr<Heard> heard = Hear(announcements, asks, answers, told[0]);
    EXPECT_TRUE(heard.ok()) << heard.status();
    listed = heard->listed;
    ExpectHeard(lists);
    told[0].heard = std::move(heard->lists);
    for (size_t rank = 0; rank < told.size(); ++rank) {
      told[rank].mine = now[rank].hashes;
    }
    return bytes;
  }

  // The bytes of what rank 0 keeps.
  int64_t KeptBytes() const {
    int64_t bytes = 0;
    for (const auto& [fingerprint, list] : told[0].heard) {
      for (const std::string& entry : list) bytes += std::ssize(entry);
    }
    return bytes;
  }

  // The shards that rank 0 plans with.
  int64_t NumListed() const {
    int64_t shards = 0;
    for (const ShardList& list : listed.lists)
      shards += std::ssize(list.shards);
    return shards;
  }

  std::vector<Told> told;
  ListedRanks listed;

 private:
  void ExpectHeard(const std::vector<RankShards>& lists) const {
    for (size_t rank = 0; rank < lists.size(); ++rank) {
      const RankShards found = ShardsOf(listed, static_cast<int>(rank));
      EXPECT_EQ(found.node, lists[rank].node);
      EXPECT_TRUE(found.shards == lists[rank].shards) << "rank " << rank;
      EXPECT_TRUE(found.values == lists[rank].values) << "rank " << rank;
    }
  }
};

int64_t Sum(const Bytes& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), int64_t{0});
}

ShardInfo LaidOut(int number, int num_ranks, int rank) {
  const Layout layout =
      Layout::Create(
          Mesh::Create({{"data", num_ranks / 4}, {"model", 4}}).value(),
          {{"model"}, {}})
          .value();
  const Shape shape = {64 + number % 7, 16};
  return {.key = absl::StrCat("layer", number, "/kernel"),
          .dtype = DType::kBF16,
          .global_shape = shape,
          .box = layout.LocalBox(shape, rank).value(),
          .replica = layout.Replica(rank),
          .layout = layout.ToString()};
}

// The same state on all ranks: arrays that are laid out, and one that every
// rank holds.
std::vector<RankShards> Model(int num_ranks, int num_arrays = 1000) {
  std::vector<RankShards> ranks(static_cast<size_t>(num_ranks));
  for (int rank = 0; rank < num_ranks; ++rank) {
    ranks[rank].node = rank / 8;
    for (int i = 0; i < num_arrays; ++i) {
      ranks[rank].shards.push_back(LaidOut(i, num_ranks, rank));
    }
    ranks[rank].shards.push_back(
        {.key = "step", .dtype = DType::kI64, .replica = rank});
    ranks[rank].values = {{"options", "dict", {"a", "b"}}};
  }
  return ranks;
}

TEST(TellingTest, WhatTravelsAndIsKeptDoesNotGrowWithTheRanks) {
  int64_t sent = 0, kept = 0;
  for (const int num_ranks : {8, 64, 1024}) {
    World world(num_ranks);
    const Bytes bytes = world.Tell(Model(num_ranks));
    if (sent == 0) sent = Sum(bytes);
    if (kept == 0) kept = world.KeptBytes();
    // The layout says how many ranks there are.
    EXPECT_LE(Sum(bytes), sent + 3 * 1000) << num_ranks << " ranks";
    EXPECT_LE(world.KeptBytes(), kept + 3 * 1000) << num_ranks << " ranks";
    EXPECT_EQ(world.NumListed(), 1001) << num_ranks << " ranks";
    EXPECT_EQ(bytes[0], Sum(bytes)) << "rank 0 knows it already";
  }
  EXPECT_LE(sent, 1001 * 110);
}

TEST(TellingTest, ChangesAreWhatTravels) {
  constexpr int kRanks = 16;
  using Change = std::function<void(RankShards&, int)>;
  const std::vector<Change> changes = {
      [](RankShards& rank, int) { rank.shards[7].dtype = DType::kF64; },
      [](RankShards& rank, int) { rank.shards[7].key = "other"; },
      [](RankShards& rank, int) {
        std::swap(rank.shards[7], rank.shards[700]);
      },
      [](RankShards& rank, int) { rank.shards.erase(rank.shards.begin() + 7); },
      [](RankShards& rank, int number) {
        rank.shards.insert(rank.shards.begin() + 7,
                           LaidOut(7000, kRanks, number));
      },
      [](RankShards& rank, int) { rank.shards[7].box.shape[1] = 3; },
      [](RankShards& rank, int) { rank.shards[7].replica = 99; },
      [](RankShards& rank, int) { rank.shards[7].layout = "[-,x] on x=2"; },
      [](RankShards& rank, int) { rank.values[0].parts = {"a"}; },
  };
  const std::vector<RankShards> model = Model(kRanks);
  for (size_t i = 0; i < changes.size(); ++i) {
    SCOPED_TRACE(absl::StrCat("change ", i));
    World world(kRanks);
    world.Tell(model);
    EXPECT_EQ(Sum(world.Tell(model)), 0);
    std::vector<RankShards> one = model;
    changes[i](one[5], 5);
    EXPECT_LE(Sum(world.Tell(one)), 400);
    EXPECT_LE(Sum(world.Tell(model)), 400) << "and back";
    std::vector<RankShards> all = model;
    for (int rank = 0; rank < kRanks; ++rank) changes[i](all[rank], rank);
    // Boxes are told by each rank.
    EXPECT_LE(Sum(world.Tell(all)), 400 * kRanks);
    EXPECT_LE(Sum(world.Tell(model)), 400);
  }
}

TEST(TellingTest, AnOddArrayTravelsAlone) {
  World world(8);
  std::vector<RankShards> lists = Model(8);
  ShardInfo odd{.key = "odd",
                .dtype = DType::kF32,
                .global_shape = {10},
                .box = {{2}, {5}}};
  lists[3].shards.insert(lists[3].shards.begin() + 500, odd);
  const Bytes bytes = world.Tell(lists);
  EXPECT_GT(bytes[3], 0);
  EXPECT_LE(bytes[3], 200);
  EXPECT_EQ(Sum(bytes), bytes[0] + bytes[3]);
}

// Whoever has nothing to compare with sends all, unless another rank does.
TEST(TellingTest, ARankThatHasLostItsListIsNoticed) {
  const std::vector<RankShards> model = Model(8);
  World world(8);
  const int64_t all = Sum(world.Tell(model));
  world.told[5] = {};
  EXPECT_EQ(Sum(world.Tell(model)), 0) << "rank 0 knows this list";
  std::vector<RankShards> other = model;
  other[5].shards.pop_back();
  world.told[5] = {};
  EXPECT_GT(world.Tell(other)[5], all - 100);
  world.told[2] = {};
  for (RankShards& rank : other) rank.shards[0].dtype = DType::kI8;
  EXPECT_LE(Sum(world.Tell(other)), 400) << "rank 0 tells it for rank 2";
  world.told[0] = {};
  EXPECT_GT(Sum(world.Tell(other)), 2 * (all - 100)) << "rank 0 knows nothing";
  EXPECT_EQ(Sum(world.Tell(other)), 0);
}

TEST(TellingTest, AnswersToSomethingElseAreRefused) {
  const Told before;
  const std::vector<RankShards> model = Model(4, 2);
  const Telling now = TellingOf(model[0], 0);
  const Telling other = TellingOf(Model(4, 3)[0], 0);
  const std::vector<std::string> announced = {Announce(now, before)};
  const std::vector<std::string> asks = AskFor(announced, before);
  EXPECT_TRUE(
      Hear(announced, asks, {Answer(asks[0], now, before)}, before).ok());
  EXPECT_TRUE(absl::IsInternal(
      Hear(announced, asks, {Answer(asks[0], other, before)}, before)
          .status()));
  EXPECT_TRUE(absl::IsInternal(Hear(announced, asks, {""}, before).status()));
}

}  // namespace
}  // namespace belay
