// N to M: what some ranks saved in one cut, other ranks restore in another.

#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "absl/strings/str_cat.h"
#include "values.h"

namespace belay {
namespace {

using testing::SumOverRanks;
using testing::Values;

using Random = std::mt19937;

int64_t Pick(Random& random, int64_t first, int64_t last) {
  return first + static_cast<int64_t>(random() % (last - first + 1));
}

// Cuts `box` along random axes into at least `count` pieces where it can.
std::vector<Box> RandomTiling(Random& random, const Box& box, int count) {
  std::vector<Box> tiles = {box};
  for (int tries = 0; tries < 4 * count; ++tries) {
    if (static_cast<int>(tiles.size()) >= count) break;
    const size_t which = random() % tiles.size();
    const size_t axis = random() % box.shape.size();
    Box& tile = tiles[which];
    if (tile.shape[axis] < 2) continue;
    Box rest = tile;
    const int64_t at = Pick(random, 1, tile.shape[axis] - 1);
    tile.shape[axis] = at;
    rest.offset[axis] += at;
    rest.shape[axis] -= at;
    tiles.push_back(rest);
  }
  return tiles;
}

struct Array {
  std::string key;
  DType dtype;
  Shape shape;
};

std::vector<Array> RandomArrays(Random& random) {
  constexpr DType kTypes[] = {DType::kU8, DType::kBF16, DType::kF32,
                              DType::kC128};
  std::vector<Array> arrays;
  for (int i = 0; i < 6; ++i) {
    Array array{absl::StrCat("array/", i), kTypes[random() % 4], {}};
    const int64_t ndim = Pick(random, 1, 3);
    for (int64_t axis = 0; axis < ndim; ++axis) {
      array.shape.push_back(Pick(random, 1, ndim == 1 ? 300000 : 90));
    }
    arrays.push_back(std::move(array));
  }
  return arrays;
}

// A layout of a random mesh of `size` ranks over the axes of a shape.
Layout RandomLayout(Random& random, size_t ndim, int size) {
  const int64_t x = size % 2 == 0 ? 2 : size % 3 == 0 ? 3 : 1;
  const auto mesh = Mesh::Create({{"x", x}, {"y", size / x}});
  LayoutAxes axes(ndim);
  for (const char* name : {"x", "y"}) {
    const size_t axis = random() % (ndim + 1);
    if (axis < ndim) axes[axis].emplace_back(name);
  }
  return *Layout::Create(*mesh, axes);
}

// What this rank holds of the arrays: half of them laid out on a mesh, half
// in random tiles dealt to random ranks. Same draws on all ranks.
void AddRandomCut(Random& random, const std::vector<Array>& arrays,
                  const Comm& comm, Values& values) {
  for (const Array& array : arrays) {
    if (random() % 2 == 0) {
      const Layout layout =
          RandomLayout(random, array.shape.size(), comm.size());
      values.AddLaidOut(array.key, array.dtype, array.shape, layout,
                        comm.rank());
      continue;
    }
    for (const Box& tile :
         RandomTiling(random, WholeBox(array.shape), 3 * comm.size())) {
      if (static_cast<int>(random() % comm.size()) != comm.rank()) continue;
      values.Add(array.key, array.dtype, array.shape, tile);
    }
  }
}

// What this rank wants: any boxes, which may overlap and repeat.
void AddRandomWants(Random& random, const std::vector<Array>& arrays,
                    const Comm& comm, Values& values) {
  for (const Array& array : arrays) {
    for (int want = 0; want < 2 * comm.size(); ++want) {
      const auto tiles = RandomTiling(random, WholeBox(array.shape), 4);
      const Box& box = tiles[random() % tiles.size()];
      if (static_cast<int>(random() % comm.size()) != comm.rank()) continue;
      values.Add(array.key, array.dtype, array.shape, box);
    }
  }
}

class ReshardTest : public testing::CheckpointTest {
 protected:
  // The first `count` ranks; the others get a Comm without ranks.
  Comm First(int count) { return *comm_.Split(rank_ < count ? 0 : -1); }

