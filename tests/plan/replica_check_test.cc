#include "plan/replica_check.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "belay/arrays/box.h"
#include "core/wire.h"
#include "model_testing.h"

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
      sum += SumReplicas(checks_[rank], ShardsOf(rank), number);
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
// any sample; one element in its turn.
TEST(ReplicaCheckTest, SamplesFindWhatDiffersEverywhere) {
  constexpr int64_t kLength = 1 << 17;  // so that "b" and "c" have 1 MiB each
  Ranks ranks(3, kLength), one(3, kLength);
  for (double& value : ranks.Values(2, 1)) value = 9;
  one.Values(2, 1)[56789] = 9;
  EXPECT_EQ(NumTurns(one.check(0)), 33);  // "a" is small, but counts
  int found = 0;
  for (int64_t number = 0; number < 99; ++number) {
    EXPECT_NE(ranks.Sum(number), 0) << "save " << number;
    found += one.Sum(number) != 0;
  }
  EXPECT_EQ(found, 3);
}

// Every byte is looked at once in so many saves, whichever is the first.
TEST(ReplicaCheckTest, SamplesReachEveryByteOnce) {
  for (const size_t size : {257u, 258u, 515u, 2048u, 5001u}) {
    for (const int64_t turns : {2, 3, 4, 7, 100}) {
      std::vector<uint8_t> values(size, 1);
      const Shard shard{.key = "k",
                        .dtype = DType::kU8,
                        .box = WholeBox({static_cast<int64_t>(size)}),
                        .data = values.data()};
      const ReplicaCheck check{
          .ranges = {{0, 1, 1}},
          .num_boxes = 1,
          .most_bytes = turns * kLeastSampled * kSampledBytes};
      ASSERT_EQ(NumTurns(check), turns);
      const int64_t first = static_cast<int64_t>(size) + turns;
      std::vector<uint64_t> before;
      for (int64_t turn = 0; turn < turns; ++turn) {
        before.push_back(SumReplicas(check, {shard}, first + turn));
      }
      for (size_t at = 0; at < size; at += at + 9 < size ? 9 : 1) {
        int seen = 0;
        values[at] ^= 1;
        for (int64_t turn = 0; turn < turns; ++turn) {
          seen += SumReplicas(check, {shard}, first + turn) !=
                  before[static_cast<size_t>(turn)];
        }
        values[at] ^= 1;
        EXPECT_EQ(seen, 1) << "byte " << at << " of " << size << ", " << turns;
      }
    }
  }
}

// The saves that it takes until a change of the values of rank 1 is found.
int64_t SavesUntilFound(int64_t elements, DType dtype, int64_t beside,
                        const std::function<bool(int64_t)>& differs) {
  const int64_t size = DTypeSize(dtype);
  std::vector<char> values[2];
  std::vector<ReplicaCheck> checks;
  ArrayBoxes array{.array = 0, .element_size = size};
  array.boxes.push_back({.box = WholeBox({elements})});
  // Others, so that this one is only a part of what is compared.
  ArrayBoxes others{.array = 1, .element_size = 1};
  others.boxes.push_back({.box = WholeBox({beside})});
  for (int rank = 0; rank < 2; ++rank) {
    array.boxes[0].holders.push_back({rank, 0});
    others.boxes[0].holders.push_back({rank, 1});
    values[rank].assign(static_cast<size_t>(elements * size), 3);
  }
  for (int64_t i = 0; i < elements; ++i) {
    // One bit, as of a last one.
    if (differs(i)) values[1][static_cast<size_t>(i * size)] ^= 1;
  }
  checks = FindReplicas({array, others}, 2);
  const auto sum = [&](int rank, int64_t number) {
    ReplicaCheck check = checks[static_cast<size_t>(rank)];
    check.ranges[0].count = 1;  // without the others, which are equal
    return SumReplicas(check,
                       {{.key = "w",
                         .dtype = dtype,
                         .box = WholeBox({elements}),
                         .data = values[rank].data()}},
                       number);
  };
  for (int64_t number = 0; number < 100000; ++number) {
    if (sum(0, number) + sum(1, number) != 0) return number + 1;
  }
  return INT64_MAX;
}

// One element in a thousand, at any places or in one.
TEST(ReplicaCheckTest, ADriftOfOneInAThousandIsFoundSoon) {
  Random random(7);
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16}) {
    for (const int64_t elements : {1000, 100'000, 1'000'000, 4'000'000}) {
      const int64_t number = elements / 1000;
      const int64_t first = Uniform(0, elements - number, random);
      const int64_t phase = Uniform(0, 999, random);
      // In one place.
      EXPECT_LE(SavesUntilFound(elements, dtype, 0,
                                [&](int64_t i) {
                                  return first <= i && i < first + number;
                                }),
                20)
          << elements;
      // Each thousandth.
      EXPECT_LE(SavesUntilFound(elements, dtype, 0,
                                [&](int64_t i) { return i % 1000 == phase; }),
                4)
          << elements;
      // Anywhere.
      EXPECT_LE(SavesUntilFound(elements, dtype, 0,
                                [&](int64_t i) {
                                  return i == first ||
                                         Uniform(0, 999, random) == 0;
                                }),
                4)
          << elements;
      // In one of many arrays, of which it is a tenth.
      EXPECT_LE(
          SavesUntilFound(
              elements, dtype, 9 * elements * DTypeSize(dtype),
              [&](int64_t i) { return first <= i && i < first + number; }),
          200)
          << elements;
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
    const uint64_t sum = SumReplicas(checks[0], shards[0], number) +
                         SumReplicas(checks[1], shards[1], number);
    EXPECT_NE(sum, 0) << "save " << number;
  }
}

TEST(ReplicaCheckTest, TravelsAsBytes) {
  const ReplicaCheck check{.ranges = {{0, 7, -3}, {9, 1, 1}},
                           .num_boxes = 44,
                           .most_bytes = 1 << 30};
  const ReplicaCheck found = Decode<ReplicaCheck>(Encode(check)).value();
  EXPECT_EQ(found.ranges, check.ranges);
  EXPECT_EQ(found.num_boxes, 44);
  EXPECT_EQ(found.most_bytes, 1 << 30);
}

}  // namespace
}  // namespace belay::replica_check_test
