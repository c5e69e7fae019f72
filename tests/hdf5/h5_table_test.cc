#include <cstring>

#include "h5_testing.h"
#include "hdf5/table.h"

namespace belay::h5::h5_table_test {
namespace {

using absl::StatusCode;
using nlohmann::json;
using ::testing::ElementsAre;

class H5TableTest : public H5Test {
 protected:
  void SetUp() override {
    H5Test::SetUp();
    file_ = Value(CreateFile(Path("a.h5")));
  }

  template <typename T>
  int64_t Write(const std::string& path, const std::vector<T>& values) {
    return Value(WriteColumn<T>(file_, cache_, path, values));
  }

  // By HDF5, from the file that is open.
  template <typename T>
  std::vector<T> Read(const Handle& file, const char* path, int64_t rows) {
    std::vector<T> values(rows);
    Ok(ReadHyperslab(file, path, {DTypeOf<T>()}, {{0}, {rows}}, values.data()));
    return values;
  }
  std::vector<std::string> ReadTexts(const char* path, int64_t rows,
                                     int64_t bytes) {
    std::string all(rows * bytes, '?');
    Ok(ReadHyperslab(file_, path, {DType::kString, bytes}, {{0}, {rows}},
                     all.data()));
    std::vector<std::string> texts;
    for (int64_t row = 0; row < rows; ++row) {
      texts.emplace_back(all, row * bytes, bytes);
      texts.back().resize(std::strlen(texts.back().c_str()));
    }
    return texts;
  }

  void Close() {
    cache_ = {};
    Ok(file_.Close());
  }

  Handle file_;
  ObjectCache cache_;
};

TEST_F(H5TableTest, NumbersReadBack) {
  Write<uint8_t>("t/u8", {0, 255});
  Write<int32_t>("t/i32", {INT32_MIN, -1, INT32_MAX});
  Write<uint32_t>("t/u32", {1, UINT32_MAX});
  Write<uint64_t>("t/u64", {2, UINT64_MAX});
  Write<int64_t>("t/i64", {INT64_MIN, -1, INT64_MAX});
  EXPECT_THAT(Read<uint8_t>(file_, "t/u8", 2), ElementsAre(0, 255));
  EXPECT_THAT(Read<int32_t>(file_, "t/i32", 3),
              ElementsAre(INT32_MIN, -1, INT32_MAX));
  EXPECT_THAT(Read<uint32_t>(file_, "t/u32", 2), ElementsAre(1, UINT32_MAX));
  EXPECT_THAT(Read<uint64_t>(file_, "t/u64", 2), ElementsAre(2, UINT64_MAX));
  EXPECT_THAT(Read<int64_t>(file_, "t/i64", 3),
              ElementsAre(INT64_MIN, -1, INT64_MAX));
}

TEST_F(H5TableTest, H5pyShowsColumns) {
  Write<int64_t>("t/n", {-7, 8});
  Ok(WriteTextColumn(file_, cache_, "t/s", {"", "gr\xC3\xBCn", "x"}));
  Close();
  const json found = Python(Path("a.h5"), {"t/n", "t/s"});
  EXPECT_EQ(found["t/n"]["values"], json({-7, 8}));
  EXPECT_EQ(found["t/n"]["dtype"], "int64");
  EXPECT_EQ(found["t/s"]["values"], json({"", "gr\xC3\xBCn", "x"}));
  EXPECT_EQ(found["t/s"]["dtype"], "|S5");
}

TEST_F(H5TableTest, AColumnCanBePatchedAtItsOffset) {
  const int64_t offset = Write<uint32_t>("crc", {0, 0, 0});
  Close();
  const uint32_t value = 0xE3069283;
  PatchBytes(Path("a.h5"), offset + 4, &value, 4);
  const Handle file = Value(OpenFileReadOnly(Path("a.h5")));
  EXPECT_THAT(Read<uint32_t>(file, "crc", 3), ElementsAre(0, 0xE3069283, 0));
}

TEST_F(H5TableTest, ColumnsMayHaveNoRows) {
  EXPECT_EQ(Write<uint64_t>("n", {}), -1);
  Ok(WriteTextColumn(file_, cache_, "s", {}));
  EXPECT_EQ(Value(DatasetShape(Value(OpenDataset(file_, "n")))), Shape{0});
  EXPECT_EQ(Value(DatasetShape(Value(OpenDataset(file_, "s")))), Shape{0});
}

TEST_F(H5TableTest, TextsReadBack) {
  const std::vector<std::string> texts = {"", "a", std::string(70000, 'b'),
                                          "gr\xC3\xBCn"};
  Ok(WriteTextColumn(file_, cache_, "s", texts));
  EXPECT_EQ(ReadTexts("s", 4, 70000), texts);
}

// More than fit into one call to HDF5.
TEST_F(H5TableTest, LongTextColumnsReadBack) {
  std::vector<std::string> texts(300);
  texts[0] = std::string(1 << 20, 'a');
  texts[299] = "end";
  Ok(WriteTextColumn(file_, cache_, "s", texts));
  EXPECT_EQ(ReadTexts("s", 300, 1 << 20), texts);
}

TEST_F(H5TableTest, TextsMayNotHoldNul) {
  EXPECT_EQ(
      WriteTextColumn(file_, cache_, "s", {std::string("a\0b", 3)}).ToString(),
      "INVALID_ARGUMENT: write \"s\": a text has a NUL in it");
  EXPECT_EQ(OpenDataset(file_, "s").status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace belay::h5::h5_table_test
