#include "plan/choose_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "model_testing.h"

namespace belay::choose_ranks_test {
namespace {

using ::testing::ElementsAre;

// An array of f32 whose boxes are given with the ranks that hold them.
struct Held {
  Box box;
  std::vector<int32_t> ranks;
};

ArrayBoxes Array(int32_t number, const std::vector<Held>& boxes) {
  ArrayBoxes array{.array = number, .element_size = 4};
  for (const Held& held : boxes) {
    array.boxes.push_back({.box = held.box});
    for (int32_t rank : held.ranks) {
      array.boxes.back().holders.push_back({.rank = rank, .shard = number});
    }
  }
  return array;
}

std::vector<int32_t> AllRanks(int num_ranks) {
  std::vector<int32_t> ranks(num_ranks);
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

std::vector<int64_t> BytesPerRank(const std::vector<WritePiece>& pieces,
                                  int num_ranks) {
  std::vector<int64_t> bytes(num_ranks, 0);
  for (const WritePiece& piece : pieces) {
    bytes[piece.rank] += 4 * NumElements(piece.box.shape);
  }
  return bytes;
}

double MaxToMean(const std::vector<WritePiece>& pieces, int num_ranks) {
  const std::vector<int64_t> bytes = BytesPerRank(pieces, num_ranks);
  const int64_t sum = std::accumulate(bytes.begin(), bytes.end(), int64_t{0});
  const int64_t most = *std::max_element(bytes.begin(), bytes.end());
  return static_cast<double>(most) * num_ranks / static_cast<double>(sum);
}

// The pieces of each box, together, are the box, and their ranks hold it.
void ExpectTiled(const std::vector<ArrayBoxes>& arrays,
                 const std::vector<WritePiece>& pieces) {
  for (const ArrayBoxes& array : arrays) {
    std::vector<const Box*> parts;
    for (const WritePiece& piece : pieces) {
      if (piece.array == array.array) parts.push_back(&piece.box);
    }
    ASSERT_EQ(FindOverlap(parts), std::nullopt);
    for (const HeldBox& held : array.boxes) {
      int64_t elements = 0;
      for (const WritePiece& piece : pieces) {
        if (piece.array != array.array) continue;
        if (!Contains(held.box, piece.box)) continue;
        elements += NumElements(piece.box.shape);
        ASSERT_TRUE(std::any_of(held.holders.begin(), held.holders.end(),
                                [&](const HeldShard& holder) {
                                  return holder.rank == piece.rank &&
                                         holder.shard == piece.shard;
                                }));
      }
      ASSERT_EQ(elements, NumElements(held.box.shape));
    }
  }
}

TEST(ChooseWritersTest, OnlyHolderWrites) {
  const std::vector<WritePiece> pieces =
      ChooseWriters({Array(0, {{{{0}, {3}}, {1}}, {{{3}, {2}}, {0}}})}, 2);
  ASSERT_EQ(pieces.size(), 2u);
  EXPECT_THAT(BytesPerRank(pieces, 2), ElementsAre(8, 12));
}

TEST(ChooseWritersTest, NothingToWrite) {
  EXPECT_TRUE(ChooseWriters({}, 3).empty());
  EXPECT_TRUE(ChooseWriters({Array(0, {})}, 3).empty());
}

TEST(ChooseWritersTest, SmallBoxesAreDealtOutWhole) {
  std::vector<ArrayBoxes> arrays;
  for (int32_t i = 0; i < 8; ++i) {
    arrays.push_back(Array(i, {{WholeBox({10, 10}), AllRanks(4)}}));
  }
  const std::vector<WritePiece> pieces = ChooseWriters(arrays, 4);
  EXPECT_EQ(pieces.size(), 8u);
  EXPECT_THAT(BytesPerRank(pieces, 4), ElementsAre(800, 800, 800, 800));
}

TEST(ChooseWritersTest, ALargeBoxIsSplitIntoRows) {
  const std::vector<WritePiece> pieces =
      ChooseWriters({Array(0, {{WholeBox({1000, 1000}), AllRanks(4)}})}, 4);
  ASSERT_EQ(pieces.size(), 4u);
  EXPECT_EQ(pieces[1].rank, 1);
  EXPECT_EQ(pieces[1].box, (Box{{250, 0}, {250, 1000}}));
}

TEST(ChooseWritersTest, FewRowsAreCutInside) {
  const std::vector<WritePiece> pieces =
      ChooseWriters({Array(0, {{WholeBox({3, 1 << 20}), AllRanks(2)}})}, 2);
  EXPECT_THAT(BytesPerRank(pieces, 2), ElementsAre(6 << 20, 6 << 20));
  ASSERT_EQ(pieces.size(), 4u);
  EXPECT_EQ(pieces[1].box, (Box{{1, 0}, {1, 1 << 19}}));
  EXPECT_EQ(pieces[2].box, (Box{{1, 1 << 19}, {1, 1 << 19}}));
}

TEST(ChooseWritersTest, SharedBoxesLevelWhatOthersLeft) {
  const Box large = WholeBox({1 << 20});
  const std::vector<WritePiece> pieces =
      ChooseWriters({Array(0, {{large, {0}}}), Array(1, {{large, {0, 1}}}),
                     Array(2, {{large, {0, 1, 2, 3}}})},
                    4);
  // 12 MiB: rank 0 has 4, the next 4 go to rank 1, the last to ranks 2 and 3.
  EXPECT_THAT(BytesPerRank(pieces, 4),
              ElementsAre(4 << 20, 4 << 20, 2 << 20, 2 << 20));
}

// Boxes of many ranks must not take the place of those with fewer holders.
TEST(ChooseWritersTest, FewHoldersFirst) {
  const std::vector<WritePiece> pieces =
      ChooseWriters({Array(0, {{WholeBox({2 << 20}), AllRanks(4)}}),
                     Array(1, {{WholeBox({1 << 20}), {0, 1}}})},
                    4);
  EXPECT_LE(MaxToMean(pieces, 4), 1.01);
}

// Rows and columns of a mesh, which are not nested.
TEST(ChooseWritersTest, GroupsThatOverlapAreLevelledAgain) {
  const Box large = WholeBox({3 << 20});
  const std::vector<WritePiece> pieces = ChooseWriters(
      {Array(0, {{large, {0, 1}}}), Array(1, {{large, {0, 2}}})}, 3);
  EXPECT_LE(MaxToMean(pieces, 3), 1.02);
}

TEST(ChooseWritersTest, ARankThatHoldsABoxTwiceGetsOneShare) {
  const std::vector<WritePiece> pieces =
      ChooseWriters({Array(0, {{WholeBox({1 << 20}), {0, 0, 1}}})}, 2);
  EXPECT_THAT(BytesPerRank(pieces, 2), ElementsAre(2 << 20, 2 << 20));
}

// Embeddings and norms on all ranks, matrices sharded over groups of ranks
// with replicas, as in training with data and tensor parallelism.
std::vector<ArrayBoxes> MixedState(int num_ranks, int shards) {
  std::vector<ArrayBoxes> arrays;
  int32_t number = 0;
  const auto add = [&](const Shape& shape, int parts) {
    std::vector<Held> boxes(parts);
    for (int rank = 0; rank < num_ranks; ++rank) {
      boxes[rank % parts].ranks.push_back(rank);
    }
    for (int64_t i = 0; i < parts; ++i) {
      boxes[i].box = WholeBox(shape);
      if (parts == 1) continue;
      const int64_t begin = shape[0] * i / parts;
      boxes[i].box.offset[0] = begin;
      boxes[i].box.shape[0] = shape[0] * (i + 1) / parts - begin;
    }
    arrays.push_back(Array(number++, boxes));
  };
  add({50257, 768}, 1);
  for (int layer = 0; layer < 12; ++layer) {
    add({768}, 1);
    add({768, 2304}, shards);
    add({768, 3072}, shards);
    add({3072}, 1);
    add({3072, 768}, 1);
    add({}, 1);
  }
  return arrays;
}

TEST(ChooseWritersTest, BytesDifferByAtMostTwoPercent) {
  for (int num_ranks : {1, 2, 3, 4, 5, 7, 8, 13, 16, 24}) {
    for (int shards : {1, 2, 3, num_ranks}) {
      if (shards > num_ranks) continue;
      const std::vector<ArrayBoxes> arrays = MixedState(num_ranks, shards);
      const std::vector<WritePiece> pieces = ChooseWriters(arrays, num_ranks);
      EXPECT_LE(MaxToMean(pieces, num_ranks), 1.02)
          << num_ranks << " ranks, " << shards << " shards";
      ASSERT_NO_FATAL_FAILURE(ExpectTiled(arrays, pieces));
    }
  }
}

TEST(ChooseWritersTest, FewPieces) {
  const std::vector<ArrayBoxes> arrays = MixedState(24, 1);
  const std::vector<WritePiece> pieces = ChooseWriters(arrays, 24);
  EXPECT_LE(pieces.size(), arrays.size() + 23);
}

TEST(ChooseWritersTest, RandomHolders) {
  Random random(5);
  for (int i = 0; i < 200; ++i) {
    const int num_ranks = static_cast<int>(Uniform(1, 12, random));
    std::vector<ArrayBoxes> arrays;
    const int64_t count = Uniform(1, 6, random);
    for (int32_t number = 0; number < count; ++number) {
      Shape shape;
      const int64_t ndim = Uniform(0, 3, random);
      for (int64_t axis = 0; axis < ndim; ++axis) {
        shape.push_back(Uniform(1, 120, random));
      }
      std::vector<Held> boxes;
      for (const Box& box : RandomTiling(WholeBox(shape), 2, random)) {
        if (IsEmpty(box)) continue;
        std::vector<int32_t> ranks = AllRanks(num_ranks);
        std::shuffle(ranks.begin(), ranks.end(), random);
        ranks.resize(Uniform(1, num_ranks, random));
        std::sort(ranks.begin(), ranks.end());
        boxes.push_back({box, ranks});
      }
      arrays.push_back(Array(number, boxes));
    }
    ASSERT_NO_FATAL_FAILURE(
        ExpectTiled(arrays, ChooseWriters(arrays, num_ranks)));
  }
}

}  // namespace
}  // namespace belay::choose_ranks_test
