#include "shard_devices.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace belay::tools::shard_devices_test {
namespace {

// "box device" of each shard of an array of 4 rows and 6 columns.
std::vector<std::string> LinesOf(const StoredPiece& piece,
                                 const std::string& layout) {
  const ArrayInfo array{
      .key = "w", .shape = {4, 6}, .args = "", .layout = layout};
  std::vector<std::string> lines;
  int64_t boxes_left = kMaxBoxes;
  for (const HeldShard& shard : ShardsOf(piece, array, boxes_left)) {
    lines.push_back(BoxText(shard.box) + " " + DevicesText(shard.devices));
  }
  return lines;
}

using Lines = std::vector<std::string>;

const StoredPiece kWhole{.group = 0, .key = "w", .box = WholeBox({4, 6})};

TEST(ShardDevices, OneTask) {
  StoredPiece piece = kWhole;
  piece.task = 5;
  EXPECT_EQ(LinesOf(piece, ""), Lines({"0,4:0,6 /task:5"}));
  EXPECT_EQ(LinesOf(piece, "[x,-] on x=2"), Lines({"0,4:0,6 /task:5"}));
}

TEST(ShardDevices, ThoseOfALayout) {
  EXPECT_EQ(LinesOf(kWhole, "[x,-] on x=3"),
            Lines({"0,2:0,6 /task:0", "2,1:0,6 /task:1", "3,1:0,6 /task:2"}));
  EXPECT_EQ(LinesOf(kWhole, "[x,-] on x=2,y=2"),
            Lines({"0,2:0,6 /replica:0/task:0 /replica:1/task:1",
                   "2,2:0,6 /replica:0/task:2 /replica:1/task:3"}));
  EXPECT_EQ(LinesOf(kWhole, "[-,-] on x=5"),
            Lines({"0,4:0,6 /replica:0/task:0 /replica:1/task:1 "
                   "/replica:2/task:2 and 2 others"}));
}

TEST(ShardDevices, OnlyWhatIsInTheDataset) {
  StoredPiece piece = kWhole;
  piece.box = {.offset = {1, 0}, .shape = {3, 2}};
  EXPECT_EQ(LinesOf(piece, "[x,y] on x=2,y=2"),
            Lines({"1,1:0,2 /task:0", "2,2:0,2 /task:2"}));
}

TEST(ShardDevices, NoneThatAreNotStored) {
  EXPECT_EQ(LinesOf(kWhole, ""), Lines());
  EXPECT_EQ(LinesOf(kWhole, "[x] on x=2"), Lines());
  EXPECT_EQ(LinesOf(kWhole, "nonsense"), Lines());
  EXPECT_EQ(LinesOf(kWhole, "[x,-] on x=1000000"), Lines());
}

// An index of 100 KB may have a million pairs of such pieces and ranks.
TEST(ShardDevices, NoMoreThanAPersonCanRead) {
  const ArrayInfo array{.shape = {4, 6}, .args = "", .layout = "[x,-] on x=3"};
  int64_t boxes_left = 7;
  EXPECT_EQ(ShardsOf(kWhole, array, boxes_left).size(), 3);
  EXPECT_EQ(ShardsOf(kWhole, array, boxes_left).size(), 3);
  EXPECT_EQ(boxes_left, 1);
  EXPECT_TRUE(ShardsOf(kWhole, array, boxes_left).empty());
  StoredPiece piece = kWhole;
  piece.task = 5;
  EXPECT_EQ(ShardsOf(piece, array, boxes_left).size(), 1);
  EXPECT_EQ(boxes_left, 1);
}

}  // namespace
}  // namespace belay::tools::shard_devices_test
