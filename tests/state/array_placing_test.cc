#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "state/array_access.h"

namespace belay::array_placing_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<StoredArray>& Stored() {
  static const auto* const stored = new std::vector<StoredArray>{
      {.key = "adam/m", .dtype = DType::kF32, .shape = {8, 4}},
      {.key = "model/b", .dtype = DType::kC64, .shape = {4}},
      {.key = "model/w",
       .dtype = DType::kF32,
       .shape = {8, 4},
       .layout = "[x,-] on x=2,y=2"},
      {.key = "note", .dtype = DType::kString}};
  return *stored;
}

std::vector<PlacedArray> Placed(const std::vector<ArrayRestoreArgsFor>& args,
                                int rank = 0, int num_ranks = 1) {
  return PlaceArrays(Stored(), args, rank, num_ranks).value();
}

void ExpectError(const std::vector<ArrayRestoreArgsFor>& args,
                 absl::StatusCode code, const std::string& text) {
  const Status status = PlaceArrays(Stored(), args, 0, 4).status();
  EXPECT_EQ(status.code(), code);
  EXPECT_THAT(std::string(status.message()), HasSubstr(text));
}

TEST(ArrayPlacing, WithoutArgumentsAllIsWholeAndAsStored) {
  const std::vector<PlacedArray> placed = Placed({}, 2, 3);
  ASSERT_EQ(placed.size(), 4u);
  EXPECT_EQ(placed[2].key, "model/w");
  EXPECT_EQ(placed[2].dtype, DType::kF32);
  EXPECT_EQ(placed[2].box, WholeBox({8, 4}));
  EXPECT_EQ(placed[2].replica, 2);
  EXPECT_FALSE(placed[2].layout.has_value());
  EXPECT_FALSE(placed[2].has_zeros);
}

TEST(ArrayPlacing, TheFirstEntryThatMatchesCounts) {
  const std::vector<PlacedArray> placed =
      Placed({{"model/w", {.dtype = DType::kF64}},
              {"(model|adam)/.*", {.skip = true}}});
  ASSERT_EQ(placed.size(), 2u);
  EXPECT_EQ(placed[0].key, "model/w");
  EXPECT_EQ(placed[0].dtype, DType::kF64);
  EXPECT_EQ(placed[1].key, "note");
}

TEST(ArrayPlacing, CutsByTheLayoutThatIsGivenOrStored) {
  const Layout columns = *Layout::Parse("[-,x] on x=4");
  const std::vector<ArrayRestoreArgsFor> args = {
      {"adam/m", {.layout = columns}}, {".*", {.stored_layout = true}}};
  const std::vector<PlacedArray> placed = Placed(args, 3, 4);
  EXPECT_EQ(placed[0].box, (Box{{0, 3}, {8, 1}}));
  EXPECT_EQ(placed[0].replica, 0);
  EXPECT_EQ(placed[1].box, WholeBox({4}));  // none is stored
  EXPECT_EQ(placed[2].box, (Box{{4, 0}, {4, 4}}));
  EXPECT_EQ(placed[2].replica, 1);
  // On six ranks the same axes are cut.
  EXPECT_EQ(Placed({{".*", {.stored_layout = true}}}, 5, 6)[2].box,
            (Box{{6, 0}, {2, 4}}));
}

TEST(ArrayPlacing, PadsAndCutsIfNotStrict) {
  const ArrayRestoreArgs args{.global_shape = Shape{10, 3}, .strict = false};
  const std::vector<PlacedArray> placed = Placed({{"adam/m", args}});
  EXPECT_EQ(placed[0].global_shape, (Shape{10, 3}));
  EXPECT_EQ(placed[0].box, WholeBox({10, 3}));
  EXPECT_TRUE(placed[0].has_zeros);
  ArrayRestoreArgs smaller = args;
  smaller.global_shape = Shape{2, 0};
  EXPECT_FALSE(Placed({{"adam/m", smaller}})[0].has_zeros);
}

TEST(ArrayPlacing, RefusesWhatContradictsOrDoesNotFit) {
  using Code = absl::StatusCode;
  const Layout four = *Layout::Parse("[x,-] on x=4");
  ExpectError({{"m.del", {}}}, Code::kInvalidArgument,
              "args \"m.del\": matches no key (need one of 4)");
  ExpectError({{"(", {}}}, Code::kInvalidArgument, "not a regular expression");
  ExpectError({{".*", {.layout = four, .stored_layout = true}}},
              Code::kInvalidArgument, "not both");
  ExpectError({{".*", {.layout = *Layout::Parse("[x,-] on x=3")}}},
              Code::kInvalidArgument, "(need 4, found 3)");
  ExpectError({{"model/b", {.layout = four}}}, Code::kInvalidArgument,
              "wrong number of axes");
  ExpectError({{"model/b", {.dtype = DType::kF32}}}, Code::kInvalidArgument,
              "restore \"model/b\": c64 does not convert to f32");
  ExpectError({{"note", {.dtype = DType::kU8}}}, Code::kInvalidArgument,
              "restore \"note\": it is a text");
  ExpectError({{".*w", {.dtype = static_cast<DType>(200)}}},
              Code::kInvalidArgument, "unknown dtype (found number 200)");
  ExpectError({{".*w", {.global_shape = Shape{8, 5}}}},
              Code::kFailedPrecondition, "(need [8, 5], found [8, 4])");
  ExpectError({{".*w", {.global_shape = Shape{8}, .strict = false}}},
              Code::kFailedPrecondition, "the stored number of axes differs");
  ExpectError({{".*w", {.global_shape = Shape{-1, 4}, .strict = false}}},
              Code::kInvalidArgument, "keys \".*w\"");
}

TEST(ArrayPlacing, ADamagedLayoutIsDataLoss) {
  const Status status =
      PlaceArrays({{.key = "w", .shape = {2}, .layout = "[x on x=2"}},
                  {{"w", {.stored_layout = true}}}, 0, 2)
          .status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
}

TEST(ArrayPlacing, TravelsAsBytes) {
  EXPECT_EQ(Decode<std::vector<StoredArray>>(Encode(Stored())), Stored());
  const ArrayRestoreArgs args{.dtype = DType::kF16, .stored_layout = true};
  using Args = std::vector<ArrayRestoreArgsFor>;
  const std::string encoded = EncodeArgs(Args{{"a", args}});
  EXPECT_NE(encoded, EncodeArgs(Args{{"a", {}}}));
  EXPECT_NE(encoded, EncodeArgs(Args{{"b", args}}));
}

TEST(ArrayPlacing, TakesLayoutsFromTheGraph) {
  SavedCheckpoint saved;
  saved.arrays = {{.key = "a", .shape = {2}}, {.key = "b", .shape = {3}}};
  saved.graph.attribute_array = {1};
  saved.graph.attribute_layout = {"[x] on x=3"};
  const std::vector<StoredArray> values = ListStoredArrays(saved);
  EXPECT_THAT(values, ElementsAre(StoredArray{.key = "a", .shape = {2}},
                                  StoredArray{.key = "b",
                                              .shape = {3},
                                              .layout = "[x] on x=3"}));
}

}  // namespace
}  // namespace belay::array_placing_test
