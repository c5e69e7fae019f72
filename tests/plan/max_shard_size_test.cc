// MaxShardSize on the worked examples of TensorFlow's MaxShardSizePolicy, where
// it mends a defect of that policy, and on random pieces.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "belay/values/sharding_policy.h"
#include "policy_testing.h"

namespace belay::max_shard_size_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

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

TEST(MaxShardSizeTest, RowsWhereTwoOrMoreFit) {
  // Two columns of 7 bytes each would make 3 groups, of shorter runs.
  EXPECT_THAT(PackTexts({WholeArray("v", DType::kU8, {7, 6})}, 17),
              ElementsAre("v 0,2:0,6", "v 2,2:0,6", "v 4,2:0,6", "v 6,1:0,6"));
}

TEST(MaxShardSizeTest, AxesOfLengthOneAreNoRows) {
  EXPECT_THAT(
      PackTexts({WholeArray("a", DType::kU8, {3}),
                 WholeArray("v", DType::kU8, {1, 1, 8})},
                5),
      ElementsAre("a 0,3 + v 0,1:0,1:0,2", "v 0,1:0,1:2,5", "v 0,1:0,1:7,1"));
}

TEST(MaxShardSizeTest, ScalarThatFitsAGroupButNotTheRest) {
  EXPECT_THAT(PackTexts({WholeArray("a", DType::kU8, {3}),
                         WholeArray("s", DType::kF64, {}),
                         WholeArray("t", DType::kF64, {1, 1})},
                        8),
              ElementsAre("a 0,3", "s", "t 0,1:0,1"));
}

TEST(MaxShardSizeTest, NothingToPack) {
  const StatusOr<Grouping> made = MaxShardSize(8).group({});
  ASSERT_TRUE(made.ok());
  EXPECT_TRUE(made->groups.empty());
}

// ---- Defects that are mended ----

TEST(MaxShardSizeTest, MendsB1NoSliceFitsAGroup) {
  // The source never ends here: no single cut leaves 4 bytes.
  EXPECT_THAT(PackTexts({WholeArray("v", DType::kF32, {2, 2})}, 4),
              ElementsAre("v 0,1:0,1", "v 0,1:1,1", "v 1,1:0,1", "v 1,1:1,1"));
  EXPECT_THAT(PackTexts({WholeArray("v", DType::kU8, {2, 3, 4})}, 5),
              ElementsAre("v 0,1:0,1:0,4", "v 0,1:1,1:0,4", "v 0,1:2,1:0,4",
                          "v 1,1:0,1:0,4", "v 1,1:1,1:0,4", "v 1,1:2,1:0,4"));
}

TEST(MaxShardSizeTest, MendsB1ElementsAboveTheLimit) {
  const Grouping made = Pack(
      {WholeArray("a", DType::kF32, {1}), WholeArray("v", DType::kC128, {2, 1}),
       WholeArray("b", DType::kF32, {1})},
      12);
  EXPECT_THAT(GroupTexts(made.groups),
              ElementsAre("a 0,1 + b 0,1", "v 0,1:0,1", "v 1,1:0,1"));
  ASSERT_EQ(made.warnings.size(), 1u) << "one for the piece";
  EXPECT_THAT(made.warnings[0], HasSubstr("\"v\": 2 elements"));
  EXPECT_THAT(made.warnings[0], HasSubstr("need at most 12 bytes, found 16"));
}

