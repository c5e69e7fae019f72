#include <sys/stat.h>

#include <chrono>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "h5_testing.h"
#include "hdf5/file.h"

namespace belay::h5::h5_dataset_test {
namespace {

using nlohmann::json;

class H5DatasetTest : public H5Test {
 protected:
  void SetUp() override {
    H5Test::SetUp();
    file_ = Value(CreateFile(Path("a.h5")));
  }

  int64_t Create(const DatasetSpec& spec) {
    return Value(CreateDataset(file_, cache_, spec));
  }

  json Reread(const std::string& path) {
    Close();
    return Python(Path("a.h5"), {path})[path];
  }

  void Close() {
    cache_ = {};
    Ok(file_.Close());
  }

  Handle file_;
  ObjectCache cache_;
};

TEST_F(H5DatasetTest, ContiguousBytesLieAtTheOffset) {
  const int64_t a = Create({"m/a", DType::kI32, 0, {2, 3}, {}});
  const int64_t b = Create({"m/n/b", DType::kI32, 0, {2}, {}});
  Close();
  const int32_t values[] = {1, 2, 3, 4, 5, 6, 7, 8};
  PatchBytes(Path("a.h5"), a, values, 24);
  PatchBytes(Path("a.h5"), b, values + 6, 8);
  const json found = Python(Path("a.h5"), {"m/a", "m/n/b"});
  EXPECT_EQ(found["m/a"]["values"], json({{1, 2, 3}, {4, 5, 6}}));
  EXPECT_EQ(found["m/n/b"]["values"], json({7, 8}));
}

// 5 x 7 in chunks of 2 x 4: chunks of full size, 3 x 2 of them, in row-major
// order. Each chunk is filled with its own number.
TEST_F(H5DatasetTest, ChunksLieInARowAtTheOffset) {
  const int64_t base = Create({"c", DType::kU8, 0, {5, 7}, {2, 4}});
  Close();
  for (int64_t index = 0; index < 6; ++index) {
    const std::string chunk(8, static_cast<char>(index));
    PatchBytes(Path("a.h5"), base + index * 8, chunk.data(), chunk.size());
  }
  const json found = Python(Path("a.h5"), {"c"})["c"];
  EXPECT_EQ(found["chunks"], json({2, 4}));
  EXPECT_EQ(found["values"], json({{0, 0, 0, 0, 1, 1, 1},
                                   {0, 0, 0, 0, 1, 1, 1},
                                   {2, 2, 2, 2, 3, 3, 3},
                                   {2, 2, 2, 2, 3, 3, 3},
                                   {4, 4, 4, 4, 5, 5, 5}}));
}

TEST_F(H5DatasetTest, OneChunkForAllLiesAtTheOffset) {
  const int64_t base = Create({"c", DType::kU8, 0, {2, 3}, {2, 3}});
  Close();
  PatchBytes(Path("a.h5"), base, "\1\2\3\4\5\6", 6);
  EXPECT_EQ(Python(Path("a.h5"), {"c"})["c"]["values"],
            json({{1, 2, 3}, {4, 5, 6}}));
}

TEST_F(H5DatasetTest, ChunksOfManyShapesLieInARow) {
  for (int64_t rows : {1, 2, 3, 7, 64}) {
    for (int64_t columns : {1, 2, 5, 1000}) {
      const std::string path = ShapeText({rows, columns});
      const Shape chunk = {(rows + 1) / 2, (columns + 2) / 3};
      EXPECT_GT(Create({path, DType::kF32, 0, {rows, columns}, chunk}), 0);
    }
  }
}

TEST_F(H5DatasetTest, ChunksAreNotWrittenAtCreation) {
  Create({"big", DType::kU8, 0, {1 << 15, 1 << 15}, {1 << 14, 1 << 12}});
  Close();
  EXPECT_GT(std::filesystem::file_size(Path("a.h5")), 1u << 30);
  struct stat info;
  ASSERT_EQ(stat(Path("a.h5").c_str(), &info), 0);
  EXPECT_LT(info.st_blocks * 512, 1 << 20);
}

TEST_F(H5DatasetTest, ArraysWithoutBytesHaveNoOffset) {
  EXPECT_EQ(Create({"zero", DType::kF32, 0, {0, 5}, {}}), -1);
  EXPECT_EQ(Create({"chunked", DType::kF8E4M3, 0, {3, 0}, {1, 1}}), -1);
  EXPECT_EQ(Create({"text", DType::kString, 0, {}, {}}), -1);
  Close();
  const json found = Python(Path("a.h5"), {"zero", "chunked", "text"});
  EXPECT_EQ(found["zero"]["shape"], json({0, 5}));
  EXPECT_EQ(found["chunked"]["shape"], json({3, 0}));
  EXPECT_EQ(found["chunked"]["attrs"], json({{"belay_dtype", "f8e4m3"}}));
  EXPECT_EQ(found["text"]["shape"], nullptr);
  EXPECT_EQ(found["text"]["values"], nullptr);
}

TEST_F(H5DatasetTest, ReadsAndWritesArraysWithoutBytes) {
  Create({"zero", DType::kF32, 0, {0, 5}, {}});
  Create({"text", DType::kString, 0, {}, {}});
  Ok(WriteHyperslab(Value(OpenDataset(file_, "zero")), WholeBox({0, 5}),
                    {DType::kF32}, nullptr));
  Ok(WriteHyperslab(Value(OpenDataset(file_, "text")), {}, {DType::kString},
                    nullptr));
  Ok(ReadHyperslab(file_, "zero", {DType::kF32}, WholeBox({0, 5}), nullptr));
  Ok(ReadHyperslab(file_, "text", {DType::kString}, {}, nullptr));
}

TEST_F(H5DatasetTest, ScalarsHaveAnOffset) {
  const int64_t offset = Create({"s", DType::kF64, 0, {}, {}});
  const double value = 0.1;
  Ok(WriteHyperslab(Value(OpenDataset(file_, "s")), {}, {DType::kF64}, &value));
  double found = 0;
  Ok(ReadHyperslab(file_, "s", {DType::kF64}, {}, &found));
  EXPECT_EQ(found, 0.1);
  const json python = Reread("s");
  EXPECT_EQ(python["values"], 0.1);
  EXPECT_EQ(python["shape"], json::array());
  const std::string bytes = testing::FileBytes(Path("a.h5"));
  EXPECT_EQ(bytes.substr(offset, 8),
            std::string(reinterpret_cast<const char*>(&value), 8));
}

TEST_F(H5DatasetTest, WritesAndReadsABox) {
  for (const Shape& chunk : {Shape{}, Shape{2, 2}}) {
    const std::string path = chunk.empty() ? "contiguous" : "chunked";
    Create({path, DType::kU16, 0, {4, 5}, chunk});
    const Handle dataset = Value(OpenDataset(file_, path));
    std::vector<uint16_t> all(20);
    std::iota(all.begin(), all.end(), 0);
    Ok(WriteHyperslab(dataset, WholeBox({4, 5}), {DType::kU16}, all.data()));
    const Box box = {.offset = {1, 2}, .shape = {2, 3}};
    const uint16_t piece[] = {100, 101, 102, 103, 104, 105};
    Ok(WriteHyperslab(dataset, box, {DType::kU16}, piece));
    std::vector<uint16_t> found(6);
    const Box read = {.offset = {0, 3}, .shape = {3, 2}};
    Ok(ReadHyperslab(file_, path, {DType::kU16}, read, found.data()));
    EXPECT_THAT(found, ::testing::ElementsAre(3, 4, 101, 102, 104, 105))
        << path;
  }
}

TEST_F(H5DatasetTest, RefusesABoxThatDoesNotFit) {
  Create({"a", DType::kU8, 0, {4, 5}, {}});
  char data[64];
  EXPECT_EQ(
      ReadHyperslab(file_, "a", {DType::kU8}, WholeBox({5}), data).ToString(),
      "DATA_LOSS: read \"a\": another number of axes (need 1, found 2)");
  EXPECT_EQ(
      ReadHyperslab(file_, "a", {DType::kU8}, WholeBox({5, 5}), data).code(),
      absl::StatusCode::kOutOfRange);
}

TEST_F(H5DatasetTest, NamesAMissingDataset) {
  const Status status = OpenDataset(file_, "no/such").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()),
              ::testing::StartsWith("open dataset \"no/such\": "));
}

