#include "storage/index_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "directory_fixture.h"
#include "format/index_columns.h"
#include "format/stored_columns.h"
#include "h5_by_library.h"
#include "h5_testing.h"
#include "store_testing.h"

namespace belay::index_file_test {
namespace {

using nlohmann::json;

class IndexFileTest : public DirectoryTest {
 protected:
  std::string Index() const { return Path("index.h5"); }

  // Writes the index of SmallIndex, complete.
  IndexImage WriteSmall() const { return WriteIndex(SmallIndex()); }

  IndexImage WriteIndex(const SavedCheckpoint& saved) const {
    const IndexImage image = h5::Value(CreateIndex(Index(), saved));
    h5::Ok(FinishIndex(Index(), image, saved.step, saved.time, saved.checksums,
                       true));
    return image;
  }

  // Overwrites bytes of the index.
  void Patch(int64_t offset, const std::string& bytes) const {
    h5::PatchBytes(Index(), offset, bytes.data(), bytes.size());
  }

  // Where a text of the header lies; it must be there once.
  int64_t Find(const std::string& bytes) const {
    const std::string content = Content("index.h5");
    const size_t at = content.find(bytes);
    EXPECT_NE(at, std::string::npos);
    EXPECT_EQ(content.find(bytes, at + 1), std::string::npos);
    return static_cast<int64_t>(at);
  }

  Status Damaged(const std::string& cause) const {
    return absl::DataLossError("read \"" + Index() + "\": " + cause);
  }
};

TEST_F(IndexFileTest, WhatIsWrittenIsRead) {
  WriteSmall();
  ExpectSame(h5::Value(ReadIndex(dir_)), SmallIndex());
}

TEST_F(IndexFileTest, RandomIndexesComeBack) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    Random random(seed);
    const SavedCheckpoint saved = RandomIndex(random);
    SavedCheckpoint shuffled = saved;
    std::shuffle(shuffled.datasets.begin(), shuffled.datasets.end(), random);
    const IndexImage image = h5::Value(CreateIndex(Index(), shuffled));
    h5::Ok(FinishIndex(Index(), image, saved.step, saved.time, saved.checksums,
                       false));
    ExpectSame(h5::Value(ReadIndex(dir_)), saved);
    ASSERT_FALSE(HasFailure()) << seed;
    std::filesystem::remove(Index());
  }
}

TEST_F(IndexFileTest, AnImageMakesTheSameFile) {
  const IndexImage image = WriteSmall();
  const std::string first = Content("index.h5");
  std::filesystem::rename(Index(), Path("other.h5"));
  h5::Ok(WriteWhole(Index(), image.bytes, false));
  h5::Ok(FinishIndex(Index(), image, 42, 1700000000, {11, 12, 13, 14}, true));
  EXPECT_EQ(Content("index.h5"), first);
  EXPECT_EQ(WriteWhole(Index(), image.bytes, false).code(),
            absl::StatusCode::kAlreadyExists);
}

// As of another save that has taken over the directory.
TEST_F(IndexFileTest, AnIndexThatIsThereIsNotWritten) {
  const IndexImage image = WriteSmall();
  const std::string first = Content("index.h5");
  EXPECT_TRUE(absl::IsAlreadyExists(WriteWhole(Index(), image.bytes, false)));
  EXPECT_TRUE(
      absl::IsAlreadyExists(CreateIndex(Index(), SmallIndex()).status()));
  EXPECT_TRUE(absl::IsAlreadyExists(WriteWhole(Index(), "", false)));
  EXPECT_EQ(Content("index.h5"), first);
}

TEST_F(IndexFileTest, AnImageServesTheNextStep) {
  const IndexImage image = WriteSmall();
  std::filesystem::remove(Index());
  h5::Ok(WriteWhole(Index(), image.bytes, false));
  h5::Ok(FinishIndex(Index(), image, 43, 1700000060, {4, 3, 2, 1}, false));
  SavedCheckpoint next = SmallIndex();
  next.step = 43;
  next.time = 1700000060;
  next.checksums = {4, 3, 2, 1};
  ExpectSame(h5::Value(ReadIndex(dir_)), next);
}

TEST_F(IndexFileTest, TheSameIndexIsTheSameFile) {
  WriteSmall();
  const std::string first = Content("index.h5");
  std::filesystem::remove(Index());
  WriteSmall();
  EXPECT_EQ(Content("index.h5"), first);
}