TEST(MaxShardSizeTest, MendsB1LimitBelowOne) {
  for (const int64_t limit : {int64_t{0}, int64_t{-8}, INT64_MIN}) {
    const StatusOr<Grouping> made = MaxShardSize(limit).group(OneD());
    EXPECT_EQ(made.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(
        std::string(made.status().message()),
        HasSubstr("need 1 byte or more, found " + std::to_string(limit)));
  }
}

TEST(MaxShardSizeTest, MendsB1GrowingMemory) {
  const int64_t limit = int64_t{1} << 22;
  const Pieces fits = {WholeArray("v", DType::kU8, {limit})};
  EXPECT_EQ(Pack(fits, 1024).groups.size(), 4096u);
  const Pieces huge = {WholeArray("v", DType::kU8, {limit, limit})};
  const StatusOr<Grouping> made = MaxShardSize(1024).group(huge);
  EXPECT_EQ(made.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(made.status().message()),
              HasSubstr("limit of 1024 bytes is too small (need at most "
                        "4194304 groups, found more at key \"v\")"));
}

TEST(MaxShardSizeTest, MendsB2ZeroSizeTensorsStay) {
  EXPECT_THAT(PackTexts({WholeArray("z", DType::kF32, {0, 3}),
                         WholeArray("v", DType::kF32, {2}),
                         WholeArray("y", DType::kF32, {2, 0})},
                        8),
              ElementsAre("z 0,0:0,3 + v 0,2 + y 0,2:0,0"));
  EXPECT_THAT(PackTexts({WholeArray("z", DType::kF32, {0})}, 1),
              ElementsAre("z 0,0"));
}

TEST(MaxShardSizeTest, MendsB3NoEmptyGroup) {
  // An oversize piece alone leaves no open group behind.
  EXPECT_THAT(PackTexts({WholeArray("v", DType::kF64, {})}, 4),
              ElementsAre("v"));
}

TEST(MaxShardSizeTest, MendsB5MaximalBlocksOfRows) {
  // The source cuts 250 rows, then 12 to fill, then 246 + 16 and so on.
  EXPECT_THAT(PackTexts({WholeArray("v", DType::kF32, {1000, 1000})}, 1 << 20),
              ElementsAre("v 0,262:0,1000", "v 262,262:0,1000",
                          "v 524,262:0,1000", "v 786,214:0,1000"));
}

TEST(MaxShardSizeTest, MendsB6StringsAreMeasuredExactly) {
  // The source takes 4 x 9 bytes, and makes 4 groups.
  EXPECT_THAT(PackTexts({TextPiece("a", 1), TextPiece("b", 1),
                         TextPiece("c", 1), TextPiece("d", 9)},
                        12),
              ElementsAre("a + b + c + d"));
  EXPECT_THAT(PackTexts({TextPiece("a", 1), TextPiece("b", 1),
                         TextPiece("c", 1), TextPiece("d", 9)},
                        10),
              ElementsAre("a + b + c", "d"));
}

TEST(MaxShardSizeTest, LargestNumbers) {
  // Nothing is multiplied that might not fit 63 bits.
  EXPECT_EQ(
      Pack({WholeArray("v", DType::kU8, {INT64_MAX})}, INT64_MAX).groups.size(),
      1u);
  EXPECT_EQ(Pack({WholeArray("v", DType::kU8, {INT64_MAX}),
                  WholeArray("w", DType::kU8, {INT64_MAX})},
                 INT64_MAX - 1)
                .groups.size(),
            3u);
}

// ---- Random pieces ----

// Whether a group is one element that is larger than the limit.
bool IsAlone(const ShardGroup& group, int64_t max_bytes) {
  return group.size() == 1 && group[0].bytes > max_bytes &&
         NumElements(group[0].box.shape) == 1;
}

// The number of the listed piece that each piece of the groups comes from, but
// for those without elements, of which there may be equal ones.
std::vector<size_t> Origins(const Pieces& listed, const Groups& groups) {
  std::vector<size_t> origins;
  for (const ShardGroup& group : groups) {
    for (const ShardableTensor& piece : group) {
      if (IsEmpty(piece.box)) continue;
      const auto from = std::find_if(
          listed.begin(), listed.end(), [&](const ShardableTensor& other) {
            return other.key == piece.key && Contains(other.box, piece.box);
          });
      origins.push_back(from - listed.begin());
    }
  }
  return origins;
}

TEST(MaxShardSizeTest, RandomPieces) {
  Random random(1);
  int64_t alone = 0, cut = 0;
  for (int i = 0; i < 30000; ++i) {
    const Pieces listed = RandomPieces(random);
    const int64_t limit = Uniform(1, Uniform(1, 200, random), random);
    const Grouping made = Pack(listed, limit);
    SCOPED_TRACE(::testing::PrintToString(GroupTexts({listed})) + " in " +
                 std::to_string(limit) + ": " +
                 ::testing::PrintToString(GroupTexts(made.groups)));
    ASSERT_EQ(OracleSays(listed, made.groups), "");
    const auto lone = std::find_if(
        made.groups.begin(), made.groups.end(),
        [&](const ShardGroup& group) { return IsAlone(group, limit); });
    const Groups filled(made.groups.begin(), lone);
    const Groups rest(lone, made.groups.end());
    for (const ShardGroup& group : filled) {
      ASSERT_LE(GroupBytes(group), limit);
    }
    for (const ShardGroup& group : rest) ASSERT_TRUE(IsAlone(group, limit));
    // A group was only opened for what did not fit into the one before.
    for (size_t g = 1; g < filled.size(); ++g) {
      ASSERT_GT(GroupBytes(filled[g - 1]) + filled[g][0].bytes, limit);
    }
    const std::vector<size_t> order = Origins(listed, filled);
    ASSERT_TRUE(std::is_sorted(order.begin(), order.end()));
    std::vector<size_t> warned = Origins(listed, rest);
    ASSERT_TRUE(std::is_sorted(warned.begin(), warned.end()));
    warned.erase(std::unique(warned.begin(), warned.end()), warned.end());
    ASSERT_EQ(made.warnings.size(), warned.size());
    alone += !rest.empty();
    cut += order.size() > listed.size();
  }
  EXPECT_GT(alone, 3000);
  EXPECT_GT(cut, 5000);
}

}  // namespace
}  // namespace belay::max_shard_size_test
