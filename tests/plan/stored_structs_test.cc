#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "plan/stored_arrays.h"

namespace belay::stored_structs_test {
namespace {

using ::testing::HasSubstr;

// Two arrays, of which the second is made of structs of 12 bytes.
SavedCheckpoint Saved() {
  SavedCheckpoint saved;
  saved.arrays = {{.key = "a", .dtype = DType::kF32, .shape = {3}},
                  {.key = "b", .dtype = DType::kU8, .shape = {5, 12}}};
  saved.datasets = {{.array = 0, .box = {{0}, {3}}},
                    {.array = 1, .box = {{0, 0}, {5, 12}}, .chunk = {2, 12}}};
  return saved;
}

TEST(StoredStructsTest, ColumnsGoThereAndBack) {
  SavedCheckpoint saved = Saved();
  EXPECT_EQ(FromStructColumns({}, saved), "");
  const StructColumns columns{{1}, {"id:i64 x:f32"}};
  EXPECT_EQ(FromStructColumns(columns, saved), "");
  EXPECT_EQ(saved.arrays[0].fields, "");
  EXPECT_EQ(saved.arrays[1].fields, "id:i64 x:f32");
  const StructColumns again = ToStructColumns(saved.arrays);
  EXPECT_EQ(again.array, columns.array);
  EXPECT_EQ(again.fields, columns.fields);
}

TEST(StoredStructsTest, DamageIsFound) {
  const auto damage = [](const StructColumns& columns,
                         SavedCheckpoint saved = Saved()) {
    return FromStructColumns(columns, saved);
  };
  const std::string fields = "id:i64 x:f32";
  EXPECT_THAT(damage({{1}, {}}), HasSubstr("structs/fields"));
  EXPECT_THAT(damage({{2}, {fields}}), HasSubstr("structs/array of row 0"));
  EXPECT_THAT(damage({{1, 1}, {fields, fields}}),
              HasSubstr("structs/array of row 1"));
  for (const char* const text : {"", "id:i64", "no text", "x:f32[4]"}) {
    EXPECT_THAT(damage({{1}, {text}}), HasSubstr("structs/fields of row 0"));
  }
  // Neither numbers of another dtype, nor other bytes.
  EXPECT_THAT(damage({{0}, {"x:u8[3]"}}), HasSubstr("structs/fields of row 0"));
  SavedCheckpoint cut = Saved();
  cut.datasets[1].chunk = {5, 6};
  EXPECT_THAT(damage({{1}, {fields}}, cut), HasSubstr("parts of structs"));
  cut = Saved();
  cut.datasets[1].box.shape = {5, 4};
  EXPECT_THAT(damage({{1}, {fields}}, cut), HasSubstr("parts of structs"));
}

TEST(StoredStructsTest, APlanMustNotCutThem) {
  const SavedCheckpoint saved = Saved();
  SavePlan plan{.arrays = saved.arrays, .datasets = saved.datasets};
  plan.datasets[1].chunk = {5, 6};
  EXPECT_EQ(CheckWholeStructs(plan), absl::OkStatus());  // they are numbers
  plan.arrays[1].fields = "id:i64 x:f32";
  EXPECT_THAT(CheckWholeStructs(plan).ToString(),
              HasSubstr("plan \"b\": its structs are cut"));
  plan.datasets[1].chunk = {5, 12};
  EXPECT_EQ(CheckWholeStructs(plan), absl::OkStatus());
}

}  // namespace
}  // namespace belay::stored_structs_test
