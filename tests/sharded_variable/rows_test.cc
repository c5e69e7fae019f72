#include <gtest/gtest.h>

#include <random>

#include "sharded_variable/operation.h"

namespace belay::rows_test {
namespace {

ShardedVariable OfComponents(const std::vector<int64_t>& rows) {
  std::vector<Component> components;
  int64_t first = 0;
  for (int64_t some : rows) {
    components.push_back({.first_row = first, .num_rows = some});
    first += some;
  }
  return ShardedVariable("v", DType::kF32, {first, 0}, std::move(components),
                         nullptr);
}

TEST(RowFinderTest, FindsTheComponentOfEveryRow) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<int64_t> rows(1 + random() % 9);
    for (int64_t& some : rows) some = random() % (1 + random() % 300);
    const ShardedVariable variable = OfComponents(rows);
    const RowFinder finder(variable);
    int64_t row = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      for (const int64_t end = row + rows[i]; row < end; ++row) {
        ASSERT_EQ(&finder.Find(row), &variable.components()[i]);
      }
    }
  }
}

// The row after the last range is beyond 64 bits.
TEST(RowFinderTest, FindsTheLastRowOfAll) {
  const int64_t half = int64_t{1} << 62;
  const ShardedVariable variable = OfComponents({half, half - 2, 1});
  const RowFinder finder(variable);
  EXPECT_EQ(finder.Find(0).first_row, 0);
  EXPECT_EQ(finder.Find(half - 1).first_row, 0);
  EXPECT_EQ(finder.Find(half).first_row, half);
  EXPECT_EQ(finder.Find(INT64_MAX - 1).first_row, INT64_MAX - 1);
}

TEST(CheckRowsTest, NamesTheFirstIndexThatIsNoRow) {
  EXPECT_EQ(CheckRows(OfComponents({2, 1}), {0, 2, 3, -1}),
            absl::OutOfRangeError("indices[2] is not one of the 3 rows (need "
                                  "0 to 2, found 3)"));
  EXPECT_EQ(CheckRows(OfComponents({0}), {5}),
            absl::OutOfRangeError(
                "indices[0] is not a row: there are none (found 5)"));
}

}  // namespace
}  // namespace belay::rows_test