TEST_F(IndexFileTest, PythonReadsTheColumns) {
  WriteSmall();
  const IndexColumns columns = ToColumns(SmallIndex());
  std::vector<std::string> paths = {".belay/digest"};
  ForEachColumn(columns, [&](const char* path, const auto& column) {
    if (!column.empty()) paths.emplace_back(path);
  });
  EXPECT_EQ(paths.size(), 1 + 24 + 15 + 7);
  const json found = h5::Python(Index(), paths);
  ForEachColumn(columns, [&](const char* path, const auto& column) {
    if (column.empty()) return;
    EXPECT_EQ(found[path]["values"], json(column)) << path;
    EXPECT_EQ(found[path]["shape"], json({column.size()})) << path;
  });
  const IndexDigest digest = ComputeDigest(ToStoredColumns(columns));
  EXPECT_EQ(found[".belay/digest"]["values"],
            json({digest.structure, digest.values}));
  EXPECT_EQ(found[".belay/digest"]["dtype"], "uint32");
  EXPECT_EQ(found[".belay/header/time"]["values"], json({1700000000}));
  EXPECT_EQ(found[".belay/header/time"]["dtype"], "int64");
  EXPECT_EQ(found[".belay/header/file_layout"]["dtype"], "uint8");
  EXPECT_EQ(found[".belay/datasets/offset"]["dtype"], "int64");
  EXPECT_EQ(found[".belay/graph/nodes/parent"]["dtype"], "int32");
  EXPECT_EQ(found[".belay/graph/attributes/array"]["dtype"], "uint32");
}

// Other tools find no group, not an empty one.
TEST_F(IndexFileTest, ColumnsWithoutRowsAreNotInTheFile) {
  SavedCheckpoint saved = SmallIndex();
  saved.graph = {};
  saved.values = {};
  WriteIndex(saved);
  ExpectSame(h5::Value(ReadIndex(dir_)), saved);
  for (const json& path : h5::Python(Index(), {})) {
    EXPECT_FALSE(path.get<std::string>().starts_with(".belay/graph")) << path;
    EXPECT_FALSE(path.get<std::string>().starts_with(".belay/values")) << path;
    EXPECT_FALSE(path.get<std::string>().starts_with(".belay/rows")) << path;
    EXPECT_NE(path, ".belay/datasets/filters");
  }
}

TEST_F(IndexFileTest, PythonReadsEveryArrayByItsKey) {
  SavedCheckpoint saved = SmallIndex();
  WriteCheckpoint(dir_, saved);
  const json found = h5::Python(Index(), {"a", "c", "d/e", "d/f"});
  std::vector<uint16_t> pairs(4);
  std::vector<uint8_t> bytes;
  const std::string f = ContentOf(saved.arrays[4]);
  f.copy(reinterpret_cast<char*>(pairs.data()), f.size());
  EXPECT_EQ(found["d/f"]["values"],
            json({{pairs[0], pairs[1]}, {pairs[2], pairs[3]}}));
  int64_t scalar = 0;
  const std::string e = ContentOf(saved.arrays[3]);
  e.copy(reinterpret_cast<char*>(&scalar), e.size());
  EXPECT_EQ(found["d/e"]["values"], json(scalar));
  EXPECT_EQ(found["c"]["shape"], json({0, 2}));
  EXPECT_EQ(found["a"]["shape"], json({4, 6}));
  EXPECT_EQ(found["a"]["chunks"], json({2, 3}));
}

