#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "state/stored_answer.h"

namespace belay::conversions_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// "w" is bf16 [4, 2], "n" an i64, "t" a text.
SavedCheckpoint Saved() {
  SavedCheckpoint saved;
  saved.arrays = {{.key = "n", .dtype = DType::kI64},
                  {.key = "t", .dtype = DType::kString, .string_bytes = 5},
                  {.key = "w", .dtype = DType::kBF16, .shape = {4, 2}}};
  return saved;
}

ShardInfo Want(const std::string& key, DType dtype, const Shape& shape,
               const Box& box) {
  return {.key = key, .dtype = dtype, .global_shape = shape, .box = box};
}

constexpr Tolerance kCast = {.dtype = true};
constexpr Tolerance kOtherShape = {.lengths = true};
constexpr Tolerance kBoth = {.dtype = true, .lengths = true};

std::vector<RankShards> Wanted() {
  const ShardInfo text = {.key = "t", .dtype = DType::kString};
  return {{.shards = {Want("w", DType::kF32, {6, 2}, {{0, 0}, {3, 2}}), text}},
          {.shards = {Want("w", DType::kF32, {6, 2}, {{3, 0}, {3, 2}}),
                      Want("n", DType::kI32, {}, {})}},
          {.shards = {Want("w", DType::kBF16, {4, 2}, {{0, 0}, {4, 2}}),
                      Want("absent", DType::kF32, {}, {})}}};
}

TEST(ConversionsTest, WantsWhatIsStoredWhereBothAreAllowed) {
  std::vector<RankShards> wanted = Wanted();
  const auto found = WantAsStored(Saved(), kBoth, wanted);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_THAT(*found, ElementsAre(Conversion{.key = "n",
                                             .dtype = DType::kI32,
                                             .stored_dtype = DType::kI64},
                                  Conversion{.key = "w",
                                             .dtype = DType::kF32,
                                             .shape = {6, 2},
                                             .stored_dtype = DType::kBF16,
                                             .stored_shape = {4, 2}}));
  EXPECT_THAT(wanted[0].shards,
              ElementsAre(Want("w", DType::kBF16, {4, 2}, {{0, 0}, {3, 2}}),
                          Wanted()[0].shards[1]));
  EXPECT_THAT(wanted[1].shards,
              ElementsAre(Want("w", DType::kBF16, {4, 2}, {{3, 0}, {1, 2}}),
                          Want("n", DType::kI64, {}, {})));
  EXPECT_EQ(wanted[2].shards, Wanted()[2].shards);
}

TEST(ConversionsTest, LeavesToThePlannerWhatIsNotAllowed) {
  std::vector<RankShards> wanted = Wanted();
  const auto none = WantAsStored(Saved(), {}, wanted);
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_THAT(*none, IsEmpty());
  EXPECT_EQ(wanted[0].shards, Wanted()[0].shards);
  EXPECT_EQ(wanted[1].shards, Wanted()[1].shards);

  ASSERT_TRUE(WantAsStored(Saved(), kCast, wanted).ok());
  EXPECT_EQ(wanted[0].shards[0],
            Want("w", DType::kBF16, {6, 2}, {{0, 0}, {3, 2}}));
  wanted = Wanted();
  ASSERT_TRUE(WantAsStored(Saved(), kOtherShape, wanted).ok());
  EXPECT_EQ(wanted[0].shards[0],
            Want("w", DType::kF32, {4, 2}, {{0, 0}, {3, 2}}));

  const RankShards odd = {.shards = {Want("w", DType::kBF16, {8}, {{0}, {8}}),
                                     Want("t", DType::kU8, {}, {})}};
  wanted = {odd};
  ASSERT_TRUE(WantAsStored(Saved(), kBoth, wanted).ok());
  EXPECT_EQ(wanted[0].shards, odd.shards);
}

TEST(ConversionsTest, ABoxOutsideItsArrayIsNotCutToFit) {
  for (const Box& box : {Box{{4, 0}, {3, 2}}, Box{{0}, {4}}}) {
    std::vector<RankShards> wanted = {
        {}, {.shards = {Want("w", DType::kBF16, {6, 2}, box)}}};
    const Status status = WantAsStored(Saved(), kBoth, wanted).status();
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(std::string(status.message()),
                ::testing::StartsWith("plan \"w\": rank 1: "));
  }
}

TEST(ConversionsTest, TellsTheFormOfEachShard) {
  std::vector<RankShards> wanted = Wanted();
  const auto found = WantAsStored(Saved(), kBoth, wanted);
  ASSERT_TRUE(found.ok()) << found.status();
  const auto shard = [](const std::string& key, DType dtype,
                        const Shape& shape) {
    return Shard{.key = key, .dtype = dtype, .global_shape = shape};
  };
  const auto forms = FindForms(
      {shard("w", DType::kF32, {6, 2}), shard("other", DType::kU8, {3}),
       shard("w", DType::kBF16, {4, 2})},
      {}, *found);
  ASSERT_TRUE(forms.ok()) << forms.status();
  EXPECT_THAT(*forms, ElementsAre(StoredForm{DType::kBF16, {4, 2}},
                                  StoredForm{DType::kU8, {3}},
                                  StoredForm{DType::kBF16, {4, 2}}));
  EXPECT_THAT(*FindForms({shard("w", DType::kF32, {6, 2})}, {}, {}), IsEmpty());
  const auto refused = [&](DType dtype, const Shape& shape) {
    return std::string(
        FindForms({shard("w", dtype, shape)}, {}, *found).status().message());
  };
  EXPECT_EQ(refused(DType::kF32, {8}),
            "convert \"w\": not convertible (need f32 [8], found bf16 [4, 2])");
  EXPECT_EQ(
      refused(DType::kString, {4, 2}),
      "convert \"w\": not convertible (need string [4, 2], found bf16 [4, "
      "2])");
}

// Whether another value tolerates a difference does not matter.
TEST(ConversionsTest, EachValueToleratesItsOwn) {
  std::vector<RankShards> wanted = Wanted();
  const auto found = WantAsStored(Saved(), kBoth, wanted);
  const std::vector<Shard> shards = {
      {.key = "w", .dtype = DType::kF32, .global_shape = {6, 2}}};
  EXPECT_TRUE(FindForms(shards, {kBoth}, *found).ok());
  for (const Tolerance tolerance : {kCast, kOtherShape, Tolerance()}) {
    const Status status = FindForms(shards, {tolerance}, *found).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status));
    EXPECT_THAT(std::string(status.message()),
                ::testing::HasSubstr("plan \"w\": the stored dtype or shape "
                                     "differs, and its arguments do not allow "
                                     "that"));
  }
}

TEST(ConversionsTest, TravelsAsBytes) {
  std::vector<RankShards> wanted = Wanted();
  const auto found = WantAsStored(Saved(), kBoth, wanted);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(Decode<std::vector<Conversion>>(Encode(*found)), *found);
}

}  // namespace
}  // namespace belay::conversions_test
