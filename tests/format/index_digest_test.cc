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
    ForEachColumn(0, columns, [&](const std::string& path, const auto& column) {
      const bool changes =
          path == ".belay/step" || path == ".belay/checksums/crc32c";
      AppendRows(column, changes ? values : structure);
    });
    const StoredColumns stored = ToStoredColumns(columns);
    const IndexDigest digest = DigestOf(stored);
    EXPECT_EQ(digest.structure, PlainCrc(structure));
    EXPECT_EQ(digest.values, PlainCrc(values));
    EXPECT_EQ(digest.values, DigestOfValues(columns.step[0], columns.checksum));
    for (uint32_t minor = 1; minor <= kFormatMinor; ++minor) {
      std::string added;
      ForEachColumn(minor, columns,
                    [&](const std::string&, const auto& column) {
                      AppendRows(column, added);
                    });
      EXPECT_EQ(DigestOfAdded(minor, stored), PlainCrc(added));
    }
  }
}

// Which digests differ: structure, values, added by 1.1, by 1.2 and so on.
std::vector<bool> Differ(const IndexColumns& a_columns,
                         const IndexColumns& b_columns) {
  const StoredColumns a = ToStoredColumns(a_columns);
  const StoredColumns b = ToStoredColumns(b_columns);
  const IndexDigest da = DigestOf(a), db = DigestOf(b);
  std::vector<bool> differ = {da.structure != db.structure,
                              da.values != db.values};
  for (uint32_t minor = 1; minor <= kFormatMinor; ++minor) {
    differ.push_back(DigestOfAdded(minor, a) != DigestOfAdded(minor, b));
  }
  return differ;
}

TEST(IndexDigestTest, EveryRowOfEveryColumnCountsInOneDigest) {
  SavedCheckpoint saved = SmallIndex();
  saved.rows = {{0, RowRanksOf({2, 2})}, {4, RowRanksOf({0, 1, 1})}};
  const IndexColumns good = ToColumns(saved);
  IndexColumns changed = good;
  int columns = 0;
  uint32_t minor = 0;
  const auto change = [&](const std::string& path, auto& column) {
    using Row = typename std::decay_t<decltype(column)>::value_type;
    const bool is_value =
        path == ".belay/step" || path == ".belay/checksums/crc32c";
    std::vector<bool> expected(kFormatMinor + 2);
    expected[minor > 0 ? minor + 1 : is_value ? 1 : 0] = true;
    ++columns;
    for (Row& row : column) {
      const Row old = row;
      if constexpr (std::is_same_v<Row, std::string>) {
        row += 'x';
      } else {
        row ^= 1;
      }
      EXPECT_EQ(Differ(changed, good), expected) << path;
      row = old;
    }
    EXPECT_EQ(Differ(changed, good), std::vector<bool>(kFormatMinor + 2))
        << path;
  };
  for (; minor <= kFormatMinor; ++minor) {
    ForEachColumn(minor, changed, change);
  }
  EXPECT_EQ(columns, 19 + 2 + 15 + 7 + 3 + 4 + 2);
}

// The digests that an older reader knows do not see newer columns.
TEST(IndexDigestTest, OlderDigestsStayTheSame) {
  const IndexColumns all = ToColumns(SmallIndex());
  IndexColumns some = all;
  some.graph = {};
  // Structure, values, 1.1 to 1.6.
  EXPECT_EQ(Differ(all, some), std::vector<bool>({0, 0, 0, 1, 0, 0, 0, 0}));
  some.dataset_group = {1};
  EXPECT_EQ(Differ(all, some), std::vector<bool>({0, 0, 1, 1, 0, 0, 0, 0}));
}

TEST(IndexDigestTest, ValuesAreLeftOutOnlyWithoutRows) {
  IndexColumns columns = ToColumns(SmallIndex());
  EXPECT_TRUE(HaveColumns(3, columns));
  columns.values = {};
  EXPECT_FALSE(HaveColumns(3, columns));
}

TEST(IndexDigestTest, AGraphIsLeftOutOnlyWithoutRows) {
  IndexColumns columns = ToColumns(SmallIndex());
  EXPECT_TRUE(HaveColumns(2, columns));
  columns.graph = {};
  EXPECT_FALSE(HaveColumns(2, columns));
  columns.graph.slot_node = {0};
  EXPECT_TRUE(HaveColumns(2, columns));
  EXPECT_TRUE(HaveColumns(0, {}));
  EXPECT_TRUE(HaveColumns(1, {}));
}

}  // namespace
}  // namespace belay::index_digest_test
