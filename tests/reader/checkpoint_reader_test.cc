#include "belay/checkpoint_reader.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "directory_fixture.h"
#include "h5_testing.h"
#include "storage/verify.h"
#include "store_testing.h"

namespace belay::checkpoint_reader_test {
namespace {

using Lines = std::vector<std::string>;

class CheckpointReaderTest : public DirectoryTest {
 protected:
  // Writes SmallIndex with its data files.
  SavedCheckpoint WriteSmall(bool has_checksums = true) const {
    SavedCheckpoint saved = SmallIndex();
    saved.has_checksums = has_checksums;
    WriteCheckpoint(dir_, saved);
    return saved;
  }

  // Flips a bit in a byte of a data file.
  void Flip(const std::string& name, int64_t offset) const {
    const char byte = static_cast<char>(Content(name)[offset] ^ 1);
    h5::PatchBytes(Path(name), offset, &byte, 1);
  }

  VerifyResult Verify() const { return h5::Value(VerifyCheckpoint(dir_)); }
};

// The line about a block of an array whose first byte was changed to `byte`.
std::string LineOf(const SavedCheckpoint& saved, int32_t array,
                   size_t first_block, size_t at) {
  std::string content = ContentOf(saved.arrays[array]);
  content[at] ^= 1;
  return DescribeDamage(saved, array, 0, saved.checksums[first_block],
                        PlainCrc(content));
}

TEST_F(CheckpointReaderTest, ObjectsAreListed) {
  WriteSmall();
  const CheckpointReader reader = h5::Value(CheckpointReader::Open(dir_));
  EXPECT_TRUE(reader.info().has_graph);
  const std::vector<ObjectInfo> objects = h5::Value(reader.Objects());
  Lines paths, keys;
  std::vector<int64_t> parents;
  for (const ObjectInfo& object : objects) {
    paths.push_back(object.path);
    parents.push_back(object.parent);
    for (const ObjectValue& value : object.values) {
      keys.push_back(absl::StrCat(value.name, " ", value.key, " ", value.layout,
                                  value.opaque ? "opaque" : ""));
    }
  }
  const std::string optimizer =
      "(root).gr\xc3\xb6\xc3\x9f"
      "e";
  EXPECT_EQ(paths, Lines({"(root)", "(root).model", optimizer, "(root).model.w",
                          optimizer + "'s state 'm' for (root).model.w"}));
  EXPECT_EQ(parents, std::vector<int64_t>({-1, 0, 0, 1, 3}));
  EXPECT_EQ(keys,
            Lines({"step d/e ", "random b opaque",
                   "VARIABLE_VALUE a [x,-] on x=2", "VARIABLE_VALUE d/f "}));
  EXPECT_EQ(objects[2].children[0].name, "target");
  EXPECT_EQ(objects[2].children[0].object, 1);
  EXPECT_EQ(objects[2].slots[0].name, "m");
  EXPECT_EQ(objects[2].slots[0].variable, 3);
  EXPECT_EQ(objects[2].slots[0].object, 4);
}

TEST_F(CheckpointReaderTest, ValuesSayWhichArraysTheyAre) {
  WriteSmall();
  const std::vector<ValueInfo> values =
      h5::Value(CheckpointReader::Open(dir_)).Values();
  ASSERT_EQ(values.size(), 5);
  EXPECT_EQ(values[0], (ValueInfo{.key = "a",
                                  .typestr = "array",
                                  .parts = {{"", DType::kF32, {4, 6}, 96}},
                                  .layout = "[x,-] on x=2"}));
  EXPECT_EQ(values[3], (ValueInfo{.key = "d",
                                  .typestr = "pair",
                                  .parts = {{"e", DType::kI64, {}, 8},
                                            {"f", DType::kU16, {2, 2}, 8}},
                                  .layout = ""}));
  EXPECT_EQ(values[4].typestr, "None");
}

TEST_F(CheckpointReaderTest, WithoutAGraphThereAreNoObjects) {
  SavedCheckpoint saved = SmallIndex();
  saved.graph = {};
  WriteCheckpoint(dir_, saved);
  const CheckpointReader reader = h5::Value(CheckpointReader::Open(dir_));
  EXPECT_FALSE(reader.info().has_graph);
  EXPECT_EQ(h5::Value(reader.Objects()).size(), 0);
}

// The arrays can be read all the same.
TEST_F(CheckpointReaderTest, ObjectsThatCannotBeAreDataLoss) {
  SavedCheckpoint saved = SmallIndex();
  saved.graph.node_parent[1] = 3;
  WriteCheckpoint(dir_, saved);
  const CheckpointReader reader = h5::Value(CheckpointReader::Open(dir_));
  EXPECT_EQ(reader.Objects().status(),
            absl::DataLossError("read \"" + dir_ +
                                "\": check object graph \"node 1\": has no "
                                "path"));
  h5::Ok(reader.ReadTensor("a").status());
}

TEST_F(CheckpointReaderTest, InfoSaysWhatIsStoredAndHow) {
  const SavedCheckpoint saved = WriteSmall();
  const CheckpointInfo info = h5::Value(ReadCheckpointInfo(dir_));
  EXPECT_EQ(info.path, dir_);
  EXPECT_EQ(info.file_bytes, saved.files[0].bytes + saved.files[1].bytes);
  EXPECT_EQ(info.step, 42);
  EXPECT_EQ(info.time, 1700000000);
  EXPECT_EQ(info.format_major, 1);
  EXPECT_EQ(info.format_minor, 0);
  EXPECT_EQ(info.file_layout, FileLayout::kPerTask);
  EXPECT_EQ(info.num_files, 2);
  EXPECT_EQ(info.bytes, 96 + 3 + 8 + 8);
  EXPECT_TRUE(info.has_checksums);
  std::vector<ArrayInfo> expected = {
      {"a", DType::kF32, {4, 6}, 96, "4 chunks of [2, 3]"},
      {"b", DType::kString, {}, 3, "contiguous"},
      {"c", DType::kU8, {0, 2}, 0, "empty"},
      {"d/e", DType::kI64, {}, 8, "contiguous"},
      {"d/f", DType::kU16, {2, 2}, 8, "2 pieces"}};
  ASSERT_EQ(info.arrays.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(info.arrays[i].key, expected[i].key);
    EXPECT_EQ(info.arrays[i].dtype, expected[i].dtype) << i;
    EXPECT_EQ(info.arrays[i].shape, expected[i].shape) << i;
    EXPECT_EQ(info.arrays[i].bytes, expected[i].bytes) << i;
    EXPECT_EQ(info.arrays[i].cut, expected[i].cut) << i;
  }
}

TEST_F(CheckpointReaderTest, OneChunkIsNotSeveral) {
  SavedCheckpoint saved = SmallIndex();
  saved.datasets[0].chunk = {4, 6};
  WriteCheckpoint(dir_, saved);
  EXPECT_EQ(h5::Value(ReadCheckpointInfo(dir_)).arrays[0].cut,
            "1 chunk of [4, 6]");
}

TEST_F(CheckpointReaderTest, InfoSaysWhichFileHoldsWhat) {
  WriteSmall();
  const CheckpointInfo info = h5::Value(ReadCheckpointInfo(dir_));
  std::vector<std::string> lines;
  for (const StoredPiece& piece : info.pieces) {
    lines.push_back(absl::StrCat(piece.file, " ", piece.group, " ", piece.key,
                                 " ", BoxText(piece.box), " ",
                                 piece.task.value_or(-1)));
  }
  EXPECT_EQ(lines, std::vector<std::string>(
                       {"data_00000_of_00002.h5 1 a 0,4:0,6 -1",
                        "data_00000_of_00002.h5 2 b 0,3 -1",
                        "data_00000_of_00002.h5 5 d/f 0,1:0,2 -1",
                        "data_00001_of_00002.h5 4 d/e  0",
                        "data_00001_of_00002.h5 5 d/f 1,1:0,2 0"}));
}

TEST_F(CheckpointReaderTest, InfoNeedsOnlyTheIndex) {
  const SavedCheckpoint saved = WriteSmall();
  for (const StoredFile& file : saved.files) {
    std::filesystem::remove(Path(file.name));
  }
  EXPECT_EQ(h5::Value(ReadCheckpointInfo(dir_)).arrays.size(), 5);
}

TEST_F(CheckpointReaderTest, AnIntactCheckpointHasNoDamage) {
  WriteSmall();
  const VerifyResult result = Verify();
  EXPECT_EQ(result.blocks, 4);
  EXPECT_EQ(result.bytes, 115);
  EXPECT_EQ(result.damage, Lines());
}

// Bytes that no dataset holds, or two hold, must not count as intact.
TEST_F(CheckpointReaderTest, DatasetsThatDoNotTileAreDamage) {
  for (const int64_t row : {-1, 0}) {
    SavedCheckpoint saved = WriteSmall();
    if (row < 0) saved.datasets.pop_back();
    if (row == 0) saved.datasets.back().box.offset[0] = 0;
    const std::string path = Path("index.h5");
    std::filesystem::remove(path);
    const IndexImage image = h5::Value(CreateIndex(path, saved));
    h5::Ok(FinishIndex(path, image, saved.step, saved.time, saved.checksums,
                       false));
    const Status damaged = VerifyCheckpoint(dir_).status();
    EXPECT_EQ(damaged.code(), absl::StatusCode::kDataLoss);
    EXPECT_TRUE(
        std::string(damaged.message())
            .starts_with("read \"" + path +
                         "\": the datasets of \"d/f\" do not hold each"))
        << damaged;
    EXPECT_EQ(CheckpointReader::Open(dir_).status(), damaged);
    for (const auto& entry : std::filesystem::directory_iterator(dir_)) {
      std::filesystem::remove(entry);
    }
  }
}

TEST_F(CheckpointReaderTest, RandomCheckpointsAreIntact) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    Random random(seed);
    SavedCheckpoint saved = RandomIndex(random);
    saved.has_checksums = true;
    saved.graph = {};  // a random one describes no possible objects
    saved.values = {};
    WriteCheckpoint(dir_, saved);
    const VerifyResult result = Verify();
    EXPECT_EQ(result.damage, Lines()) << seed;
    EXPECT_EQ(result.blocks, saved.checksums.size()) << seed;
    for (const auto& entry : std::filesystem::directory_iterator(dir_)) {
      std::filesystem::remove(entry);
    }
    ASSERT_FALSE(HasFailure()) << seed;
  }
}

