// What goes into the digests of the index, and what stays out.

#include <gtest/gtest.h>

#include <string>
#include <type_traits>
#include <vector>

#include "format/index_columns.h"
#include "format/stored_columns.h"
#include "store_testing.h"

namespace belay::index_digest_test {
namespace {

template <typename T>
void AppendRows(const std::vector<T>& column, std::string& bytes) {
  const auto number = [&](uint64_t value) {
    for (int i = 0; i < 8; ++i) bytes.push_back(char(value >> (8 * i)));
  };
  number(column.size());
  for (const T& row : column) {
    if constexpr (std::is_same_v<T, std::string>) {
      number(row.size());
      bytes += row;
    } else {
      for (size_t i = 0; i < sizeof(T); ++i) {
        bytes.push_back(char(uint64_t(row) >> (8 * i)));
      }
    }
  }
}

TEST(IndexDigestTest, TheDigestIsThatOfTheFormat) {
  Random random(7);
  for (int i = 0; i < 50; ++i) {
    const IndexColumns columns = ToColumns(RandomIndex(random));
    std::string structure, values;
    ForEachColumn(columns, [&](const std::string& path, const auto& column) {
      const bool changes = path == ".belay/step" ||
                           path == ".belay/header/time" ||
                           path == ".belay/checksums/crc32c";
      AppendRows(column, changes ? values : structure);
    });
    const IndexDigest digest = ComputeDigest(ToStoredColumns(columns));
    EXPECT_EQ(digest.structure, PlainCrc(structure));
    EXPECT_EQ(digest.values, PlainCrc(values));
    EXPECT_EQ(
        digest.values,
        ComputeValueDigest(columns.step[0], columns.time[0], columns.checksum));
  }
}

TEST(IndexDigestTest, EveryRowOfEveryColumnCountsInOnePart) {
  SavedCheckpoint saved = SmallIndex();
  saved.rows = {{0, MakeRowRanks({2, 2})}, {4, MakeRowRanks({0, 1, 1})}};
  saved.arrays[2].shape = {0, 8};
  saved.arrays[2].fields = "id:i64";
  const IndexColumns good = ToColumns(saved);
  const IndexDigest need = ComputeDigest(ToStoredColumns(good));
  IndexColumns changed = good;
  int columns = 0;
  ForEachColumn(changed, [&](const std::string& path, auto& column) {
    using Row = typename std::decay_t<decltype(column)>::value_type;
    const bool is_value = path == ".belay/step" ||
                          path == ".belay/header/time" ||
                          path == ".belay/checksums/crc32c";
    const auto expect_one_part = [&] {
      const IndexDigest found = ComputeDigest(ToStoredColumns(changed));
      EXPECT_EQ(found.structure == need.structure, is_value) << path;
      EXPECT_EQ(found.values == need.values, !is_value) << path;
    };
    ++columns;
    for (Row& row : column) {
      const Row old = row;
      if constexpr (std::is_same_v<Row, std::string>) {
        row += 'x';
      } else {
        row ^= 1;
      }
      expect_one_part();
      row = old;
    }
    // So does a column that is gone, or one that should be.
    const std::vector<Row> rows = column;
    column.empty() ? column.resize(1) : column.clear();
    expect_one_part();
    column = rows;
    EXPECT_EQ(ComputeDigest(ToStoredColumns(changed)), need) << path;
  });
  EXPECT_EQ(columns, 25 + 15 + 7 + 4 + 2);
}

}  // namespace
}  // namespace belay::index_digest_test
