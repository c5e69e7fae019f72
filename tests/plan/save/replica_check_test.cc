#include "plan/save/replica_check.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "belay/arrays/box.h"
#include "bytes/wire.h"

namespace belay::replica_check_test {
namespace {

// Ranks that hold arrays alike: "a" of one element, "b" of many, "c" of many in
// two halves, of which each half is held by every second rank.
class Ranks {
 public:
  explicit Ranks(int size, int64_t length = 1000) {
    for (int rank = 0; rank < size; ++rank) {
      values_.push_back({std::vector<double>(1, 1.5),
                         std::vector<double>(length, 2.5),
                         std::vector<double>(length, 3.5)});
    }
    ArrayBoxes a{.array = 0, .element_size = 8},
        b{.array = 1, .element_size = 8};
    ArrayBoxes c{.array = 2, .element_size = 8};
    a.boxes.push_back({.box = WholeBox({1})});
    b.boxes.push_back({.box = WholeBox({length})});
    c.boxes.push_back({.box = {{0}, {length}}});
    c.boxes.push_back({.box = {{length}, {length}}});
    for (int rank = 0; rank < size; ++rank) {
      a.boxes[0].holders.push_back({rank, 0});
      b.boxes[0].holders.push_back({rank, 1});
      c.boxes[static_cast<size_t>(rank % 2)].holders.push_back({rank, 2});
    }
    checks_ = FindReplicas({a, b, c}, size);
  }

  // The sum over all ranks.
  uint64_t Sum(int64_t number) {
    uint64_t sum = 0;
    for (size_t rank = 0; rank < values_.size(); ++rank) {
      sum += SumOfReplicas(checks_[rank], ShardsOf(rank), number);
    }
    return sum;
  }

  std::vector<double>& Values(int rank, int array) {
    return values_[static_cast<size_t>(rank)][static_cast<size_t>(array)];
  }
  const ReplicaCheck& check(int rank) {
    return checks_[static_cast<size_t>(rank)];
  }

 private:
  std::vector<Shard> ShardsOf(size_t rank) {
    std::vector<Shard> shards;
    for (size_t i = 0; i < 3; ++i) {
      std::vector<double>& values = values_[rank][i];
      const int64_t length = std::ssize(values);
      const int64_t first = i == 2 && rank % 2 == 1 ? length : 0;
      shards.push_back({.key = std::string(1, static_cast<char>('a' + i)),
                        .dtype = DType::kF64,
                        .box = {{first}, {length}},
                        .data = values.data()});
    }
    return shards;
  }