TEST_F(IndexFileTest, ADirectoryWithoutIndexIsNotFound) {
  EXPECT_EQ(ReadIndex(dir_).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ReadIndex(Path("none")).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(IndexFileTest, AnotherFileIsNoIndex) {
  Put("index.h5", "no HDF5 at all");
  EXPECT_EQ(ReadIndex(dir_).status().code(), absl::StatusCode::kDataLoss);
  std::filesystem::remove(Index());
  h5::Handle file = h5::Value(h5::CreateFile(Index()));
  h5::Ok(file.Close());
  EXPECT_EQ(ReadIndex(dir_).status(),
            Damaged("not the index of a belay checkpoint (need magic \"belay "
                    "checkpoint\", found none)"));
}

TEST_F(IndexFileTest, AnotherMagicIsNamed) {
  WriteSmall();
  Patch(Find("belay checkpoint"), "delay");
  EXPECT_EQ(ReadIndex(dir_).status(),
            Damaged("not the index of a belay checkpoint (need magic \"belay "
                    "checkpoint\", found \"delay checkpoint\")"));
}

// Writes the header of an index of another version, and nothing else.
void WriteVersion(const std::string& path, std::vector<uint32_t> version) {
  h5::Handle file = h5::Value(h5::CreateFile(path));
  h5::ObjectCache cache;
  h5::Ok(h5::WriteTextColumn(file, cache, ".belay/header/magic",
                             {"belay checkpoint"}));
  h5::Ok(h5::WriteColumn(file, cache, ".belay/header/format", version));
  cache = {};
  h5::Ok(file.Close());
}

TEST_F(IndexFileTest, ANewerMajorVersionIsRefusedByName) {
  WriteVersion(Index(), {2, 7});
  EXPECT_EQ(ReadIndex(dir_).status(),
            absl::UnimplementedError(
                "read \"" + Index() +
                "\": written in format 2.7, a newer one than this belay "
                "understands; use a newer belay (need format 1, found 2)"));
}

TEST_F(IndexFileTest, AVersionThatIsNoneIsDamaged) {
  for (const std::vector<uint32_t>& version :
       {std::vector<uint32_t>{0, 1}, {1}, {1, 0, 0}, {}}) {
    WriteVersion(Index(), version);
    EXPECT_EQ(ReadIndex(dir_).status(),
              Damaged("the format version is damaged"));
    std::filesystem::remove(Index());
  }
}

// Writes all columns with their digest, and what a later version may add.
void WriteColumns(const std::string& path, const IndexColumns& columns) {
  h5::Handle file = h5::Value(h5::CreateFile(path));
  h5::ObjectCache cache;
  const auto write = [&](const std::string& name, const auto& column) {
    using Row = typename std::decay_t<decltype(column)>::value_type;
    if constexpr (std::is_same_v<Row, std::string>) {
      h5::Ok(h5::WriteTextColumn(file, cache, name, column));
    } else {
      h5::Ok(h5::WriteColumn<Row>(file, cache, name, column));
    }
  };
  ForEachColumn(columns, write);
  const IndexDigest digest = ComputeDigest(ToStoredColumns(columns));
  const std::vector<uint32_t> rows = {digest.structure, digest.values};
  write(".belay/digest", rows);
  write(".belay/graph/new", rows);
  write(".belay/digest_1_7", rows);
  cache = {};
  h5::Ok(file.Close());
}

TEST_F(IndexFileTest, ANewerMinorVersionIsRead) {
  SavedCheckpoint saved = SmallIndex();
  saved.format_minor = 7;
  IndexColumns columns = ToColumns(saved);
  columns.format = {1, 7};
  WriteColumns(Index(), columns);
  ExpectSame(h5::Value(ReadIndex(dir_)), saved);
}

// A column without a row is as good as none.
TEST_F(IndexFileTest, AGraphOfEmptyColumnsIsNone) {
  SavedCheckpoint saved = SmallIndex();
  saved.graph = {};
  WriteColumns(Index(), ToColumns(saved));
  ExpectSame(h5::Value(ReadIndex(dir_)), saved);
}

TEST_F(IndexFileTest, EveryFlippedByteOfAColumnIsFound) {
  const IndexImage image = WriteSmall();
  const std::string good = Content("index.h5");
  std::vector<int64_t> places = {
      image.digest_offset,
      image.digest_offset + 7,
      image.checksum_offset,
      image.step_offset + 7,
      image.time_offset,
      Find("data_00000_of_00002.h5data_00001_of_00002.h5")};
  for (int64_t at : places) {
    Patch(at, std::string(1, static_cast<char>(good[at] ^ 0x10)));
    EXPECT_EQ(ReadIndex(dir_).status(),
              Damaged("the index is damaged: its digest does not match"))
        << at;
    Patch(at, good.substr(at, 1));
  }
  h5::Ok(ReadIndex(dir_).status());
}

TEST_F(IndexFileTest, AFlippedByteOfATableIsFound) {
  const std::vector<int64_t> tasks = {-1, -1, 0, -1, 0};
  const std::vector<int32_t> parents = SmallGraph().node_parent;
  const auto bytes = [](const auto& rows) {
    return std::string(reinterpret_cast<const char*>(rows.data()),
                       rows.size() * sizeof(rows[0]));
  };
  for (const std::string& needle : {bytes(tasks), bytes(parents)}) {
    WriteSmall();
    Patch(Find(needle) + 8, std::string(1, 2));
    EXPECT_EQ(ReadIndex(dir_).status(),
              Damaged("the index is damaged: its digest does not match"));
    std::filesystem::remove(Index());
  }
}

// Damage of HDF5's own bytes, of links, columns and digests: what is read is
// right, or nothing is read.
TEST_F(IndexFileTest, AnyFlippedBitEndsInTheSameIndexOrInAnError) {
  WriteSmall();
  const std::string good = Content("index.h5");
  Random random(3);
  int refused = 0;
  for (int flip = 0; flip < 1000; ++flip) {
    const int64_t at =
        Uniform(0, static_cast<int64_t>(good.size()) - 1, random);
    const int64_t bit = int64_t{1} << Uniform(0, 7, random);
    Patch(at, std::string(1, static_cast<char>(good[at] ^ bit)));
    const StatusOr<SavedCheckpoint> saved = ReadIndex(dir_);
    if (saved.ok()) ExpectSame(*saved, SmallIndex());
    refused += saved.ok() ? 0 : 1;
    ASSERT_FALSE(HasFailure()) << "bit " << bit << " of byte " << at;
    Patch(at, good.substr(at, 1));
  }
  EXPECT_GT(refused, 150);
  h5::Ok(ReadIndex(dir_).status());
}

// The digest promises all columns that have rows.
TEST_F(IndexFileTest, AMissingColumnIsFound) {
  const IndexColumns columns = ToColumns(SmallIndex());
  ForEachColumn(columns, [&](const char* path, const auto& column) {
    if (column.empty()) return;
    WriteSmall();
    const hid_t file = H5Fopen(Index().c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    ASSERT_GE(H5Ldelete(file, path, H5P_DEFAULT), 0);
    ASSERT_GE(H5Fclose(file), 0);
    EXPECT_TRUE(absl::IsDataLoss(ReadIndex(dir_).status())) << path;
    std::filesystem::remove(Index());
  });
}

TEST_F(IndexFileTest, ATruncatedIndexIsDamaged) {
  WriteSmall();
  const auto size = std::filesystem::file_size(Index());
  for (const uint64_t left : {size - 1, size / 2, uint64_t{100}}) {
    std::filesystem::resize_file(Index(), left);
    EXPECT_EQ(ReadIndex(dir_).status().code(), absl::StatusCode::kDataLoss)
        << ReadIndex(dir_).status();
  }
}

TEST_F(IndexFileTest, DataFilesAreThereAndWhole) {
  const SavedCheckpoint saved = SmallIndex();
  const std::string last = saved.files[1].name;
  const auto check = [&] { return CheckDataFiles(dir_, saved); };
  const auto failure = [&](const std::string& cause) {
    return absl::DataLossError("open \"" + Path(last) + "\": the data file " +
                               cause);
  };
  Put(saved.files[0].name, std::string(204, 'x'));
  EXPECT_EQ(check(), failure("is missing (need 62 bytes, found none)"));
  Put(last, std::string(61, 'x'));
  EXPECT_EQ(check(), failure("is truncated (need 62 bytes, found 61)"));
  Put(last, std::string(63, 'x'));
  EXPECT_EQ(check(), failure("is too long (need 62 bytes, found 63)"));
  Put(last, std::string(62, 'x'));
  EXPECT_EQ(check(), absl::OkStatus());
  // The directory is the test's own.
  EXPECT_EQ(AsNobody(check),
            absl::PermissionDeniedError("open \"" + Path(saved.files[0].name) +
                                        "\": permission denied"));
}

// Bytes that are stored once count once.
TEST_F(IndexFileTest, AFileOfTwoNamesHasItsValuesOnce) {
  SavedCheckpoint saved = SmallIndex();
  saved.files[1].bytes = saved.files[0].bytes;
  Put(saved.files[0].name, std::string(204, 'x'));
  std::filesystem::create_hard_link(Path(saved.files[0].name),
                                    Path(saved.files[1].name));
  EXPECT_EQ(
      CheckDataFiles(dir_, saved),
      absl::DataLossError("open \"" + Path(saved.files[1].name) +
                          "\": the data file is \"" + saved.files[0].name +
                          "\" by another name, whose bytes are stored "
                          "once"));
  // Who saves space by links may find equal ones that have no values, and has
  // links elsewhere.
  std::erase_if(saved.datasets,
                [](const StoredDataset& dataset) { return dataset.file == 1; });
  EXPECT_EQ(CheckDataFiles(dir_, saved), absl::OkStatus());
}

}  // namespace
}  // namespace belay::index_file_test
