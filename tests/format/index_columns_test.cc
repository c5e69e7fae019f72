#include "format/index_columns.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/checksum.h"
#include "store_testing.h"

namespace belay::index_columns_test {
namespace {

using Text = std::vector<std::string>;

Status Convert(const IndexColumns& columns) {
  return FromColumns(columns, "dir/index.h5").status();
}

Status Bad(const std::string& what) {
  return absl::DataLossError(
      absl::StrCat("read \"dir/index.h5\": ", what, " is out of range"));
}

Status Length(const std::string& column, const std::string& found) {
  return absl::DataLossError(absl::StrCat("read \"dir/index.h5\": column \"",
                                          column, "\" has the wrong length (",
                                          found, ")"));
}

TEST(IndexColumnsTest, ColumnsHoldWhatTheFormatSays) {
  const IndexColumns columns = ToColumns(SmallIndex());
  EXPECT_EQ(columns.magic, Text({"belay checkpoint"}));
  EXPECT_EQ(columns.format, std::vector<uint32_t>({1, 0}));
  EXPECT_EQ(columns.file_layout, std::vector<uint8_t>({2}));
  EXPECT_EQ(columns.block_bytes, std::vector<int64_t>({1048576}));
  EXPECT_EQ(columns.array_key, Text({"a", "b", "c", "d/e", "d/f"}));
  EXPECT_EQ(columns.array_dtype, std::vector<uint8_t>({3, 18, 11, 10, 12}));
  EXPECT_EQ(columns.array_ndim, std::vector<uint8_t>({2, 0, 2, 0, 2}));
  EXPECT_EQ(columns.array_shape, std::vector<int64_t>({4, 6, 0, 2, 2, 2}));
  EXPECT_EQ(columns.array_string_bytes, std::vector<int64_t>({0, 3, 0, 0, 0}));
  EXPECT_EQ(columns.file_name,
            Text({"data_00000_of_00002.h5", "data_00001_of_00002.h5"}));
  EXPECT_EQ(columns.file_bytes, std::vector<int64_t>({204, 62}));
  EXPECT_EQ(columns.dataset_array, std::vector<uint32_t>({0, 1, 3, 4, 4}));
  EXPECT_EQ(columns.dataset_file, std::vector<uint32_t>({0, 0, 1, 0, 1}));
  EXPECT_EQ(columns.dataset_offset,
            std::vector<int64_t>({100, 197, 50, 200, 58}));
  EXPECT_EQ(columns.dataset_chunked, std::vector<uint8_t>({1, 0, 0, 0, 0}));
  EXPECT_EQ(columns.dataset_box,
            std::vector<int64_t>({0, 0, 4, 6, 0, 3, 0, 0, 1, 2, 1, 0, 1, 2}));
  EXPECT_EQ(columns.dataset_chunk, std::vector<int64_t>({2, 3}));
  EXPECT_EQ(columns.dataset_group, std::vector<uint32_t>({1, 2, 4, 5, 5}));
  EXPECT_EQ(columns.dataset_task, std::vector<int64_t>({-1, -1, 0, -1, 0}));
  EXPECT_EQ(columns.step, std::vector<int64_t>({42}));
  EXPECT_EQ(columns.time, std::vector<int64_t>({1700000000}));
  EXPECT_EQ(columns.checksum, std::vector<uint32_t>({11, 12, 13, 14}));
  EXPECT_EQ(columns.graph, SmallGraph());
  EXPECT_EQ(columns.values, SmallValues());
  EXPECT_EQ(columns.array_args, Text({"shard_axes=[0]", "", "", "", ""}));
  EXPECT_EQ(columns.array_layout, Text({"", "", "on 2", "", ""}));
  EXPECT_EQ(columns.dataset_filters, Text());  // all would be empty
}

TEST(IndexColumnsTest, NoTextHasANulByte) {
  const std::string nul("a\0b", 3);
  IndexColumns columns = ToColumns(SmallIndex());
  columns.file_name[1] = nul;
  EXPECT_EQ(Convert(columns), Bad("files/name of row 1"));
  columns = ToColumns(SmallIndex());
  columns.array_key[2] = nul;
  EXPECT_EQ(Convert(columns), Bad("arrays/key of row 2"));
  columns = ToColumns(SmallIndex());
  columns.values.typestr.at(0) = nul;
  EXPECT_EQ(Convert(columns), Bad("values/typestr of row 0"));
}

// SmallIndex with filters on the chunks of "a".
SavedCheckpoint FilteredIndex() {
  SavedCheckpoint saved = SmallIndex();
  saved.datasets[0].filters = Deflate(6);
  saved.datasets[0].offset = -1;
  return saved;
}

TEST(IndexColumnsTest, FiltersAreTexts) {
  const SavedCheckpoint saved = FilteredIndex();
  const IndexColumns columns = ToColumns(saved);
  EXPECT_EQ(columns.dataset_chunked, std::vector<uint8_t>({2, 0, 0, 0, 0}));
  EXPECT_EQ(columns.dataset_filters, Text({"2(),1(6)", "", "", "", ""}));
  ExpectSame(FromColumns(columns, "dir/index.h5").value(), saved);
}

// Else a damaged index makes readers take all memory.
TEST(IndexColumnsTest, ChunksWithFiltersAreNoMoreThanTheFileCanHold) {
  SavedCheckpoint saved = FilteredIndex();
  saved.datasets = {saved.datasets[0]};
  saved.files = {{"data_00000_of_00001.h5", 0, 3}};
  const Status three = Convert(ToColumns(saved));
  EXPECT_EQ(three, Bad("datasets/offset of row 0"));
  saved.files[0].bytes = 4;
  EXPECT_NE(Convert(ToColumns(saved)), three);
  saved.arrays[0].shape = {int64_t{1} << 20, int64_t{1} << 10};
  saved.checksums.assign(
      saved.checksums.size() - 1 + NumBlocks(ArrayBytes(saved.arrays[0])), 0);
  saved.datasets[0].box = WholeBox(saved.arrays[0].shape);
  saved.datasets[0].chunk = saved.arrays[0].shape;
  EXPECT_EQ(Convert(ToColumns(saved)), three);
}

// A chunk of one element takes more than its byte.
TEST(IndexColumnsTest, AFileHasPlacesForAllItsChunksWithFilters) {
  constexpr int64_t kChunks = 1 << 10;
  for (const Filter& filter :
       {Filter{1, {6}}, Filter{2, {}}, Filter{300, {0}}}) {
    SavedCheckpoint saved{.files = {{.name = "data.h5"}}};
    for (int i = 0; i < 3; ++i) {
      saved.arrays.push_back({absl::StrCat(i), DType::kU8, {kChunks}});
      saved.datasets.push_back({.array = i,
                                .box = WholeBox({kChunks}),
                                .chunk = {1},
                                .offset = -1,
                                .filters = {filter}});
    }
    saved.files[0].bytes = 3 * 14 * kChunks;
    EXPECT_EQ(Convert(ToColumns(saved)), absl::OkStatus());
    --saved.files[0].bytes;
    EXPECT_EQ(Convert(ToColumns(saved)),
              absl::DataLossError(
                  "read \"dir/index.h5\": key \"2\": file \"data.h5\" is too "
                  "short for what it is said to hold (need 14336 bytes or more "
                  "and 28672 for others, found 43007)"));
  }
}

TEST(IndexColumnsTest, ColumnsThatSayNothingAreLeftOut) {
  SavedCheckpoint saved = SmallIndex();
  saved.arrays[0].args = saved.arrays[2].layout = "";
  const IndexColumns columns = ToColumns(saved);
  EXPECT_EQ(columns.array_args, Text());
  EXPECT_EQ(columns.array_layout, Text());
  ExpectSame(FromColumns(columns, "dir/index.h5").value(), saved);
}

TEST(IndexColumnsTest, RandomIndexesComeBack) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Random random(seed);
    const SavedCheckpoint saved = RandomIndex(random);
    const StatusOr<SavedCheckpoint> back =
        FromColumns(ToColumns(saved), "dir/index.h5");
    ASSERT_TRUE(back.ok()) << seed << " " << back.status();
    ExpectSame(*back, saved);
    ASSERT_FALSE(HasFailure()) << seed;
  }
}

