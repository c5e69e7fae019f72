#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "belay/extend/row_shards.h"
#include "state/rank_rows.h"

namespace belay::row_counts_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Shard RowsShard(const std::string& key, int64_t rows,
                const std::vector<int64_t>* ids = nullptr) {
  static double memory[64];
  static std::vector<double> values(64);
  values.resize(static_cast<size_t>(rows));
  Shard shard = ids == nullptr ? RowsOf(values) : RowsByIdOf(*ids, values);
  shard.key = key;
  shard.data = memory;
  shard.access = nullptr;
  return shard;
}

// Of many keys that one rank lacks the list of the others travels once.
TEST(RowCountsTest, EachListOfHoldersTravelsOnce) {
  constexpr int kRanks = 200;
  const std::vector<int64_t> ids = {1};
  std::vector<std::string> gathered;
  for (int rank = 0; rank < kRanks; ++rank) {
    std::vector<Shard> shards;
    for (const char* key : {"a", "b", "c"}) {
      if (rank != 5) shards.push_back(RowsShard(key, 1, &ids));
    }
    shards.push_back(RowsShard("all", 1, &ids));
    shards.push_back(RowsShard("rows", rank % 2));
    gathered.push_back(EncodeRowCounts(shards));
  }
  const MergedRows merged = MergeRowCounts(gathered).value();
  EXPECT_LT(merged.common.size(), 1.5 * kRanks * sizeof(int32_t));
  for (const std::string& part : merged.parts) EXPECT_LT(part.size(), 300);

  const RowPlacements first = DecodePlacements(merged.common, merged.parts[0]);
  EXPECT_TRUE(first.any_ids);
  ASSERT_EQ(first.shards.size(), 5);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(first.shards[i].total, kRanks - 1);
    ASSERT_EQ(first.shards[i].holders.size(), kRanks - 1);
    EXPECT_EQ(first.shards[i].holders[4], 4);
    EXPECT_EQ(first.shards[i].holders[5], 6);
  }
  EXPECT_THAT(first.shards[3].holders, IsEmpty());
  EXPECT_FALSE(first.shards[4].has_ids);
  EXPECT_EQ(first.shards[4].total, kRanks / 2);

  const RowPlacements lacking =
      DecodePlacements(merged.common, merged.parts[5]);
  EXPECT_TRUE(lacking.any_ids);
  ASSERT_EQ(lacking.shards.size(), 2);
  EXPECT_EQ(lacking.shards[1].first, 2);
}

}  // namespace
}  // namespace belay::row_counts_test