TEST_F(H5DatasetTest, RefusesANameThatIsTaken) {
  Create({"a/b", DType::kU8, 0, {4}, {}});
  EXPECT_EQ(CreateDataset(file_, cache_, {"a/b", DType::kU8, 0, {4}, {}})
                .status()
                .ToString(),
            "ALREADY_EXISTS: create dataset \"a/b\": name already exists "
            "(Links: Object already "
            "exists)");
  EXPECT_FALSE(
      CreateDataset(file_, cache_, {"a/b/c", DType::kU8, 0, {4}, {}}).ok());
  EXPECT_FALSE(
      CreateDataset(file_, cache_, {"a", DType::kU8, 0, {4}, {}}).ok());
}

TEST_F(H5DatasetTest, CreatesMissingGroupsOnce) {
  Ok(FindLocation(file_, cache_, "a/b/c/leaf").status());
  ObjectCache fresh;
  Ok(FindLocation(file_, fresh, "/a/b/d/leaf").status());
  Ok(FindLocation(file_, fresh, "leaf").status());
  // Back in a group that was left.
  Ok(CreateDataset(file_, fresh, {"a/b/e", DType::kU8, 0, {1}, {}}).status());
  Ok(CreateDataset(file_, fresh, {"a/b/d/e", DType::kU8, 0, {1}, {}}).status());
  fresh = {};
  Close();
  EXPECT_EQ(Python(Path("a.h5"), {}),
            json({"a", "a/b", "a/b/c", "a/b/d", "a/b/d/e", "a/b/e"}));
}