  std::vector<std::vector<std::vector<double>>> values_;
  std::vector<ReplicaCheck> checks_;
};

TEST(ReplicaCheckTest, RangesJoinShardsWithTheSameWeight) {
  Ranks ranks(4);
  EXPECT_EQ(ranks.check(0).num_boxes, 4);
  EXPECT_EQ(ranks.check(0).ranges,
            (std::vector<ReplicaRange>{{0, 2, -3}, {2, 1, -1}}));
  EXPECT_EQ(ranks.check(1).ranges,
            (std::vector<ReplicaRange>{{0, 2, 1}, {2, 1, -1}}));
  EXPECT_EQ(ranks.check(3).ranges, (std::vector<ReplicaRange>{{0, 3, 1}}));
}

TEST(ReplicaCheckTest, WhatOneRankHoldsIsNotCompared) {
  Ranks alone(1);
  EXPECT_TRUE(alone.check(0).ranges.empty());
  EXPECT_EQ(alone.check(0).num_boxes, 0);
  Ranks two(2);  // each has its half of "c"
  EXPECT_EQ(two.check(0).num_boxes, 2);
}

TEST(ReplicaCheckTest, EqualValuesAddUpToNothing) {
  for (const int size : {1, 2, 3, 5, 8}) {
    Ranks ranks(size);
    EXPECT_EQ(ranks.Sum(kEveryByte), 0);
    for (int64_t number = 0; number < 20; ++number) {
      EXPECT_EQ(ranks.Sum(number), 0) << size << " ranks, save " << number;
    }
  }
}

TEST(ReplicaCheckTest, OneOtherElementOfAnyRankIsFound) {
  for (const int size : {2, 3, 5}) {
    for (int rank = 0; rank < size; ++rank) {
      Ranks ranks(size);
      ranks.Values(rank, 1)[567] = -1;
      EXPECT_NE(ranks.Sum(kEveryByte), 0);
      Ranks small(size);
      small.Values(rank, 0)[0] = -1.5;
      EXPECT_NE(small.Sum(kEveryByte), 0);
      EXPECT_NE(small.Sum(3), 0) << "what is small is always compared";
    }
  }
}

TEST(ReplicaCheckTest, ValuesThatHaveChangedPlacesAreFound) {
  Ranks ranks(3);
  std::swap(ranks.Values(1, 1), ranks.Values(1, 2));
  EXPECT_NE(ranks.Sum(kEveryByte), 0);
}

TEST(ReplicaCheckTest, ADifferenceOfTwoRanksAgainstTheOthersIsFound) {
  Ranks ranks(4);
  ranks.Values(1, 0)[0] = 7;
  ranks.Values(2, 0)[0] = 7;
  EXPECT_NE(ranks.Sum(kEveryByte), 0);
  for (int rank = 0; rank < 4; ++rank) ranks.Values(rank, 0)[0] = rank;
  EXPECT_NE(ranks.Sum(kEveryByte), 0);
}

// What differs everywhere, as values that each rank has of its own, is found by
// any sample; one element by some.
TEST(ReplicaCheckTest, SamplesFindWhatDiffersEverywhere) {
  Ranks ranks(3), one(3);
  for (double& value : ranks.Values(2, 1)) value = 9;
  one.Values(2, 1)[567] = 9;
  int found = 0;
  for (int64_t number = 0; number < 2000; ++number) {
    EXPECT_NE(ranks.Sum(number), 0) << "save " << number;
    found += one.Sum(number) != 0;
  }
  EXPECT_GT(found, 0);
  EXPECT_LT(found, 500);
}

// Every byte is looked at in time, those behind the last whole window too.
TEST(ReplicaCheckTest, SamplesReachEveryByte) {
  for (const size_t size : {257u, 258u, 259u, 515u}) {
    std::vector<uint8_t> values(size, 1);
    const Shard shard{.key = "k",
                      .dtype = DType::kU8,
                      .box = WholeBox({static_cast<int64_t>(size)}),
                      .data = values.data()};
    const ReplicaCheck check{.ranges = {{0, 1, 1}}, .num_boxes = 1};
    for (size_t at = 0; at < size; ++at) {
      bool is_seen = false;
      for (int64_t number = 0; number < 5000 && !is_seen; ++number) {
        const uint64_t before = SumOfReplicas(check, {shard}, number);
        values[at] ^= 1;
        is_seen = SumOfReplicas(check, {shard}, number) != before;
        values[at] ^= 1;
      }
      EXPECT_TRUE(is_seen) << "byte " << at << " of " << size;
    }
  }
}

// Of very many boxes some are looked at in each save, and all in time.
TEST(ReplicaCheckTest, ManyBoxesTakeTurns) {
  constexpr int kArrays = 5000;
  std::vector<ArrayBoxes> arrays;
  std::vector<std::vector<double>> values(2 * kArrays,
                                          std::vector<double>(64, 1));
  std::vector<Shard> shards[2];
  for (int i = 0; i < kArrays; ++i) {
    arrays.push_back({.array = i, .element_size = 8});
    arrays.back().boxes.push_back({.box = WholeBox({64})});
    for (int rank = 0; rank < 2; ++rank) {
      arrays.back().boxes[0].holders.push_back({rank, i});
      auto& mine = values[static_cast<size_t>(2 * i + rank)];
      if (rank == 1) mine.assign(64, 2);
      shards[rank].push_back({.key = std::to_string(i),
                              .dtype = DType::kF64,
                              .box = WholeBox({64}),
                              .data = mine.data()});
    }
  }
  const std::vector<ReplicaCheck> checks = FindReplicas(arrays, 2);
  EXPECT_EQ(checks[0].ranges.size(), 1);
  for (int64_t number = 0; number < 10; ++number) {
    const uint64_t sum = SumOfReplicas(checks[0], shards[0], number) +
                         SumOfReplicas(checks[1], shards[1], number);
    EXPECT_NE(sum, 0) << "save " << number;
  }
}

TEST(ReplicaCheckTest, TravelsAsBytes) {
  const ReplicaCheck check{.ranges = {{0, 7, -3}, {9, 1, 1}}, .num_boxes = 44};
  WireWriter out;
  PutReplicaCheck(out, check);
  const std::string bytes = out.Take();
  WireReader in(bytes);
  const ReplicaCheck found = GetReplicaCheck(in);
  EXPECT_EQ(found.ranges, check.ranges);
  EXPECT_EQ(found.num_boxes, 44);
}

}  // namespace
}  // namespace belay::replica_check_test
