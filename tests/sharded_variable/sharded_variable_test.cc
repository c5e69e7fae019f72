#include "belay/sharded_variable.h"

#include <gmock/gmock.h>

namespace belay::sharded_variable_test {
namespace {

using ::testing::ElementsAre;

// Rows 3, 0, 4 and 1 of 2 elements.
ShardedVariable Uneven() {
  return ShardedVariable("v", DType::kI16, {8, 2},
                         {{.first_row = 0, .num_rows = 3, .owner = 0},
                          {.first_row = 3, .num_rows = 0, .owner = 1},
                          {.first_row = 3, .num_rows = 4, .owner = 1},
                          {.first_row = 7, .num_rows = 1, .owner = 0}},
                         nullptr);
}

TEST(ShardedVariableTest, SaysWhereItsComponentsAre) {
  const ShardedVariable variable = Uneven();
  EXPECT_THAT(variable.Offsets(),
              ElementsAre(Shape{0, 0}, Shape{3, 0}, Shape{3, 0}, Shape{7, 0}));
  EXPECT_EQ(variable.ComponentBox(variable.components()[2]),
            (Box{{3, 0}, {4, 2}}));
  EXPECT_EQ(variable.RowBytes(), 4);
}

TEST(ShardedVariableTest, WithoutComponentsNothingIsThere) {
  ShardedVariable gone = Uneven();
  const ShardedVariable moved = std::move(gone);
  for (const ShardedVariable& variable :
       {ShardedVariable(), std::move(gone)}) {  // NOLINT: as it was left
    EXPECT_EQ(variable.RowBytes(), 0);
    EXPECT_TRUE(variable.Offsets().empty());
    EXPECT_EQ(SpecText(variable.Spec()).find('['), std::string::npos);
  }
}

TEST(ShardedVariableTest, FindsTheComponentOfEveryRow) {
  const ShardedVariable variable = Uneven();
  std::vector<int> found;
  for (int64_t row = 0; row < 8; ++row) {
    found.push_back(variable.FindComponent(row));
  }
  EXPECT_THAT(found, ElementsAre(0, 0, 0, 2, 2, 2, 2, 3));
}

TEST(ShardedVariableTest, SpecsAreEqualWhereDtypeAndShapesAre) {
  ShardedVariableSpec spec = Uneven().Spec();
  EXPECT_EQ(SpecText(spec), "i16 [3, 2] [0, 2] [4, 2] [1, 2]");
  EXPECT_EQ(spec, Uneven().Spec());
  spec.dtype = DType::kU16;
  EXPECT_NE(spec, Uneven().Spec());
  spec = Uneven().Spec();
  spec.component_shapes.pop_back();
  EXPECT_NE(spec, Uneven().Spec());
}

}  // namespace
}  // namespace belay::sharded_variable_test
