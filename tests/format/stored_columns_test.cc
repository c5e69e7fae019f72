// The bytes of the columns of an index, and arrays that are taken out of them.
#include "format/stored_columns.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plan/stored_arrays.h"
#include "store_testing.h"

namespace belay::stored_columns_test {
namespace {

using Texts = std::vector<std::string>;

// What the index says if it has only these arrays.
SavedCheckpoint Select(const SavedCheckpoint& saved, const Texts& keys) {
  std::optional<IndexColumns> columns =
      SelectArrays(ToStoredColumns(ToColumns(saved)), keys);
  EXPECT_TRUE(columns.has_value());
  if (!columns) return {};
  StatusOr<SavedCheckpoint> some = FromColumns(*std::move(columns), "index");
  EXPECT_TRUE(some.ok()) << some.status();
  return some.ok() ? *some : SavedCheckpoint();
}

// Checks that the array number `at` of `some` is the one with this number.
void ExpectSameArray(const SavedCheckpoint& some, size_t at,
                     const SavedCheckpoint& saved, size_t number) {
  const ArrayEntry entry = ArrayEntries(saved)[number];
  const ArrayEntry found = ArrayEntries(some)[at];
  EXPECT_EQ(some.arrays[at], saved.arrays[number]);
  ASSERT_EQ(found.datasets.size(), entry.datasets.size());
  for (size_t i = 0; i < entry.datasets.size(); ++i) {
    StoredDataset expected = entry.datasets[i];
    expected.array = static_cast<int32_t>(at);
    EXPECT_EQ(found.datasets[i], expected);
  }
  if (!saved.has_checksums) return;
  for (int64_t i = 0; i < NumBlocks(ArrayBytes(saved.arrays[number])); ++i) {
    EXPECT_EQ(some.checksums[static_cast<size_t>(found.first_block + i)],
              saved.checksums[static_cast<size_t>(entry.first_block + i)]);
  }
}

TEST(StoredColumnsTest, RowsHaveTheWidthOfTheLongest) {
  StoredColumns stored = ToStoredColumns(ToColumns(SmallIndex()));
  const StoredColumn& keys = FindColumn(stored, ".belay/arrays/key");
  EXPECT_EQ(keys.rows, 5);
  EXPECT_EQ(keys.width, 3);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(keys.bytes.get()), 15),
            std::string("a\0\0b\0\0c\0\0d/ed/f", 15));
  EXPECT_EQ(GetText(keys, 0), "a");
  EXPECT_EQ(GetText(keys, 4), "d/f");
  EXPECT_EQ(GetRows<std::string>(keys), Texts({"a", "b", "c", "d/e", "d/f"}));
  const StoredColumn& arrays = FindColumn(stored, ".belay/datasets/array");
  EXPECT_EQ(arrays.width, 4);
  EXPECT_EQ(GetRows<uint32_t>(arrays), std::vector<uint32_t>({0, 1, 3, 4, 4}));
  EXPECT_EQ(FindColumn(stored, ".belay/none").rows, 0);
}

TEST(StoredColumnsTest, TheySayTheSame) {
  Random random(3);
  for (int i = 0; i < 50; ++i) {
    const SavedCheckpoint saved = RandomIndex(random);
    const StatusOr<SavedCheckpoint> again =
        FromColumns(ToIndexColumns(ToStoredColumns(ToColumns(saved))), "index");
    ASSERT_TRUE(again.ok()) << again.status();
    ExpectSame(*again, saved);
  }
}

TEST(StoredColumnsTest, AnArrayAloneIsTheSame) {
  Random random(4);
  for (int i = 0; i < 50; ++i) {
    const SavedCheckpoint saved = RandomIndex(random);
    for (size_t number = 0; number < saved.arrays.size(); ++number) {
      const SavedCheckpoint one = Select(saved, {saved.arrays[number].key});
      ASSERT_EQ(one.arrays.size(), 1);
      ExpectSameArray(one, 0, saved, number);
      EXPECT_EQ(one.checksums.size(),
                saved.has_checksums ? NumBlocks(ArrayBytes(one.arrays[0])) : 0);
      EXPECT_EQ(one.step, saved.step);
      EXPECT_EQ(one.time, saved.time);
      EXPECT_EQ(one.files, saved.files);
      EXPECT_EQ(one.file_layout, saved.file_layout);
    }
  }
}