  void Job(const Comm& comm, const std::string& what,
           const std::function<void(const Comm&)>& work) {
    if (comm.size() > 0) {
      SCOPED_TRACE(absl::StrCat(what, " on ", comm.size(), " ranks"));
      work(comm);
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
};

TEST_F(ReshardTest, RandomCutsOnOtherRankCounts) {
  constexpr FileLayout kFiles[] = {FileLayout::kShared, FileLayout::kPerNode,
                                   FileLayout::kPerTask};
  constexpr Transfer kTransfers[] = {Transfer::kCollective,
                                     Transfer::kIndependent, Transfer::kHdf5,
                                     Transfer::kTwoPhase};
  Random random(20240607);
  for (int64_t step = 0; step < 12; ++step) {
    SCOPED_TRACE(absl::StrCat("step ", step));
    const std::vector<Array> arrays = RandomArrays(random);
    const SaveOptions options{
        .file_layout = kFiles[step % 3],
        .array_layout = ArrayLayout{static_cast<uint8_t>(random() % 2)},
        .transfer = kTransfers[step / 3 % 4],
        .max_bytes_in_flight = random() % 2 == 0 ? 100000 : 1 << 28,
        .durable = false};
    const Random save_random(random()), read_random(random());
    Comm writers = First(static_cast<int>(Pick(random, 1, size_)));
    Job(writers, "save", [&](const Comm& comm) {
      Values values;
      Random draws = save_random;
      AddRandomCut(draws, arrays, comm, values);
      values.Fill(step);
      const auto saved = Save(comm, run(), step, values.MakeState(), options);
      EXPECT_TRUE(saved.ok()) << saved.status();
    });
    EXPECT_EQ(writers.Close(), absl::OkStatus());
    for (bool whole : {true, false}) {
      Comm readers = First(static_cast<int>(Pick(random, 1, size_)));
      Job(readers, whole ? "restore" : "restore parts", [&](const Comm& comm) {
        Values values;
        Random draws = read_random;
        if (whole) {
          AddRandomCut(draws, arrays, comm, values);
        } else {
          AddRandomWants(draws, arrays, comm, values);
        }
        values.Spoil(step);
        const auto restored =
            Restore(comm, run(), step, values.MakeState(),
                    {.read_sharing = step % 3 == 0 ? ReadSharing::kEachRank
                                                   : ReadSharing::kOnce,
                     .max_bytes_in_flight = step % 2 == 0 ? 20000 : 1 << 28});
        EXPECT_TRUE(restored.ok()) << restored.status();
        EXPECT_EQ(values.CountWrong(step), 0);
        if (restored.ok() && whole) {
          EXPECT_EQ(restored->blocks_partial, 0);
          EXPECT_GE(restored->blocks_verified, 6);
        }
      });
      EXPECT_EQ(readers.Close(), absl::OkStatus());
    }
  }
}

class PartsTest : public ReshardTest {
 protected:
  static constexpr int64_t kBlock = 1 << 20;

  // Five blocks and a bit, cut by rows over all ranks.
  void SetUp() override {
    Values values;
    values.AddCut("a", DType::kU8, {5 * kBlock + 100}, 0, rank_, size_);
    values.Fill(1);
    const auto saved =
        Save(comm_, run(), 1, values.MakeState(), {.durable = false});
    ASSERT_TRUE(saved.ok()) << saved.status();
  }

  // Wants [first, first + length) on `rank`.
  void Want(Values& values, int rank, int64_t first, int64_t length) {
    if (rank % size_ != rank_) return;
    values.Add("a", DType::kU8, {5 * kBlock + 100}, {{first}, {length}});
  }

  void ExpectBlocks(Values& values, int64_t verified, int64_t partial,
                    int64_t bytes, const RestoreOptions& options = {}) {
    values.Spoil(1);
    const RestoreResult restored =
        testing::Ok(Restore(comm_, run(), 1, values.MakeState(), options));
    EXPECT_EQ(values.CountWrong(1), 0);
    EXPECT_EQ(restored.blocks_verified, verified);
    EXPECT_EQ(restored.blocks_partial, partial);
    EXPECT_EQ(restored.counters.bytes, bytes);
  }
};

TEST_F(PartsTest, OnlyWholeBlocksAreVerified) {
  Values values;
  Want(values, 0, kBlock - 10, kBlock + 20);
  ExpectBlocks(values, 1, 2, kBlock + 20);
}

TEST_F(PartsTest, RanksCoverABlockTogether) {
  Values values;
  Want(values, 0, 2 * kBlock, 1000);
  Want(values, 1, 2 * kBlock + 1000, kBlock - 1000);
  Want(values, 2, 5 * kBlock, 100);
  ExpectBlocks(values, 2, 0, kBlock + 100);
}

// What several want is summed once, whether it is read for each or once.
TEST_F(PartsTest, OverlappingWants) {
  Values values;
  for (int rank = 0; rank < size_; ++rank) {
    Want(values, rank, kBlock / 2, kBlock);
    Want(values, rank, kBlock / 2, kBlock);
    Want(values, rank, rank, 2 * kBlock);
  }
  const bool third = size_ > 1;  // the largest offset reaches into block 2
  ExpectBlocks(values, 2, third ? 1 : 0, 4 * kBlock * size_,
               {.read_sharing = ReadSharing::kEachRank});
  ExpectBlocks(values, 2, third ? 1 : 0, 2 * kBlock + size_ - 1,
               {.read_sharing = ReadSharing::kOnce});
}

TEST_F(PartsTest, NobodyWantsAnything) {
  Values values;
  ExpectBlocks(values, 0, 0, 0);
}

}  // namespace
}  // namespace belay
