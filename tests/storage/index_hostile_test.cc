// Indexes that somebody has made up, or whose readers want to stop others.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "directory_fixture.h"
#include "h5_testing.h"
#include "hdf5/guarded_file.h"
#include "storage/index_file.h"
#include "store_testing.h"

namespace belay::index_hostile_test {
namespace {

class IndexHostileTest : public DirectoryTest {
 protected:
  std::string Index() const { return Path("index.h5"); }

  void WriteIndex(const SavedCheckpoint& saved) const {
    const IndexImage image = h5::Value(CreateIndex(Index(), saved));
    h5::Ok(FinishIndex(Index(), image, saved.step, saved.time, saved.checksums,
                       false));
  }

  void Patch(size_t at, const std::string& bytes) const {
    h5::PatchBytes(Index(), static_cast<int64_t>(at), bytes.data(),
                   bytes.size());
  }
};

// A file with holes may be as long as it likes.
TEST_F(IndexHostileTest, WhatTakesNoSpaceTakesNoMemory) {
  for (const int64_t rows : {1, 2, 1 << 20}) {
    h5::Handle file = h5::Value(h5::CreateFile(Index()));
    h5::ObjectCache cache;
    h5::Value(h5::CreateDataset(file, cache,
                                {".belay/header/magic",
                                 DType::kString,
                                 (int64_t{1} << 31) / rows,
                                 {rows},
                                 {}}));
    cache = {};
    h5::Ok(file.Close());
    ASSERT_GE(std::filesystem::file_size(Index()), uint64_t{1} << 31);
    const Status status = ReadIndex(dir_).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_NE(status.message().find("takes more memory"), status.message().npos)
        << status;
    std::filesystem::remove(Index());
  }
}

// One long text, and many rows that have it.
TEST_F(IndexHostileTest, TextsOfEachRowAreCharged) {
  constexpr int64_t kTextBytes = 1 << 20, kRows = 10;
  const auto charge = [](const SavedCheckpoint& saved, int64_t texts) {
    h5::BoundedFile index(
        "index.h5", 0, texts * kTextBytes,
        [](int64_t, void*, int64_t) { return absl::OkStatus(); });
    return ChargeCopiedTexts(saved, index);
  };
  const std::string text(kTextBytes, 'k');
  const auto rows = [&](bool key, bool file, bool filtered, size_t values) {
    SavedCheckpoint saved;
    saved.arrays = {{.key = key ? text : ""}};
    saved.files = {{.name = file ? text : ""}};
    saved.datasets.resize(file || filtered || values == 0 ? kRows : 0);
    for (StoredDataset& dataset : saved.datasets) {
      if (filtered) dataset.filters = {{.id = 1}};
    }
    saved.graph.attribute_array.resize(values);
    return saved;
  };
  const std::pair<SavedCheckpoint, int64_t> cases[] = {
      {rows(true, false, false, 0), kRows},
      {rows(false, true, false, 0), kRows},
      {rows(true, false, true, 0), 2 * kRows},
      {rows(true, false, false, kRows), kRows}};
  for (const auto& [saved, texts] : cases) {
    h5::Ok(charge(saved, texts));
    EXPECT_TRUE(absl::IsResourceExhausted(charge(saved, texts - 1)));
  }
}

// As belay writes them: many arrays of ten pieces, and few of very many.
TEST_F(IndexHostileTest, LongKeysOfManyPiecesAreRead) {
  const auto count = [&](int64_t arrays, int64_t pieces, int64_t key_bytes) {
    SavedCheckpoint saved = SmallIndex();
    saved.has_checksums = false;
    saved.checksums = {};
    saved.graph = {};
    saved.values = {};
    saved.arrays = {};
    saved.datasets = {};
    saved.files[0].bytes = arrays * pieces;
    for (int64_t array = 0; array < arrays; ++array) {
      saved.arrays.push_back({.key = absl::StrFormat("%0*d", key_bytes, array),
                              .dtype = DType::kU8,
                              .shape = {pieces}});
      for (int64_t piece = 0; piece < pieces; ++piece) {
        saved.datasets.push_back({.array = static_cast<int32_t>(array),
                                  .box = {{piece}, {1}},
                                  .offset = array * pieces + piece});
      }
    }
    WriteIndex(saved);
    const StatusOr<SavedCheckpoint> read = ReadIndex(dir_);
    EXPECT_EQ(read.status(), absl::OkStatus());
    std::filesystem::remove(Index());
    return read.ok() ? std::ssize(read->datasets) : 0;
  };
  EXPECT_EQ(count(10000, 10, 200), 100000);
  EXPECT_EQ(count(3, 5000, 5000), 15000);
}

// A small file would be an array of any size.
TEST_F(IndexHostileTest, DatasetsDoNotShareBytes) {
  const auto read = [&](int64_t step) {
    SavedCheckpoint saved;
    saved.has_checksums = false;
    saved.files.push_back({.name = "data_00000_of_00001.h5", .bytes = 1000});
    saved.arrays.push_back({.key = "a", .dtype = DType::kU8, .shape = {900}});
    for (int64_t piece = 0; piece < 9; ++piece) {
      saved.datasets.push_back(
          {.box = {{piece * 100}, {100}}, .offset = 900 - piece * step});
    }
    std::filesystem::remove(Index());
    WriteIndex(saved);
    return ReadIndex(dir_).status();
  };
  EXPECT_EQ(read(100), absl::OkStatus());
  EXPECT_EQ(read(99),
            absl::DataLossError(absl::StrFormat(
                "read \"%s\": datasets of \"a\" and \"a\" share bytes of file "
                "\"data_00000_of_00001.h5\" (need an offset of at least 208, "
                "found 207)",
                Index())));
}

// Whoever reads files of strangers may allow less, or more for large ones.
TEST_F(IndexHostileTest, TheEnvironmentSaysHowMuchMemoryThereIs) {
  WriteIndex(SmallIndex());
  const auto read_with = [&](const char* bytes) {
    ::setenv(kMaxMetadataBytes, bytes, /*overwrite=*/1);
    const Status status = ReadIndex(dir_).status();
    ::unsetenv(kMaxMetadataBytes);
    return status;
  };
  h5::Ok(read_with("1000000"));
  h5::Ok(read_with(""));
  const Status too_much = read_with("10000");
  EXPECT_FALSE(too_much.ok());
  EXPECT_NE(too_much.message().find(
                "takes more memory than a file of its size may; if you trust "
                "it, allow more with BELAY_MAX_METADATA_BYTES (need "),
            too_much.message().npos)
      << too_much;
  for (const char* wrong : {"0", "-1", "1G", "x"}) {
    EXPECT_EQ(read_with(wrong),
              absl::InvalidArgumentError(absl::StrCat(
                  "BELAY_MAX_METADATA_BYTES: not a number of bytes (need at "
                  "least 1, found \"",
                  wrong, "\")")));
  }
}

// What belay makes of a row is more than the row has in the file.
TEST_F(IndexHostileTest, RowsAreChargedBeforeAnythingIsMadeOfThem) {
  SavedCheckpoint saved;
  constexpr int kArrays = 2000;
  for (int i = 0; i < kArrays; ++i) {
    saved.arrays.push_back({absl::StrFormat("array_%04d", i), DType::kU8, {0}});
  }
  WriteIndex(saved);
  ::setenv(kMaxMetadataBytes, absl::StrCat(kArrays * 512).c_str(), 1);
  const Status status = ReadIndex(dir_).status();
  ::unsetenv(kMaxMetadataBytes);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_NE(status.message().find(".belay/arrays/key"), status.message().npos)
      << status;
  h5::Ok(ReadIndex(dir_).status());
}

// Who plans without memory for the values takes none for chunks that are not
// there.
TEST_F(IndexHostileTest, ManyChunksNeedFilesThatHoldThem) {
  constexpr int64_t kMore = int64_t{1} << 17;
  constexpr int64_t kChunks = (int64_t{1} << 18) + kMore;
  SavedCheckpoint saved{.arrays = {{"w", DType::kU8, {kChunks * 64}}},
                        .datasets = {{.box = WholeBox({kChunks * 64}),
                                      .chunk = {64},
                                      .offset = 0}},
                        .files = {{.name = "data.h5", .bytes = kChunks * 64}}};
  const auto check = [&] { return CheckChunksFit("plan", dir_, saved); };
  // Full of holes, or not there.
  const Status too_many = absl::ResourceExhaustedError(absl::StrCat(
      "plan \"", dir_,
      "\": there are too many chunks for what the data files "
      "there hold; if you trust the index, set BELAY_MAX_METADATA_BYTES to ",
      kChunks * 256, " or more (need at most 262144 chunks, found 393216)"));
  EXPECT_EQ(check(), too_many);
  Put("data.h5", "");
  std::filesystem::resize_file(Path("data.h5"), kChunks * 64);
  EXPECT_EQ(check(), too_many);
  ::setenv(kMaxMetadataBytes, absl::StrCat(kChunks * 256).c_str(), 1);
  h5::Ok(check());
  ::unsetenv(kMaxMetadataBytes);
  // So many need no file.
  Put("data.h5", std::string(kMore * 64, 'x'));
  h5::Ok(check());
  Put("data.h5", std::string(kMore * 64 - 64, 'x'));
  EXPECT_EQ(check().code(), absl::StatusCode::kResourceExhausted);
  // A plan has each chunk with filters, too.
  saved.datasets[0].filters = {{.id = 1}};
  saved.datasets[0].offset = -1;
  EXPECT_EQ(check().code(), absl::StatusCode::kResourceExhausted);
  Put("data.h5", std::string(kMore * 64, 'x'));
  h5::Ok(check());
}

// Nor do holes hold chunks with filters.
TEST_F(IndexHostileTest, ChunksWithFiltersAreNotInHoles) {
  constexpr int64_t kChunks = 1 << 18;
  SavedCheckpoint saved{
      .arrays = {{"w", DType::kU8, {kChunks}}},
      .datasets = {{.box = WholeBox({kChunks}),
                    .chunk = {1},
                    .offset = -1,
                    .filters = {{.id = 1, .parameters = {6}}}}},
      .files = {{.name = "data.h5", .bytes = 14 * kChunks}}};
  Put("data.h5", std::string(14 * kChunks, 'x'));
  h5::Ok(CheckDataFiles(dir_, saved));
  Put("data.h5", std::string(kChunks, 'x'));
  std::filesystem::resize_file(Path("data.h5"), 14 * kChunks);
  const Status holes = CheckDataFiles(dir_, saved);
  EXPECT_EQ(holes.code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(holes.message().find("holes where its chunks would be (need "),
            holes.message().npos)
      << holes;
  // Values are also in holes.
  saved.datasets[0].filters = {};
  h5::Ok(CheckDataFiles(dir_, saved));
}

// Anybody who may read a file can hold a lock on it.
TEST_F(IndexHostileTest, ALockOfAReaderStopsNobody) {
  const SavedCheckpoint saved = SmallIndex();
  WriteIndex(saved);
  const int fd = open(Index().c_str(), O_RDONLY);
  ASSERT_EQ(flock(fd, LOCK_EX), 0);
  ExpectSame(h5::Value(ReadIndex(dir_)), saved);
  close(fd);
}

// Nobody who reads an index is shown anything else than was saved.
TEST_F(IndexHostileTest, AFlipOfAnyByteIsNoticedOrChangesNothing) {
  const SavedCheckpoint saved = SmallIndex();
  WriteIndex(saved);
  const std::string good = Content("index.h5");
  const auto listed = [&]() -> StatusOr<std::vector<std::string>> {
    auto file = h5::GuardedFile::Open(Index(), 60);
    if (!file.ok()) return file.status();
    const auto datasets = file->List();
    if (!datasets.ok()) return datasets.status();
    std::vector<std::string> lines;
    for (const h5::ListedDataset& dataset : *datasets) {
      lines.push_back(absl::StrCat(dataset.path, " ", dataset.array.problem));
    }
    return lines;
  };
  const std::vector<std::string> shown = h5::Value(listed());
  // All of them take a minute.
  const size_t step = std::getenv("BELAY_FLIP_ALL") != nullptr ? 1 : 7;
  size_t noticed = 0;
  for (size_t at = 0; at < good.size(); at += step) {
    Patch(at, std::string(1, static_cast<char>(good[at] ^ (1 << at % 8))));
    const StatusOr<SavedCheckpoint> found = ReadIndex(dir_);
    noticed += found.ok() ? 0 : 1;
    if (found.ok()) ExpectSame(*found, saved);
    // Other programs have the checksums of HDF5.
    if (at % 32 == 5) {
      const auto lines = listed();
      if (lines.ok()) {
        EXPECT_EQ(*lines, shown) << at;
      }
    }
    ASSERT_FALSE(HasFailure()) << "at " << at;
    Patch(at, good.substr(at, 1));
  }
  EXPECT_GT(noticed, 2000 / step);
}

}  // namespace
}  // namespace belay::index_hostile_test