TEST_F(CheckpointReaderTest, EveryDamagedBlockIsALine) {
  const SavedCheckpoint saved = WriteSmall();
  const std::string &first = saved.files[0].name, &last = saved.files[1].name;
  // Byte 1 of the second chunk of "a": row 0, column 3.
  Flip(first, saved.datasets[0].offset + 24 + 1);
  EXPECT_EQ(Verify().damage, Lines({LineOf(saved, 0, 0, 3 * 4 + 1)}));
  // The last byte of the second piece of "d/f".
  Flip(last, saved.datasets[4].offset + 3);
  EXPECT_EQ(Verify().damage,
            Lines({LineOf(saved, 0, 0, 3 * 4 + 1), LineOf(saved, 4, 3, 7)}));
  EXPECT_EQ(Verify().blocks, 4);
  Flip(first, saved.datasets[0].offset + 24 + 1);
  Flip(last, saved.datasets[4].offset + 3);
  EXPECT_EQ(Verify().damage, Lines());
}

TEST_F(CheckpointReaderTest, BytesThatOverhangMeanNothing) {
  SavedCheckpoint saved = SmallIndex();
  saved.datasets[0].chunk = {3, 4};  // the chunks reach to [6, 8]
  WriteCheckpoint(dir_, saved);
  // The last byte of the last chunk.
  Flip(saved.files[0].name, saved.datasets[0].offset + 4 * 48 - 1);
  EXPECT_EQ(Verify().damage, Lines());
  Flip(saved.files[0].name, saved.datasets[0].offset + 3 * 48);
  EXPECT_EQ(Verify().damage, Lines({LineOf(saved, 0, 0, (3 * 6 + 4) * 4)}));
}

