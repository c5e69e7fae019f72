// Values that CheckpointReader reads, against what was written.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "belay/checkpoint_reader.h"
#include "directory_fixture.h"
#include "h5_testing.h"
#include "sanitizers.h"
#include "store_testing.h"

namespace belay::checkpoint_reader_read_test {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

std::string BytesOf(const Tensor& tensor) {
  return {reinterpret_cast<const char*>(tensor.data()),
          static_cast<size_t>(tensor.num_bytes())};
}

Box RandomBox(const Shape& shape, Random& random) {
  Box box = WholeBox(shape);
  for (size_t i = 0; i < shape.size(); ++i) {
    box.offset[i] = Uniform(0, shape[i], random);
    box.shape[i] = Uniform(0, shape[i] - box.offset[i], random);
  }
  return box;
}

// The io box of the whole array is its box, but for strings.
std::string ContentIn(const StoredArray& array, const Box& box) {
  return IsEmpty(box) ? "" : PieceOf(array, box);
}

std::string MessageOf(const Status& status) {
  return std::string(status.message());
}

class ReadTest : public DirectoryTest {
 protected:
  CheckpointReader Open(SavedCheckpoint& saved) const {
    WriteCheckpoint(dir_, saved);
    return h5::Value(CheckpointReader::Open(dir_));
  }
  CheckpointReader OpenSmall() const {
    SavedCheckpoint saved = SmallIndex();
    return Open(saved);
  }
  // One array u8 [3, 1 MiB], one block a row.
  SavedCheckpoint ThreeBlocks() const {
    return {.step = 1,
            .has_checksums = true,
            .arrays = {{"w", DType::kU8, {3, kBlockBytes}}},
            .datasets = {{0, 0, WholeBox({3, kBlockBytes}), {}, 0}},
            .files = {{"data_00000_of_00001.h5", 0, 0}}};
  }
  // Flips a bit of a byte of a dataset.
  void Flip(const SavedCheckpoint& saved, size_t dataset, int64_t at) const {
    const StoredDataset& damaged = saved.datasets[dataset];
    const std::string& name = saved.files[damaged.file].name;
    const int64_t offset = damaged.offset + at;
    const char byte = static_cast<char>(Content(name)[offset] ^ 1);
    h5::PatchBytes(Path(name), offset, &byte, 1);
  }
};

TEST_F(ReadTest, MpiIsNeitherNeededNorStarted) {
  const CheckpointReader reader = OpenSmall();
  h5::Value(reader.ReadTensor("a"));
  int initialized = -1;
  MPI_Initialized(&initialized);
  EXPECT_EQ(initialized, 0);
}

TEST_F(ReadTest, InfoIsThatOfTheIndex) {
  const CheckpointReader reader = OpenSmall();
  EXPECT_EQ(reader.info().path, dir_);
  EXPECT_EQ(reader.info().step, 42);
  EXPECT_EQ(reader.info().bytes, 96 + 3 + 8 + 8);
  ASSERT_EQ(reader.info().arrays.size(), 5);
  EXPECT_TRUE(reader.Has("d/e"));
  EXPECT_FALSE(reader.Has("d"));
  EXPECT_FALSE(reader.Has(""));
  EXPECT_FALSE(reader.Has("z"));
  const ArrayInfo info = h5::Value(reader.Find("d/f"));
  EXPECT_EQ(info.key, "d/f");
  EXPECT_EQ(info.dtype, DType::kU16);
  EXPECT_EQ(info.shape, Shape({2, 2}));
  EXPECT_EQ(info.bytes, 8);
  EXPECT_EQ(info.cut, "2 pieces");
}

TEST_F(ReadTest, ChunksPiecesScalarsTextsAndNothing) {
  const SavedCheckpoint small = SmallIndex();
  const CheckpointReader reader = OpenSmall();
  for (const int i : {0, 2, 3, 4}) {
    const StoredArray& array = small.arrays[i];
    const Tensor tensor = h5::Value(reader.ReadTensor(array.key));
    EXPECT_EQ(tensor.dtype(), array.dtype) << i;
    EXPECT_EQ(tensor.shape(), array.shape) << i;
    EXPECT_EQ(BytesOf(tensor), ContentOf(array)) << i;
  }
  EXPECT_EQ(h5::Value(reader.ReadText("b")), ContentOf(small.arrays[1]));
  const Box box{{1, 2}, {2, 3}};  // all four chunks
  const Tensor part = h5::Value(reader.ReadTensor("a", box));
  EXPECT_EQ(part.shape(), box.shape);
  EXPECT_EQ(BytesOf(part), PieceOf(small.arrays[0], box));
}

// What ReadPieces calls with, put together.
void ExpectPieces(const CheckpointReader& reader, const StoredArray& array,
                  const Box& box, int64_t max_bytes) {
  std::string bytes(NumElements(box.shape) * DTypeSize(array.dtype), '?');
  std::optional<Shape> last;
  const int64_t size = DTypeSize(array.dtype);
  const Status status = reader.ReadPieces(
      array.key, box, max_bytes, [&](const Box& piece, const Tensor& values) {
        EXPECT_TRUE(Contains(box, piece)) << BoxText(piece);
        EXPECT_LE(values.num_bytes(), std::max(max_bytes, size));
        EXPECT_EQ(values.shape(), piece.shape);
        EXPECT_TRUE(!last || std::lexicographical_compare(
                                 last->begin(), last->end(),
                                 piece.offset.begin(), piece.offset.end()));
        last = piece.offset;
        ForEachRun(piece, piece, box, [&](const ElementRun& run) {
          std::copy_n(
              reinterpret_cast<const char*>(values.data()) + run.a * size,
              run.length * size, bytes.begin() + run.b * size);
        });
        return absl::OkStatus();
      });
  EXPECT_EQ(status, absl::OkStatus());
  EXPECT_EQ(bytes, ContentIn(array, box)) << BoxText(box);
}

TEST_F(ReadTest, AnyBoxOfAnyCheckpoint) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Random random(seed);
    SavedCheckpoint saved = RandomIndex(random);
    const CheckpointReader reader = Open(saved);
    for (const StoredArray& array : saved.arrays) {
      if (array.dtype == DType::kString) {
        EXPECT_EQ(h5::Value(reader.ReadText(array.key)), ContentOf(array));
        continue;
      }
      const Tensor whole = h5::Value(reader.ReadTensor(array.key));
      EXPECT_EQ(BytesOf(whole), ContentOf(array)) << seed;
      EXPECT_EQ(BytesOf(h5::Value(LoadVariable(dir_, array.key))),
                ContentOf(array));
      for (int i = 0; i < 8; ++i) {
        const Box box = RandomBox(array.shape, random);
        const Tensor part = h5::Value(reader.ReadTensor(array.key, box));
        EXPECT_EQ(part.shape(), box.shape);
        EXPECT_EQ(BytesOf(part), ContentIn(array, box)) << BoxText(box);
        ExpectPieces(reader, array, box, Uniform(1, 300, random));
      }
    }
    for (const auto& entry : std::filesystem::directory_iterator(dir_)) {
      std::filesystem::remove(entry);
    }
    ASSERT_FALSE(HasFailure()) << seed;
  }
}

