// What data files are said to hold, and what their chunks can be.
#include <gmock/gmock.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "chunk_table.h"
#include "h5_testing.h"
#include "hdf5/file.h"
#include "storage/filtered_reader.h"

namespace belay::stored_chunks_test {
namespace {

using h5::Ok;
using h5::Value;
using testing::ChangeChunkTables;
using testing::ChunkEntry;
using ::testing::HasSubstr;

constexpr int kDeflate = 1, kFletcher32 = 3, kNbit = 5;
constexpr int64_t kMebibyte = int64_t{1} << 20;

class StoredChunksTest : public h5::H5Test {
 protected:
  // Writes zeros, u8, under these keys, a chunk for each mebibyte, and returns
  // what an index says of them.
  SavedCheckpoint Write(const std::vector<std::string>& keys, int64_t chunks,
                        const std::vector<Filter>& filters) const {
    SavedCheckpoint saved{.files = {{.name = "d.h5"}}};
    h5::Handle file = Value(h5::CreateFile(Path("d.h5")));
    const std::vector<char> values(chunks * kMebibyte);
    for (const std::string& key : keys) {
      h5::ObjectCache cache;
      Value(h5::CreateDataset(
          file, cache,
          {key, DType::kU8, 0, {chunks * kMebibyte}, {kMebibyte}, filters}));
      cache = {};
      h5::Handle dataset = Value(h5::OpenDataset(file, key));
      Ok(h5::WriteHyperslab(dataset, WholeBox({chunks * kMebibyte}),
                            {DType::kU8}, values.data()));
      Ok(dataset.Close());
      saved.datasets.push_back(
          {.array = static_cast<int32_t>(saved.arrays.size()),
           .box = WholeBox({chunks * kMebibyte}),
           .chunk = {kMebibyte},
           .filters = filters,
           .path = key});
      saved.arrays.push_back(
          {.key = key, .dtype = DType::kU8, .shape = {chunks * kMebibyte}});
    }
    Ok(file.Close());
    saved.files[0].bytes =
        static_cast<int64_t>(std::filesystem::file_size(Path("d.h5")));
    return saved;
  }
  void Share() const { testing::ShareFirstChunk(Path("d.h5")); }
  void ExpectDamage(const Status& status, const std::string& text) const {
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("read \"" + Path("d.h5") + "\": key \""));
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  }
};

// Values of a thousand for each byte are no damage.
TEST_F(StoredChunksTest, ZerosThatCompressWell) {
  const SavedCheckpoint saved =
      Write({"a", "b"}, 40, {{.id = kDeflate, .parameters = {9}}});
  EXPECT_GT(80 * kMebibyte / saved.files[0].bytes, 700);
  Ok(CheckStoredChunks(dir_, saved));
  Ok(CheckAllStoredChunks(dir_, saved));
}

TEST_F(StoredChunksTest, ChunksThatShareTheirStoredBytes) {
  for (const std::vector<Filter>& filters :
       {std::vector<Filter>{{.id = kDeflate, .parameters = {9}}},
        {{.id = kNbit}}}) {
    const SavedCheckpoint saved = Write({"a"}, 80, filters);
    Ok(CheckAllStoredChunks(dir_, saved));
    Share();
    ExpectDamage(CheckAllStoredChunks(dir_, saved), "share");
    std::filesystem::remove(Path("d.h5"));
  }
}

// Of different datasets, each of which is sound.
TEST_F(StoredChunksTest, ArraysThatShareTheirStoredBytes) {
  const SavedCheckpoint saved =
      Write({"a", "b"}, 40, {{.id = kDeflate, .parameters = {9}}});
  std::vector<ChunkEntry> first;
  ChangeChunkTables(Path("d.h5"), [&](std::vector<ChunkEntry>& entries) {
    if (first.empty()) first = entries;
    entries = first;
  });
  ExpectDamage(CheckStoredChunks(dir_, saved), "it shares stored bytes with");
}

TEST_F(StoredChunksTest, AnArrayWithoutFiltersInThePlaceOfChunks) {
  SavedCheckpoint saved =
      Write({"a"}, 80, {{.id = kDeflate, .parameters = {9}}});
  int64_t address = 0;
  ChangeChunkTables(Path("d.h5"), [&](std::vector<ChunkEntry>& entries) {
    address = entries[3].address;
  });
  saved.arrays.push_back({.key = "b", .dtype = DType::kU8, .shape = {10}});
  saved.datasets.push_back(
      {.array = 1, .box = WholeBox({10}), .offset = address});
  ExpectDamage(CheckStoredChunks(dir_, saved), "it shares stored bytes with");
}

TEST_F(StoredChunksTest, AFewStoredBytesAreNoMebibyte) {
  const SavedCheckpoint saved =
      Write({"a"}, 80, {{.id = kDeflate, .parameters = {9}}});
  ChangeChunkTables(Path("d.h5"), [&](std::vector<ChunkEntry>& entries) {
    entries[70].bytes = 72;
  });
  ExpectDamage(CheckStoredChunks(dir_, saved),
               "key \"a\": a chunk is damaged: 72 stored bytes cannot hold it "
               "(need 1048576 bytes, found at most 75920)");
}

// Then as many are needed as there are values.
TEST_F(StoredChunksTest, AFilterThatWasLeftOutMakesNothing) {
  const SavedCheckpoint saved = Write(
      {"a"}, 80, {{.id = kFletcher32}, {.id = kDeflate, .parameters = {9}}});
  ChangeChunkTables(Path("d.h5"), [&](std::vector<ChunkEntry>& entries) {
    entries[1].left_out = 2;
  });
  ExpectDamage(CheckStoredChunks(dir_, saved), "stored bytes cannot hold it");
}

// What they make of a byte is not known, and libhdf5 says.
TEST_F(StoredChunksTest, AChunkOfOtherFiltersIsTried) {
  const SavedCheckpoint saved =
      Write({"a"}, 80, {{.id = kNbit}, {.id = kFletcher32}});
  Ok(CheckAllStoredChunks(dir_, saved));
  ChangeChunkTables(Path("d.h5"), [&](std::vector<ChunkEntry>& entries) {
    entries[70] = {.address = 0, .bytes = 72};  // no zeros
  });
  ExpectDamage(CheckAllStoredChunks(dir_, saved), "Fletcher32");
}

TEST_F(StoredChunksTest, OnlyFilesOfWhichMuchIsSaidAreLookedInto) {
  const SavedCheckpoint saved =
      Write({"a"}, 8, {{.id = kDeflate, .parameters = {9}}});
  Share();
  Ok(CheckStoredChunks(dir_, saved));  // no more than 64 MiB
  EXPECT_EQ(CheckAllStoredChunks(dir_, saved).code(),
            absl::StatusCode::kDataLoss);
}

TEST_F(StoredChunksTest, AFileThatIsNotThereHoldsNothing) {
  const SavedCheckpoint saved =
      Write({"a"}, 80, {{.id = kDeflate, .parameters = {9}}});
  std::filesystem::remove(Path("d.h5"));
  Ok(CheckStoredChunks(dir_, saved));
}

}  // namespace
}  // namespace belay::stored_chunks_test