TEST(IndexColumnsTest, AnEmptyCheckpointComesBack) {
  const SavedCheckpoint saved{.has_checksums = true};
  ExpectSame(FromColumns(ToColumns(saved), "dir/index.h5").value(), saved);
}

// What is said when a column has one row less or more than the others need.
struct WrongLength {
  Status shorter, longer;
};

// Of columns of one row for each of five arrays or datasets.
WrongLength OfFiveRows(const std::string& column) {
  return {Length(column, "found 4 rows, too few"),
          Length(column, "found 6 rows, too many")};
}

const std::map<std::string, WrongLength>& WrongLengths() {
  const Status format = Bad("header/format of row 0");
  const Status layout = Bad("header/file_layout of row 0");
  static const auto* const lengths = new std::map<std::string, WrongLength>{
      {"header/format", {format, format}},
      {"header/file_layout", {layout, layout}},
      {"header/block_bytes",
       {Bad("header/block_bytes of row 0"),
        Bad("header/block_bytes of row 0")}},
      {"arrays/key",
       {Length("arrays/dtype", "found 5 rows, too many"),
        Bad("arrays/dtype of row 5")}},
      {"arrays/dtype",
       {Bad("arrays/dtype of row 4"),
        Length("arrays/dtype", "found 6 rows, too many")}},
      {"arrays/ndim", OfFiveRows("arrays/ndim")},
      {"arrays/shape",
       {Length("arrays/shape", "found 5 rows, too few"),
        Length("arrays/shape", "found 7 rows, too many")}},
      {"arrays/string_bytes", OfFiveRows("arrays/string_bytes")},
      {"arrays/args", OfFiveRows("arrays/args")},
      {"arrays/layout", OfFiveRows("arrays/layout")},
      {"files/name",
       {Length("files/bytes", "found 2 rows, too many"),
        Bad("files/name of row 2")}},
      {"files/bytes",
       {Length("files/bytes", "found 1 rows, too few"),
        Length("files/bytes", "found 3 rows, too many")}},
      {"datasets/array",
       {Length("datasets/file", "found 5 rows, too many"),
        Bad("datasets/array of row 5")}},
      {"datasets/file", OfFiveRows("datasets/file")},
      {"datasets/offset", OfFiveRows("datasets/offset")},
      {"datasets/chunked", OfFiveRows("datasets/chunked")},
      {"datasets/box",
       {Length("datasets/box", "found 13 rows, too few"),
        Length("datasets/box", "found 15 rows, too many")}},
      {"datasets/chunk",
       {Bad("datasets/chunk of row 0"),
        Length("datasets/chunk", "found 3 rows, too many")}},
      {"datasets/group", OfFiveRows("datasets/group")},
      {"datasets/task", OfFiveRows("datasets/task")},
      {"step", {Bad("step of row 0"), Bad("step of row 0")}},
      {"header/time",
       {Bad("header/time of row 0"), Bad("header/time of row 0")}},
      {"checksums/crc32c",
       {Length("checksums/crc32c", "need 4 rows or more, found 3"),
        Length("checksums/crc32c", "need 4 rows, found 5")}}};
  return *lengths;
}