// belay itself needs HDF5's part of a data file for filters only.
TEST_F(CheckpointReaderTest, WhatOtherProgramsCannotReadIsALine) {
  const SavedCheckpoint saved = WriteSmall();
  const std::string path = Path(saved.files[0].name);
  Flip(saved.files[0].name, 1);
  const std::vector<std::string> damage = Verify().damage;
  ASSERT_EQ(damage.size(), 1u);
  EXPECT_TRUE(damage[0].starts_with("\"" + path +
                                    "\": other programs cannot read it: "))
      << damage[0];
  Flip(saved.files[0].name, 1);
  int found = 0;
  for (int64_t at = 0; at < saved.datasets[0].offset; at += 21) {
    Flip(saved.files[0].name, at);
    found += Verify().damage.empty() ? 0 : 1;
    Flip(saved.files[0].name, at);
  }
  // HDF5 has checksums of its own, but not of what it leaves unused.
  EXPECT_GT(found, 5);
  EXPECT_EQ(Verify().damage, Lines());
}

TEST_F(CheckpointReaderTest, AMissingOrShortFileIsALine) {
  const SavedCheckpoint saved = WriteSmall();
  const std::string path = Path(saved.files[1].name);
  const std::string need = std::to_string(saved.files[1].bytes);
  std::filesystem::resize_file(path, 77);
  EXPECT_EQ(Verify().damage,
            Lines({"open \"" + path + "\": the data file is truncated (need " +
                   need + " bytes, found 77)"}));
  std::filesystem::remove(path);
  EXPECT_EQ(Verify().damage,
            Lines({"open \"" + path + "\": the data file is missing (need " +
                   need + " bytes, found none)"}));
}