TEST(StoredColumnsTest, SeveralArraysAreTheSame) {
  Random random(5);
  for (int i = 0; i < 50; ++i) {
    const SavedCheckpoint saved = RandomIndex(random);
    std::vector<size_t> numbers;
    Texts keys;
    for (size_t number = 0; number < saved.arrays.size(); ++number) {
      if (Uniform(0, 1, random) == 0) continue;
      numbers.push_back(number);
      keys.insert(keys.begin(), saved.arrays[number].key);  // in any order
    }
    if (!keys.empty()) keys.push_back(keys[0]);  // and twice
    const SavedCheckpoint some = Select(saved, keys);
    ASSERT_EQ(some.arrays.size(), numbers.size());
    for (size_t at = 0; at < numbers.size(); ++at) {
      ExpectSameArray(some, at, saved, numbers[at]);
    }
  }
}

TEST(StoredColumnsTest, StructsKeepTheirFields) {
  SavedCheckpoint saved = SmallIndex();
  saved.arrays[2].shape = {0, 8};
  saved.arrays[2].fields = "id:i64";
  EXPECT_EQ(Select(saved, {"c"}).arrays[0].fields, "id:i64");
  EXPECT_EQ(Select(saved, {"d/f", "c"}).arrays[0].fields, "id:i64");
  EXPECT_EQ(Select(saved, {"d/f"}).arrays[0].fields, "");
}

TEST(StoredColumnsTest, KeysThatAreNotThereAreLeftOut) {
  EXPECT_EQ(Select(SmallIndex(), {"d", "x", "", "aa"}).arrays.size(), 0);
  EXPECT_EQ(Select(SmallIndex(), {"d", "b"}).arrays[0].key, "b");
}

// Where the chunks are called depends on all keys.
TEST(StoredColumnsTest, ArraysWithFiltersAreNotTakenOut) {
  SavedCheckpoint saved = SmallIndex();
  saved.datasets[0].filters = Deflate(1);
  saved.datasets[0].offset = -1;
  const StoredColumns stored = ToStoredColumns(ToColumns(saved));
  EXPECT_FALSE(SelectArrays(stored, {"a"}).has_value());
  EXPECT_TRUE(SelectArrays(stored, {"b"}).has_value());
}

// Of two arrays with one key it would be unclear which is meant.
TEST(StoredColumnsTest, AKeyThatIsThereTwiceIsNotTakenOut) {
  SavedCheckpoint saved = SmallIndex();
  saved.arrays[1].key = "a";
  const StoredColumns stored = ToStoredColumns(ToColumns(saved));
  EXPECT_FALSE(SelectArrays(stored, {"a"}).has_value());
  EXPECT_TRUE(SelectArrays(stored, {"c"}).has_value());
}

// A column of another length, longer or shorter, is either refused, or of the
// few whose rows say nothing of arrays and datasets.
TEST(StoredColumnsTest, ColumnsOfAnotherLengthDoNotFit) {
  IndexColumns columns = ToColumns(SmallIndex());
  const SavedCheckpoint whole = Select(SmallIndex(), {"d/f"});
  const auto refused = [&](const char* path) {
    const std::string_view column(path);
    return column.starts_with(".belay/arrays/") ||
           column.starts_with(".belay/datasets/") ||
           column == kChecksumColumn || column == kFileBytesColumn;
  };
  ForEachColumn(columns, [&](const char* path, auto& column) {
    const auto rows = column;
    for (const size_t size : {rows.size() + 1, rows.size() - 1, size_t{1}}) {
      if (rows.empty() || size == rows.size() || !refused(path)) continue;
      column.resize(size);
      std::optional<IndexColumns> some =
          SelectArrays(ToStoredColumns(columns), {"d/f"});
      EXPECT_FALSE(some && FromColumns(*std::move(some), "index").ok())
          << path << " with " << size << " rows";
    }
    column = rows;
  });
  ExpectSame(Select(SmallIndex(), {"d/f"}), whole);
}

}  // namespace
}  // namespace belay::stored_columns_test