TEST(IndexColumnsTest, EveryColumnHasTheRightLength) {
  const std::map<std::string, WrongLength>& expected = WrongLengths();
  const IndexColumns good = ToColumns(SmallIndex());
  size_t columns = 0;
  ForEachColumn(good, [&](const std::string& path, const auto& rows) {
    if (rows.empty()) return;  // left out
    const std::string name = path.substr(std::string(".belay/").size());
    if (name == "header/magic") return;       // checked when the file is read
    if (name.starts_with("graph/")) return;   // see stored_graph_test
    if (name.starts_with("values/")) return;  // see stored_values_test
    ++columns;
    for (const bool longer : {false, true}) {
      IndexColumns wrong = good;
      ForEachColumn(wrong, [&](const std::string& other, auto& column) {
        if (other != path) return;
        column.resize(longer ? column.size() + 1 : column.size() - 1);
      });
      const WrongLength& status = expected.at(name);
      EXPECT_EQ(Convert(wrong), longer ? status.longer : status.shorter)
          << name;
    }
  });
  EXPECT_EQ(columns, expected.size());
}

struct BadNumber {
  std::string what;
  std::function<void(IndexColumns&)> change;
};

void ExpectBad(const std::vector<BadNumber>& numbers) {
  for (const BadNumber& number : numbers) {
    IndexColumns columns = ToColumns(SmallIndex());
    number.change(columns);
    EXPECT_EQ(Convert(columns), Bad(number.what));
  }
}

