// Counts the bytes to rank 0, for any number of simulated ranks.
#include "core/list_exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "model_testing.h"

namespace belay::list_exchange_test {
namespace {

using Bytes = std::vector<int64_t>;  // of the answer of each rank

ListsToSend ToTell(const RankShards& mine, size_t rank, size_t num_ranks) {
  Description description =
      Describe(mine, static_cast<int>(rank), static_cast<int>(num_ranks));
  return PrepareLists(
      {std::move(description.shared), std::move(description.own)});
}

// Ranks that tell rank 0 again and again what they list.
class World {
 public:
  explicit World(size_t num_ranks) : sent_lists(num_ranks) {}

  // Tells what `lists` has; returns what each rank has answered.
  Bytes Tell(const std::vector<RankShards>& lists) {
    std::vector<ListsToSend> now;
    std::vector<std::string> announcements, answers;
    Bytes bytes;
    for (size_t rank = 0; rank < sent_lists.size(); ++rank) {
      now.push_back(ToTell(lists[rank], rank, lists.size()));
      announcements.push_back(Announce(now[rank], sent_lists[rank]));
      EXPECT_EQ(announcements.back().size(), 64u);
    }
    const std::vector<std::string> asks = AskFor(announcements, sent_lists[0]);
    const std::string reference =
        NeedsReference(asks[0]) ? MakeReference(now[0]) : "";
    reference_bytes = std::ssize(reference);
    for (size_t rank = 0; rank < sent_lists.size(); ++rank) {
      EXPECT_EQ(asks[rank].size(), 3u);
      answers.push_back(
          Answer(asks[rank], reference, now[rank], sent_lists[rank]));
      bytes.push_back(std::ssize(answers.back()));
    }
    StatusOr<Heard> heard =
        Hear(announcements, asks, answers, now[0], sent_lists[0]);
    EXPECT_TRUE(heard.ok()) << heard.status();
    listed = ListRanks(*heard).value();
    ExpectHeard(lists);
    sent_lists[0].heard = std::move(heard->lists);
    for (size_t rank = 0; rank < sent_lists.size(); ++rank) {
      sent_lists[rank].mine = now[rank].hashes;
    }
    return bytes;
  }

  // The bytes of what rank 0 keeps.
  int64_t KeptBytes() const {
    int64_t bytes = 0;
    for (const auto& [fingerprint, list] : sent_lists[0].heard) {
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

  std::vector<SentLists> sent_lists;
  ListedRanks listed;
  int64_t reference_bytes = 0;

 private:
  void ExpectHeard(const std::vector<RankShards>& lists) const {
    for (size_t rank = 0; rank < lists.size(); ++rank) {
      const RankShards found = GetRankShards(listed, static_cast<int>(rank));
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
    for (int i = 0; i < num_arrays; ++i) {
      ranks[rank].shards.push_back(LaidOut(i, num_ranks, rank));
    }
    ranks[rank].shards.push_back(
        {.key = "step", .dtype = DType::kI64, .replica = rank});
    ranks[rank].values = {{"options", "dict", {"a", "b"}}};
  }
  return ranks;
}

TEST(ListExchangeTest, WhatTravelsAndIsKeptDoesNotGrowWithTheRanks) {
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
    EXPECT_EQ(bytes[0], Sum(bytes)) << "rank 0 tells itself";
    EXPECT_EQ(world.reference_bytes, 0);
  }
  EXPECT_LE(sent, 1001 * 110);
}

TEST(ListExchangeTest, ChangesAreWhatTravels) {
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
      [](RankShards& rank, int) { rank.values[0].entries = {"a"}; },
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

TEST(ListExchangeTest, WhatIsOddTravelsAlone) {
  std::vector<RankShards> piece = Model(8);
  piece[3].shards.insert(piece[3].shards.begin() + 500, {.key = "odd",
                                                         .dtype = DType::kF32,
                                                         .global_shape = {10},
                                                         .box = {{2}, {5}}});
  World of_piece(8);
  Bytes bytes = of_piece.Tell(piece);
  EXPECT_EQ(Sum(bytes), bytes[0] + bytes[3]);
  EXPECT_GT(bytes[3], 0);
  EXPECT_LE(bytes[3], 200);
  EXPECT_EQ(of_piece.reference_bytes, 0);

  // One that all could have is compared with what rank 0 has.
  std::vector<RankShards> whole = Model(8);
  whole[3].shards.insert(
      whole[3].shards.begin() + 500,
      {.key = "only here", .dtype = DType::kI64, .replica = 3});
  World of_whole(8);
  bytes = of_whole.Tell(whole);
  EXPECT_EQ(Sum(bytes), bytes[0] + bytes[3]);
  EXPECT_GT(bytes[3], 0);
  EXPECT_LE(bytes[3], 200);
  EXPECT_EQ(of_whole.reference_bytes, 16 * 1002);
}

// Stages of a pipeline have nothing in common.
TEST(ListExchangeTest, ListsOfDifferentRanksTravelOnceEach) {
  World world(8);
  std::vector<RankShards> lists = Model(8, 10);
  for (size_t rank = 0; rank < 8; ++rank) {
    for (ShardInfo& shard : lists[rank].shards) {
      shard.key += absl::StrCat(" of stage ", rank / 2);
    }
  }
  const Bytes bytes = world.Tell(lists);
  for (size_t rank = 0; rank < 8; ++rank) {
    EXPECT_EQ(bytes[rank] > 0, rank % 2 == 0) << "rank " << rank;
  }
}

// A rank without a base uses the list of rank 0.
TEST(ListExchangeTest, ARankThatHasLostItsListIsNoticed) {
  const std::vector<RankShards> model = Model(8);
  World world(8);
  const int64_t all = Sum(world.Tell(model));
  world.sent_lists[5] = {};
  EXPECT_EQ(Sum(world.Tell(model)), 0) << "rank 0 knows this list";
  std::vector<RankShards> other = model;
  other[5].shards.pop_back();
  world.sent_lists[5] = {};
  EXPECT_LE(Sum(world.Tell(other)), 400);
  EXPECT_EQ(world.reference_bytes, 16 * 1002);
  world.sent_lists[2] = {};
  for (RankShards& rank : other) rank.shards[0].dtype = DType::kI8;
  EXPECT_LE(Sum(world.Tell(other)), 400) << "another rank tells it as well";
  world.sent_lists[0] = {};
  const Bytes bytes = world.Tell(other);
  EXPECT_GE(bytes[0], all - 100) << "rank 0 knows nothing but its own";
  EXPECT_LE(Sum(bytes) - bytes[0], 400);
  EXPECT_EQ(Sum(world.Tell(other)), 0);
}

TEST(ListExchangeTest, AnswersToSomethingElseAreRefused) {
  const SentLists before;
  const ListsToSend now = ToTell(Model(4, 2)[0], 0, 4);
  const ListsToSend other = ToTell(Model(4, 3)[0], 0, 4);
  const std::vector<std::string> announced = {Announce(now, before)};
  const std::vector<std::string> asks = AskFor(announced, before);
  const auto hear = [&](const std::string& answer) {
    return Hear(announced, asks, {answer}, now, before).status();
  };
  EXPECT_EQ(hear(Answer(asks[0], "", now, before)), absl::OkStatus());
  EXPECT_TRUE(absl::IsInternal(hear(Answer(asks[0], "", other, before))));
  EXPECT_TRUE(absl::IsInternal(hear("")));
}

}  // namespace
}  // namespace belay::list_exchange_test
