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
  EXPECT_THAT(Value(ReadColumn<uint8_t>(file_, "t/u8", 2)),
              ElementsAre(0, 255));
  EXPECT_THAT(Value(ReadColumn<int32_t>(file_, "t/i32", 3)),
              ElementsAre(INT32_MIN, -1, INT32_MAX));
  EXPECT_THAT(Value(ReadColumn<uint32_t>(file_, "t/u32", 2)),
              ElementsAre(1, UINT32_MAX));
  EXPECT_THAT(Value(ReadColumn<uint64_t>(file_, "t/u64", 2)),
              ElementsAre(2, UINT64_MAX));
  EXPECT_THAT(Value(ReadColumn<int64_t>(file_, "t/i64", 3)),
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
  EXPECT_THAT(Value(ReadColumn<uint32_t>(file, "crc", 3)),
              ElementsAre(0, 0xE3069283, 0));
}

TEST_F(H5TableTest, ColumnsMayHaveNoRows) {
  EXPECT_EQ(Write<uint64_t>("n", {}), -1);
  Ok(WriteTextColumn(file_, cache_, "s", {}));
  EXPECT_THAT(Value(ReadColumn<uint64_t>(file_, "n", 0)), ElementsAre());
  EXPECT_THAT(Value(ReadTextColumn(file_, "s", 0)), ElementsAre());
}

TEST_F(H5TableTest, TextsReadBack) {
  const std::vector<std::string> texts = {"", "a", std::string(70000, 'b'),
                                          "gr\xC3\xBCn"};
  Ok(WriteTextColumn(file_, cache_, "s", texts));
  EXPECT_EQ(Value(ReadTextColumn(file_, "s", 4)), texts);
}

// More than fit into one call to HDF5.
TEST_F(H5TableTest, LongTextColumnsReadBack) {
  std::vector<std::string> texts(300);
  texts[0] = std::string(1 << 20, 'a');
  texts[299] = "end";
  Ok(WriteTextColumn(file_, cache_, "s", texts));
  EXPECT_EQ(Value(ReadTextColumn(file_, "s", 300)), texts);
}

TEST_F(H5TableTest, TextsMayNotHoldNul) {
  EXPECT_EQ(
      WriteTextColumn(file_, cache_, "s", {std::string("a\0b", 3)}).ToString(),
      "INVALID_ARGUMENT: write \"s\": a text has a NUL in it");
  EXPECT_FALSE(Value(Exists(file_, "s")));
}

TEST_F(H5TableTest, RefusesAnotherTypeOrShape) {
  Write<uint64_t>("n", {1, 2, 3});
  Value(CreateDataset(file_, cache_, {"m", DType::kU64, 0, {2, 2}, {}}));
  EXPECT_EQ(ReadColumn<int64_t>(file_, "n", 3).status().ToString(),
            "DATA_LOSS: read \"n\": the stored type is not i64");
  EXPECT_EQ(ReadTextColumn(file_, "n", 3).status().ToString(),
            "DATA_LOSS: read \"n\": the stored type is not string of 8");
  EXPECT_EQ(ReadColumn<uint64_t>(file_, "m", 9).status().ToString(),
            "DATA_LOSS: read \"m\": not a column (need 1 axis, found 2)");
  EXPECT_EQ(ReadColumn<uint64_t>(file_, "n", 2).status().ToString(),
            "DATA_LOSS: read \"n\": too many rows (need at most 2, found 3)");
  EXPECT_EQ(ReadColumn<uint64_t>(file_, "o", 2).status().code(),
            StatusCode::kNotFound);
}

// A dataset that says it is huge but has no storage.
TEST_F(H5TableTest, RefusesAColumnLargerThanItsFile) {
  Ok(CreateVirtualDataset(file_, cache_, "n", {DType::kU64}, {int64_t{1} << 40},
                          {}));
  EXPECT_EQ(ReadColumn<uint64_t>(file_, "n", INT64_MAX).status().ToString(),
            "DATA_LOSS: read \"n\": larger than its file");
}

TEST_F(H5TableTest, ExistsLooksAtEveryPart) {
  Write<uint8_t>("a/b/c", {1});
  Ok(CreateExternalLink(file_, cache_, "link", "missing.h5", "x"));
  for (const char* path : {"a", "a/b", "a/b/c", "/a/b", "link"}) {
    EXPECT_TRUE(Value(Exists(file_, path))) << path;
  }
  for (const char* path : {"b", "a/c", "a/c/d", "x/y/z"}) {
    EXPECT_FALSE(Value(Exists(file_, path))) << path;
  }
  EXPECT_FALSE(Exists(file_, "a/b/c/d").ok());
}

}  // namespace
}  // namespace belay::h5::h5_table_test
