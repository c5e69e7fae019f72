#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "belay/extend/row_shards.h"
#include "core/wire.h"
#include "state/rank_rows.h"

namespace belay::row_message_test {
namespace {

TEST(RowMessageTest, GroupsComeBackAsTheyWere) {
  Shard shard;
  shard.key = "x";
  shard.dtype = DType::kU8;
  auto rows = std::make_shared<RankRows>();
  rows->row = {2};
  shard.rows = std::move(rows);
  Messages to(3);
  for (const RowParts parts :
       {RowParts::kIdsAndRows, RowParts::kIds, RowParts::kRows}) {
    const std::vector<int32_t> ranks = {2, 0, 2, 2};
    std::vector<RowGroupRoom> rooms = AppendRowGroups(shard, ranks, parts, to);
    const int64_t id = 77;
    if (parts != RowParts::kRows) std::memcpy(rooms[0].ids, &id, sizeof(id));
    if (parts != RowParts::kIds) std::memcpy(rooms[0].rows, "ab", 2);
  }
  EXPECT_TRUE(to[1].bytes().empty());
  std::span<std::byte> rest = to[0].bytes();
  for (const RowParts parts :
       {RowParts::kIdsAndRows, RowParts::kIds, RowParts::kRows}) {
    const RowGroup group = TakeRowGroup(rest);
    EXPECT_EQ(group.key, "x");
    EXPECT_EQ(group.count, 1);
    EXPECT_TRUE(HasSameForm(group, shard));
    if (parts != RowParts::kRows) {
      EXPECT_EQ(group.id(0), 77);
    }
    if (parts != RowParts::kIds) {
      EXPECT_EQ(std::memcmp(group.rows, "ab", 2), 0);
    }
  }
  EXPECT_TRUE(rest.empty());
  rest = to[2].bytes();
  EXPECT_EQ(TakeRowGroup(rest).count, 3);
  shard.dtype = DType::kI8;
  EXPECT_FALSE(HasSameForm(TakeRowGroup(rest), shard));
}

}  // namespace
}  // namespace belay::row_message_test