TEST_F(ReadTest, DamageInABlockThatIsReadWholeIsFound) {
  SavedCheckpoint saved = ThreeBlocks();
  const CheckpointReader reader = Open(saved);
  Flip(saved, 0, kBlockBytes + 77);
  const Status whole = reader.ReadTensor("w").status();
  EXPECT_EQ(whole.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(MessageOf(whole),
              ::testing::StartsWith(
                  "read \"" + dir_ +
                  "\": checksum of key \"w\", block 1 (box "
                  "\"1,1:0,1048576\") in file \"data_00000_of_00001.h5\" does "
                  "not match (need 0x"));
  const Box row{{1, 0}, {1, kBlockBytes}};
  EXPECT_EQ(reader.ReadTensor("w", row).status(), whole);
  // The same rows piece by piece: no piece covers a block, together they do.
  EXPECT_EQ(reader.ReadPieces(
                "w", WholeBox({3, kBlockBytes}), 1000,
                [](const Box&, const Tensor&) { return absl::OkStatus(); }),
            whole);
}

TEST_F(ReadTest, WhatIsReadInPartOrNotAtAllIsNotChecked) {
  SavedCheckpoint saved = ThreeBlocks();
  const CheckpointReader reader = Open(saved);
  Flip(saved, 0, kBlockBytes + 77);
  for (const Box& box :
       {Box{{0, 0}, {1, kBlockBytes}}, Box{{1, 0}, {2, kBlockBytes - 1}}}) {
    std::string need = PieceOf(saved.arrays[0], box);
    if (box.offset[0] == 1) need[77] ^= 1;
    EXPECT_TRUE(BytesOf(h5::Value(reader.ReadTensor("w", box))) == need);
  }
}

TEST_F(ReadTest, WithoutChecksumsNothingIsCompared) {
  SavedCheckpoint saved = ThreeBlocks();
  saved.has_checksums = false;
  const CheckpointReader reader = Open(saved);
  Flip(saved, 0, 0);
  EXPECT_EQ(reader.ReadTensor("w").status(), absl::OkStatus());
}

TEST_F(ReadTest, ADamagedTextIsFound) {
  SavedCheckpoint saved = SmallIndex();
  const CheckpointReader reader = Open(saved);
  Flip(saved, 1, 2);
  const Status status = reader.ReadText("b").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(MessageOf(status), HasSubstr("checksum of key \"b\", block 0"));
}

TEST_F(ReadTest, AMissingOrShortFileConcernsOnlyWhatIsInIt) {
  SavedCheckpoint saved = SmallIndex();
  WriteCheckpoint(dir_, saved);
  const std::string file = Path(saved.files[1].name);
  std::filesystem::resize_file(file, saved.datasets[2].offset + 7);
  const CheckpointReader reader = h5::Value(CheckpointReader::Open(dir_));
  EXPECT_EQ(reader.ReadTensor("a").status(), absl::OkStatus());
  Status status = reader.ReadTensor("d/e").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(
      MessageOf(status),
      ::testing::StartsWith("read \"" + dir_ + "\": key \"d/e\": open \"" +
                            file + "\": the data file is truncated (need "));
  std::filesystem::remove(file);
  status = reader.ReadTensor("d/f").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(MessageOf(status), HasSubstr(file));
  // The part of "d/f" in the file that is there.
  EXPECT_EQ(reader.ReadTensor("d/f", {{0, 0}, {1, 2}}).status(),
            absl::OkStatus());
}

TEST_F(ReadTest, AnAbsentKeyNamesCloseOnes) {
  const CheckpointReader reader = OpenSmall();
  const std::string start =
      "read \"" + dir_ +
      "\": \"d/g\": key is not in the checkpoint (need one "
      "of 5); close to it: \"d/e\", \"d/f\"";
  EXPECT_EQ(reader.ReadTensor("d/g").status(), absl::NotFoundError(start));
  EXPECT_EQ(reader.ReadTensor("d/g", {}).status(), absl::NotFoundError(start));
  EXPECT_EQ(reader.ReadText("d/g").status(), absl::NotFoundError(start));
  EXPECT_EQ(reader.Find("d/g").status(), absl::NotFoundError(start));
  EXPECT_EQ(reader.ReadPieces("d/g", {}, 1, {}), absl::NotFoundError(start));
  EXPECT_THAT(MessageOf(reader.Find("nothing like it").status()),
              EndsWith("(need one of 5)"));
}

TEST_F(ReadTest, TheOtherKindIsAnError) {
  const CheckpointReader reader = OpenSmall();
  const Status numbers = absl::FailedPreconditionError(
      "read \"" + dir_ +
      "\": key \"b\": the stored dtype differs; use CheckpointReader::ReadText "
      "(need a numeric type, found string)");
  EXPECT_EQ(reader.ReadTensor("b").status(), numbers);
  EXPECT_EQ(reader.ReadTensor("b", {}).status(), numbers);
  EXPECT_EQ(reader.ReadPieces("b", {}, 1, {}), numbers);
  EXPECT_EQ(reader.ReadText("d/e").status(),
            absl::FailedPreconditionError(
                "read \"" + dir_ +
                "\": key \"d/e\": the stored dtype differs; "
                "use ReadTensor (need string, found i64)"));
}

TEST_F(ReadTest, ABoxOutsideIsAnError) {
  const CheckpointReader reader = OpenSmall();
  const Status status = reader.ReadTensor("a", {{3, 0}, {2, 6}}).status();
  EXPECT_EQ(status, absl::OutOfRangeError(
                        "read \"" + dir_ +
                        "\": key \"a\": check box "
                        "\"3,2:0,6\": box reaches past axis 0 of [4, 6] (need "
                        "5, found 4)"));
  EXPECT_EQ(reader.ReadPieces("a", {{3, 0}, {2, 6}}, 1, {}), status);
  EXPECT_EQ(reader.ReadTensor("a", {{3}, {1}}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(reader.ReadTensor("a", {{-1, 0}, {1, 1}}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(ReadTest, AnErrorOfTheVisitorEndsTheReading) {
  const CheckpointReader reader = OpenSmall();
  int calls = 0;
  EXPECT_EQ(reader.ReadPieces("a", WholeBox({4, 6}), 24,
                              [&](const Box&, const Tensor&) -> Status {
                                ++calls;
                                if (calls < 3) return absl::OkStatus();
                                return absl::CancelledError("enough");
                              }),
            absl::CancelledError("enough"));
  EXPECT_EQ(calls, 3);
}

TEST_F(ReadTest, ManyThreadsUseOneReader) {
  SavedCheckpoint saved = SmallIndex();
  const CheckpointReader reader = Open(saved);
  std::vector<int> good(4);
  std::vector<std::thread> threads;
  for (int& count : good) {
    threads.emplace_back([&reader, &saved, &count] {
      for (int i = 0; i < 200; ++i) {
        const StatusOr<Tensor> a = reader.ReadTensor("a");
        const StatusOr<std::string> b = reader.ReadText("b");
        if (a.ok() && BytesOf(*a) == ContentOf(saved.arrays[0]) && b.ok() &&
            *b == ContentOf(saved.arrays[1])) {
          ++count;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, std::vector<int>(4, 200));
}

TEST_F(ReadTest, AReaderOutlivesItsOriginal) {
  std::optional<CheckpointReader> copy;
  {
    const CheckpointReader reader = OpenSmall();
    copy = reader;
  }
  EXPECT_EQ(copy->ReadTensor("a").status(), absl::OkStatus());
}

// A file of no bytes on disk may say so.
TEST_F(ReadTest, ATextThatFitsNoMemoryIsAnError) {
  if (!testing::kCanRunOutOfMemory) GTEST_SKIP() << testing::kEndsWithoutMemory;
  constexpr int64_t kLong = int64_t{1} << 62;
  const SavedCheckpoint saved{.step = 1,
                              .arrays = {{"t", DType::kString, {}, kLong}},
                              .datasets = {{0, 0, WholeBox({kLong}), {}, 0}},
                              .files = {{"data_00000_of_00001.h5", 0, kLong}}};
  const std::string path = Path("index.h5");
  h5::Ok(
      FinishIndex(path, h5::Value(CreateIndex(path, saved)), 1, 0, {}, false));
  EXPECT_EQ(h5::Value(CheckpointReader::Open(dir_)).ReadText("t").status(),
            absl::ResourceExhaustedError(
                "read \"" + dir_ +
                "\": key \"t\": no memory for 4611686018427387904 bytes of "
                "text"));
}

// Keys may control a terminal.
TEST_F(ReadTest, ErrorsPrint) {
  SavedCheckpoint saved = ThreeBlocks();
  saved.arrays[0].key = "w\x1b[2J";
  const CheckpointReader reader = Open(saved);
  Flip(saved, 0, 7);
  EXPECT_THAT(MessageOf(reader.ReadTensor("w\x1b[2J").status()),
              HasSubstr("checksum of key \"w\\x1b[2J\", block 0"));
  EXPECT_THAT(MessageOf(reader.ReadTensor("v\x1b[2J").status()),
              HasSubstr("\"v\\x1b[2J\": key is not in the checkpoint (need one "
                        "of 1); close to it: \"w\\x1b[2J\""));
}

TEST_F(ReadTest, HelpersOfOneCall) {
  OpenSmall();
  const std::vector<ArrayInfo> variables = h5::Value(ListVariables(dir_));
  ASSERT_EQ(variables.size(), 5);
  EXPECT_EQ(variables[0].key, "a");
  EXPECT_EQ(variables[3].dtype, DType::kI64);
  EXPECT_EQ(variables[4].shape, Shape({2, 2}));
  EXPECT_EQ(BytesOf(h5::Value(LoadVariable(dir_, "a"))),
            ContentOf(SmallIndex().arrays[0]));
  EXPECT_EQ(LoadVariable(dir_, "b").status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(LoadVariable(dir_, "d/g").status(),
            h5::Value(CheckpointReader::Open(dir_)).ReadTensor("d/g").status());
  const std::string dots(100000, '.');
  EXPECT_EQ(LoadVariable(dir_, dots).status(),
            h5::Value(CheckpointReader::Open(dir_)).ReadTensor(dots).status());
  EXPECT_EQ(LoadVariable(dir_ + "/no", "b").status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(ListVariables(dir_ + "/no").status().code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace belay::checkpoint_reader_read_test
