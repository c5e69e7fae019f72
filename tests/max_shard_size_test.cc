// MaxShardSize on the worked examples of TensorFlow's MaxShardSizePolicy, where
// it mends a defect of that policy, and on random pieces.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "belay/sharding_policy.h"
#include "policy_testing.h"

namespace belay {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Packs and checks; stops the test on an error.
Grouping Pack(const Pieces& pieces, int64_t max_bytes) {
  const StatusOr<std::vector<Grouping>> made =
      ApplyPolicy(MaxShardSize(max_bytes), pieces);
  EXPECT_TRUE(made.ok()) << made.status();
  if (!made.ok() || made->empty()) return {};
  return made->front();
}

std::vector<std::string> PackTexts(const Pieces& pieces, int64_t max_bytes) {
  return GroupTexts(Pack(pieces, max_bytes).groups);
}

// ---- TensorFlow's tests ----

Pieces OneD() {
  return {WholeArray("v0", DType::kF32, {4}),
          WholeArray("v1", DType::kI32, {4, 1})};
}

TEST(MaxShardSizePolicyTest, OneDLimit4) {
  EXPECT_THAT(PackTexts(OneD(), 4),
              ElementsAre("v0 0,1", "v0 1,1", "v0 2,1", "v0 3,1", "v1 0,1:0,1",
                          "v1 1,1:0,1", "v1 2,1:0,1", "v1 3,1:0,1"));
}

TEST(MaxShardSizePolicyTest, OneDLimits8And10) {
  for (const int64_t limit : {8, 10}) {
    EXPECT_THAT(PackTexts(OneD(), limit),
                ElementsAre("v0 0,2", "v0 2,2", "v1 0,2:0,1", "v1 2,2:0,1"));
  }
}

TEST(MaxShardSizePolicyTest, OneDLimits16And18) {
  for (const int64_t limit : {16, 18}) {
    EXPECT_THAT(PackTexts(OneD(), limit), ElementsAre("v0 0,4", "v1 0,4:0,1"));
  }
}

Pieces TwoD() {
  return {WholeArray("v0", DType::kI32, {3, 2}),
          WholeArray("v1", DType::kF32, {3, 2, 1})};
}

TEST(MaxShardSizePolicyTest, TwoDLimits8And10CutIntoRows) {
  for (const int64_t limit : {8, 10}) {
    EXPECT_THAT(
        PackTexts(TwoD(), limit),
        ElementsAre("v0 0,1:0,2", "v0 1,1:0,2", "v0 2,1:0,2", "v1 0,1:0,2:0,1",
                    "v1 1,1:0,2:0,1", "v1 2,1:0,2:0,1"));
  }
}

TEST(MaxShardSizePolicyTest, TwoDLimit12CutsAxis1ForFewerGroups) {
  EXPECT_THAT(PackTexts(TwoD(), 12),
              ElementsAre("v0 0,3:0,1", "v0 0,3:1,1", "v1 0,3:0,1:0,1",
                          "v1 0,3:1,1:0,1"));
}

TEST(MaxShardSizePolicyTest, TwoDLimit16FillsTheOpenGroup) {
  EXPECT_THAT(PackTexts(TwoD(), 16),
              ElementsAre("v0 0,2:0,2", "v0 2,1:0,2 + v1 0,1:0,2:0,1",
                          "v1 1,2:0,2:0,1"));
}

TEST(MaxShardSizePolicyTest, Strings) {
  const Pieces strings = {TextPiece("s0", 10), TextPiece("s1", 10),
                          TextPiece("s2", 10), TextPiece("s3", 10)};
  EXPECT_THAT(PackTexts(strings, 10), ElementsAre("s0", "s1", "s2", "s3"));
}

TEST(MaxShardSizePolicyTest, LargeScalarComesLast) {
  const Grouping made =
      Pack({TextPiece("scalar", 10), WholeArray("b", DType::kF32, {2})}, 8);
  EXPECT_THAT(GroupTexts(made.groups), ElementsAre("b 0,2", "scalar"));
  ASSERT_EQ(made.warnings.size(), 1u);
  EXPECT_THAT(made.warnings[0], HasSubstr("\"scalar\""));
  EXPECT_THAT(made.warnings[0], HasSubstr("need at most 8 bytes, found 10"));
}

TEST(MaxShardSizePolicyTest, PreSlicedTensorLimit8) {
  const Pieces slice = {
      PieceOfArray("v", DType::kF32, {2, 5}, {{0, 1}, {2, 3}})};
  EXPECT_THAT(PackTexts(slice, 8),
              ElementsAre("v 0,2:1,1", "v 0,1:2,2", "v 1,1:2,2"));
}

TEST(MaxShardSizePolicyTest, PreSlicedTensorLimit12) {
  const Pieces slice = {
      PieceOfArray("v", DType::kF32, {2, 5}, {{0, 1}, {2, 3}})};
  const Grouping made = Pack(slice, 12);
  EXPECT_THAT(GroupTexts(made.groups), ElementsAre("v 0,1:1,3", "v 1,1:1,3"));
  EXPECT_EQ(
      FormatSliceSpec(made.groups[1][0].global_shape, made.groups[1][0].box),
      "2 5 1,1:1,3");
}

TEST(MaxShardSizePolicyTest, OptionOfCheckpoint) {
  Pieces pieces = TwoD();
  pieces.push_back(TextPiece("v2", 5));
  EXPECT_EQ(Pack(pieces, 10).groups.size(), 3u + 3u + 1u);
}

// ---- More worked examples ----

TEST(MaxShardSizeTest, ColumnsWhereNoRowFits) {
  EXPECT_THAT(PackTexts({WholeArray("v", DType::kF32, {3, 5})}, 16),
              ElementsAre("v 0,3:0,1", "v 0,1:1,4", "v 1,1:1,4", "v 2,1:1,4"));
}

TEST(MaxShardSizeTest, OneRowFillsARest) {
  EXPECT_THAT(PackTexts({WholeArray("a", DType::kF32, {2}),
                         WholeArray("b", DType::kF32, {1}),
                         WholeArray("c", DType::kF32, {3})},
                        10),
              ElementsAre("a 0,2", "b 0,1 + c 0,1", "c 1,2"));
}

}  // namespace
}  // namespace belay
