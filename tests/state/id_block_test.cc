#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "belay/extend/row_shards.h"
#include "state/rank_rows.h"

namespace belay::id_block_test {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

IdBlock BlockOf(int64_t ids, int64_t row_bytes) {
  IdBlock block;
  block.shard.key = "x";
  block.shard.dtype = DType::kU8;
  auto rows = std::make_shared<RankRows>();
  rows->row = {row_bytes};
  block.shard.rows = std::move(rows);
  block.shard.global_shape = {ids, row_bytes};
  block.num_ids = ids;
  return block;
}

// Each row is in one window, in order, and no window is longer than it may be
// unless it is one row.
void CheckWindows(const std::vector<IdBlock>& blocks, int ranks, int64_t most) {
  std::vector<int64_t> next(blocks.size());
  size_t last = 0;
  for (const IdWindow& window : CutWindows(blocks, ranks)) {
    int64_t bytes = 0, rows = 0;
    for (const IdSlice& slice : window) {
      EXPECT_GE(slice.block, last);
      last = slice.block;
      EXPECT_EQ(slice.begin, next[slice.block]);
      EXPECT_LT(slice.begin, slice.end);
      next[slice.block] = slice.end;
      rows += slice.end - slice.begin;
      bytes += (slice.end - slice.begin) *
               (8 + blocks[slice.block].shard.global_shape[1]);
    }
    EXPECT_TRUE(bytes <= most || rows == 1) << bytes;
  }
  for (size_t i = 0; i < blocks.size(); ++i) {
    EXPECT_EQ(next[i], blocks[i].num_ids);
  }
}

TEST(IdBlockTest, WindowsHoldEachRowOnce) {
  std::vector<IdBlock> blocks;
  EXPECT_TRUE(CutWindows(blocks, 4).empty());
  blocks.push_back(BlockOf(0, 8));
  EXPECT_TRUE(CutWindows(blocks, 4).empty());
  blocks.push_back(BlockOf(3'000'000, 24));
  blocks.push_back(BlockOf(1, 8));
  blocks.push_back(BlockOf(3, 20 * kMiB));
  blocks.push_back(BlockOf(0, 8));
  blocks.push_back(BlockOf(1000, 1));
  blocks.push_back(BlockOf(5, 0));
  CheckWindows(blocks, 4, 8 * kMiB);
  EXPECT_EQ(CutWindows(blocks, 4).size(), 12 + 3 + 1);
  // What goes to one rank does not become too short.
  CheckWindows(blocks, 1024, 64 * kMiB);
  EXPECT_EQ(CutWindows(blocks, 1024).size(), 3);
}

}  // namespace
}  // namespace belay::id_block_test