// Whoever put it there has damaged the checkpoint, and another step may help.
TEST_F(CheckpointReaderTest, WhatIsNoFileIsALine) {
  const SavedCheckpoint saved = WriteSmall();
  const std::string path = Path(saved.files[0].name);
  std::filesystem::rename(path, path + ".kept");
  const auto expect_line = [&](const std::string& what) {
    const std::vector<std::string> damage = Verify().damage;
    ASSERT_EQ(damage.size(), 1) << what;
    EXPECT_NE(damage[0].find(path), std::string::npos) << damage[0];
    const Status status =
        h5::Value(CheckpointReader::Open(dir_)).ReadTensor("a").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  };
  std::filesystem::create_symlink(path + ".kept", path);
  expect_line("a link");
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  expect_line("a directory");
  std::filesystem::remove(path);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  expect_line("a pipe");
}

// A part of a block has no checksum that would tell.
TEST_F(CheckpointReaderTest, AFileOfAnotherSizeIsNotShownInPart) {
  const SavedCheckpoint saved = WriteSmall();
  const std::string path = Path(saved.files[0].name);
  const auto read = [&] {
    return h5::Value(CheckpointReader::Open(dir_))
        .ReadTensor("a", {{0, 0}, {1, 1}})
        .status();
  };
  EXPECT_EQ(read(), absl::OkStatus());
  std::filesystem::resize_file(path, 100000);
  EXPECT_EQ(read().code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(read().message().find("too long (need "), std::string::npos);
}

TEST_F(CheckpointReaderTest, WithoutChecksumsOnlyFilesAreChecked) {
  const SavedCheckpoint saved = WriteSmall(false);
  Flip(saved.files[0].name, saved.datasets[0].offset);
  VerifyResult result = Verify();
  EXPECT_EQ(result.blocks, 0);
  EXPECT_EQ(result.damage, Lines());
  std::filesystem::remove(Path(saved.files[0].name));
  EXPECT_EQ(Verify().damage.size(), 1);
}

TEST_F(CheckpointReaderTest, ProgressGoesUpToTheEnd) {
  WriteSmall();
  std::vector<std::pair<int64_t, int64_t>> calls;
  h5::Value(VerifyCheckpoint(dir_, [&](int64_t done, int64_t total) {
    calls.emplace_back(done, total);
  }));
  ASSERT_FALSE(calls.empty());
  int64_t before = 0;
  for (const auto& [done, total] : calls) {
    EXPECT_GT(done, before);
    EXPECT_EQ(total, 115);
    before = done;
  }
  EXPECT_EQ(before, 115);
}

TEST_F(CheckpointReaderTest, ErrorsOfTheIndexAreErrors) {
  EXPECT_EQ(ReadCheckpointInfo(dir_).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(VerifyCheckpoint(dir_).status().code(),
            absl::StatusCode::kNotFound);
  Put("index.h5", "nothing");
  EXPECT_EQ(VerifyCheckpoint(dir_).status().code(),
            absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace belay::checkpoint_reader_test
