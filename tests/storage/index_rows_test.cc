// Rows of ranks in the columns of an index.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "format/index_columns.h"
#include "store_testing.h"

namespace belay::index_rows_test {
namespace {

using ::testing::HasSubstr;

TEST(IndexRowsTest, WhatDoesNotFitIsDamage) {
  SavedCheckpoint saved = SmallIndex();
  saved.rows = {{0, MakeRowRanks({2, 2})}, {4, MakeRowRanks({0, 1, 1})}};
  const IndexColumns good = ToColumns(saved);
  EXPECT_EQ(good.rows.count, std::vector<int64_t>({2, -1}));
  EXPECT_EQ(good.rows.first, std::vector<int64_t>({0, 0, 1, 2}));
  ExpectSame(FromColumns(good, "dir/index.h5").value(), saved);
  const auto damage = [&](auto change) {
    IndexColumns bad = good;
    change(bad.rows);
    const Status status = FromColumns(bad, "dir/index.h5").status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(damage([](RowColumns& rows) { rows.array[1] = 0; }),
              HasSubstr("rows/array of row 1 is out of range"));
  EXPECT_THAT(damage([](RowColumns& rows) { rows.array[1] = 3; }),
              HasSubstr("rows/array of row 1"));  // a scalar
  EXPECT_THAT(damage([](RowColumns& rows) { rows.array[1] = 9; }),
              HasSubstr("rows/array of row 1"));
  EXPECT_THAT(damage([](RowColumns& rows) { rows.ranks[0] = 0; }),
              HasSubstr("rows/ranks of row 0"));
  EXPECT_THAT(damage([](RowColumns& rows) { rows.count[0] = -2; }),
              HasSubstr("rows/count of row 0"));
  EXPECT_THAT(damage([](RowColumns& rows) { rows.ranks.pop_back(); }),
              HasSubstr("column \"rows/ranks\" has the wrong length"));
  EXPECT_THAT(damage([](RowColumns& rows) { rows.first.push_back(2); }),
              HasSubstr("column \"rows/first\" has the wrong length"));
  for (const int64_t count : {int64_t{3}, INT64_MAX, INT64_MAX / 2 + 1}) {
    EXPECT_THAT(damage([&](RowColumns& rows) { rows.count[0] = count; }),
                HasSubstr("rows/first of row 0"));
  }
  EXPECT_THAT(damage([](RowColumns& rows) { rows.ranks[1] = INT32_MAX; }),
              HasSubstr("rows/first of row 1"));
  for (const auto& first : std::vector<std::vector<int64_t>>{
           {1, 1, 1, 2}, {0, 2, 1, 2}, {0, 0, 1, 3}, {0, -1, 1, 2}}) {
    EXPECT_THAT(damage([&](RowColumns& rows) { rows.first = first; }),
                HasSubstr("rows/first of row 1"));
  }
}

}  // namespace
}  // namespace belay::index_rows_test