constexpr int64_t kHuge = int64_t{1} << 62;

TEST(IndexColumnsTest, NumbersOfArraysAreInRange) {
  ExpectBad({
      {"step of row 0", [](auto& c) { c.step[0] = -1; }},
      {"header/time of row 0", [](auto& c) { c.time[0] = -1; }},
      {"header/time of row 0", [](auto& c) { c.time[0] = kMaxTime + 1; }},
      {"header/file_layout of row 0", [](auto& c) { c.file_layout[0] = 3; }},
      {"header/block_bytes of row 0", [](auto& c) { c.block_bytes[0] = 4096; }},
      {"arrays/dtype of row 0", [](auto& c) { c.array_dtype[0] = 0; }},
      {"arrays/dtype of row 4", [](auto& c) { c.array_dtype[4] = 19; }},
      {"arrays/ndim of row 2", [](auto& c) { c.array_ndim[2] = 33; }},
      {"arrays/ndim of row 0", [](auto& c) { c.array_dtype[0] = 18; }},
      {"arrays/shape of row 0", [](auto& c) { c.array_shape[1] = -6; }},
      {"arrays/shape of row 4", [](auto& c) { c.array_shape[4] = kHuge; }},
      {"arrays/string_bytes of row 1",
       [](auto& c) { c.array_string_bytes[1] = -3; }},
      {"arrays/string_bytes of row 3",
       [](auto& c) { c.array_string_bytes[3] = 8; }},
      {"arrays/key of row 0", [](auto& c) { c.array_key[0] = ""; }},
      {"arrays/key of row 1", [](auto& c) { c.array_key[1] = "a"; }},
      {"arrays/key of row 4", [](auto& c) { c.array_key[4] = "d/d"; }},
  });
}

TEST(IndexColumnsTest, NumbersOfFilesAreInRange) {
  ExpectBad({
      {"files/name of row 0", [](auto& c) { c.file_name[0] = ""; }},
      {"files/name of row 0", [](auto& c) { c.file_name[0] = "."; }},
      {"files/name of row 1", [](auto& c) { c.file_name[1] = ".."; }},
      {"files/name of row 1", [](auto& c) { c.file_name[1] = "../data"; }},
      {"files/bytes of row 1", [](auto& c) { c.file_bytes[1] = -1; }},
  });
}

TEST(IndexColumnsTest, NumbersOfDatasetsAreInRange) {
  ExpectBad({
      {"datasets/array of row 4", [](auto& c) { c.dataset_array[4] = 5; }},
      {"datasets/array of row 4", [](auto& c) { c.dataset_array[4] = ~0u; }},
      {"datasets/array of row 2", [](auto& c) { c.dataset_array[2] = 0; }},
      {"datasets/file of row 3", [](auto& c) { c.dataset_file[3] = 2; }},
      {"datasets/file of row 0", [](auto& c) { c.dataset_file[0] = ~0u; }},
      {"datasets/chunked of row 1", [](auto& c) { c.dataset_chunked[1] = 3; }},
      {"datasets/chunked of row 1", [](auto& c) { c.dataset_chunked[1] = 1; }},
      {"datasets/chunked of row 2", [](auto& c) { c.dataset_chunked[2] = 2; }},
      {"datasets/offset of row 0", [](auto& c) { c.dataset_chunked[0] = 2; }},
      {"datasets/filters of row 0",
       [](auto& c) {
         c.dataset_chunked[0] = 2;
         c.dataset_offset[0] = -1;
       }},
      {"datasets/filters of row 0",
       [](auto& c) {
         c.dataset_filters = {"2()", "", "", "", ""};
       }},
      {"datasets/filters of row 4",
       [](auto& c) {
         c.dataset_filters = {"", "", "", "", "none"};
       }},
      {"datasets/box of row 0", [](auto& c) { c.dataset_box[0] = 1; }},
      {"datasets/box of row 0", [](auto& c) { c.dataset_box[3] = 7; }},
      {"datasets/box of row 1", [](auto& c) { c.dataset_box[5] = 4; }},
      {"datasets/box of row 3", [](auto& c) { c.dataset_box[6] = -1; }},
      {"datasets/box of row 4", [](auto& c) { c.dataset_box[12] = -1; }},
      {"datasets/chunk of row 0", [](auto& c) { c.dataset_chunk[0] = 0; }},
      {"datasets/chunk of row 0", [](auto& c) { c.dataset_chunk[1] = -3; }},
      {"datasets/chunk of row 0", [](auto& c) { c.dataset_chunk[1] = 7; }},
      {"datasets/offset of row 2", [](auto& c) { c.dataset_offset[2] = -1; }},
      {"datasets/offset of row 3", [](auto& c) { c.dataset_offset[3] = 201; }},
      {"datasets/offset of row 3",
       [](auto& c) { c.dataset_offset[3] = INT64_MAX; }},
      {"datasets/offset of row 0", [](auto& c) { c.file_bytes[0] = 0; }},
      {"datasets/group of row 4", [](auto& c) { c.dataset_group[4] = ~0u; }},
      {"datasets/task of row 1", [](auto& c) { c.dataset_task[1] = -2; }},
      {"datasets/task of row 2", [](auto& c) { c.dataset_task[2] = kHuge; }},
  });
}