TEST_F(H5DatasetTest, NamesMayBeUtf8AndContainEscapes) {
  const std::string path =
      "gr\xC3\xBC\xC3\x9F"
      "e/a%2Fb c.d";
  Create({path, DType::kU8, 0, {1}, {}});
  Close();
  EXPECT_EQ(Python(Path("a.h5"), {}), json({"gr\xC3\xBC\xC3\x9F"
                                            "e",
                                            path}));
}

TEST_F(H5DatasetTest, AGroupMayHoldManyDatasets) {
  constexpr int kCount = 20000;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kCount; ++i) {
    Create({absl::StrCat("group/d", i), DType::kF32, 0, {16}, {}});
  }
  Close();
  const std::chrono::duration<double, std::micro> time =
      std::chrono::steady_clock::now() - start;
  std::printf("%d datasets in one group: %.1f us each, %.0f bytes each\n",
              kCount, time.count() / kCount,
              std::filesystem::file_size(Path("a.h5")) / double{kCount});
  EXPECT_EQ(Python(Path("a.h5"), {}).size(), kCount + 1);
}

// The hint keeps object headers together: no array lies between them.
TEST_F(H5DatasetTest, TheHintClustersMetadata) {
  Handle file = Value(CreateFile(
      Path("b.h5"), {.metadata_bytes = 1 << 16, .small_data_bytes = 1 << 15}));
  ObjectCache cache;
  std::vector<int64_t> offsets;
  for (int i = 0; i < 50; ++i) {
    offsets.push_back(Value(CreateDataset(
        file, cache, {absl::StrCat("d", i), DType::kU8, 0, {100}, {}})));
  }
  cache = {};
  Ok(file.Close());
  for (size_t i = 1; i < offsets.size(); ++i) {
    EXPECT_EQ(offsets[i], offsets[i - 1] + 100);
  }
}

}  // namespace
}  // namespace belay::h5::h5_dataset_test