// All of what can be wrong with it is in stored_graph_test.
TEST(IndexColumnsTest, TheGraphIsInRange) {
  ExpectBad({
      {"graph/nodes/parent of row 1",
       [](auto& c) { c.graph.node_parent[1] = 5; }},
      {"graph/attributes/array of row 3",
       [](auto& c) { c.graph.attribute_array[3] = 5; }},
  });
  IndexColumns columns = ToColumns(SmallIndex());
  columns.graph.slot_name.clear();
  EXPECT_EQ(Convert(columns),
            Length("graph/slots/name", "need 1 rows, found 0"));
}

TEST(IndexColumnsTest, TheValuesAreInRange) {
  ExpectBad({
      {"values/node of row 0", [](auto& c) { c.values.node[0] = 5; }},
      {"values/parts/array of row 1",
       [](auto& c) { c.values.part_array[1] = 5; }},
  });
  IndexColumns columns = ToColumns(SmallIndex());
  columns.values.typestr.clear();
  EXPECT_EQ(Convert(columns), Length("values/typestr", "need 2 rows, found 0"));
}

TEST(IndexColumnsTest, ChunksThatReachPastTheArrayNeedTheirSpace) {
  IndexColumns columns = ToColumns(SmallIndex());
  columns.dataset_chunk = {3, 4};  // 2 x 2 chunks of 48 bytes: 192 in all
  columns.dataset_offset[1] = 0;   // before them
  columns.dataset_offset[3] = 4;
  EXPECT_EQ(Convert(columns), Bad("datasets/offset of row 0"));
  columns.dataset_offset[0] = 12;
  EXPECT_EQ(Convert(columns), absl::OkStatus());
  columns.dataset_offset[0] = 13;
  EXPECT_EQ(Convert(columns), Bad("datasets/offset of row 0"));
}

TEST(IndexColumnsTest, TextsAreOfAllArraysAndDatasets) {
  for (const size_t rows : {4, 6}) {
    IndexColumns columns = ToColumns(FilteredIndex());
    columns.dataset_filters.resize(rows);
    EXPECT_EQ(Convert(columns), rows == 4
                                    ? OfFiveRows("datasets/filters").shorter
                                    : OfFiveRows("datasets/filters").longer);
  }
}

TEST(IndexColumnsTest, WithoutChecksumsThereAreNone) {
  IndexColumns columns = ToColumns(SmallIndex());
  columns.block_bytes = {0};
  EXPECT_EQ(Convert(columns),
            Length("checksums/crc32c", "need 0 rows, found 4"));
  columns.checksum.clear();
  EXPECT_FALSE(FromColumns(columns, "dir/index.h5")->has_checksums);
}

}  // namespace
}  // namespace belay::index_columns_test
