#include "store/reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "base/checksum.h"
#include "base/host_name.h"
#include "base/huge_pages.h"
#include "directory_fixture.h"
#include "store/slow_target.h"
#include "store_testing.h"

namespace belay::reader_test {
namespace {

// An array u8 [4, 6] whose bytes are letters, in rows in "a" and columns in
// "b"; and a restore of it into one shard, filled with dots.
class ReaderTest : public DirectoryTest {
 protected:
  ReaderTest() {
    Put("a", "head" + letters_.substr(0, 12));  // rows 0 and 1
    Put("b", letters_.substr(12) + "tail");     // rows 2 and 3
  }

  static ReadOrder Order(int32_t file, Box box, Extent extent,
                         int64_t first_block = 0) {
    return {.file = file,
            .first_block = first_block,
            .box = std::move(box),
            .extent = std::move(extent)};
  }

  Status Read(const std::vector<ReadOrder>& orders, bool sums = true) {
    const std::vector<Shard> shards = {{.key = "w",
                                        .dtype = DType::kU8,
                                        .global_shape = {4, 6},
                                        .box = box_,
                                        .data = memory_.data()}};
    registers_.assign(sums ? 2 : 0, 0);
    covered_.assign(sums ? 2 : 0, 0);
    counts_ = {};
    const RankReads reads{.orders = orders};
    return ReadAll({.shards = shards,
                    .reads = reads,
                    .directory = dir_,
                    .file_names = names_,
                    .registers = registers_,
                    .covered = covered_},
                   counts_);
  }

  const std::string letters_ = "ABCDEFGHIJKLMNOPQRSTUVWX";
  const std::vector<std::string> names_ = {"a", "b"};
  const Extent top_{{{0, 0}, {2, 6}}, 4};
  const Extent bottom_{{{2, 0}, {2, 6}}, 0};
  Box box_ = WholeBox({4, 6});
  std::string memory_ = std::string(24, '.');
  std::vector<uint32_t> registers_;
  std::vector<int64_t> covered_;
  ReadCounts counts_;
};

TEST_F(ReaderTest, AWholeArrayFromTwoFiles) {
  EXPECT_EQ(Read({Order(0, top_.box, top_), Order(1, bottom_.box, bottom_)}),
            absl::OkStatus());
  EXPECT_EQ(memory_, letters_);
  EXPECT_EQ(counts_.bytes, 24);
  EXPECT_EQ(counts_.files, 2);
  EXPECT_EQ(counts_.io_calls, 2);
  EXPECT_EQ(covered_, std::vector<int64_t>({24, 0}));
  EXPECT_EQ(StandardCrc(registers_[0], 24), PlainCrc(letters_));
  EXPECT_EQ(registers_[1], 0);
}

TEST_F(ReaderTest, AColumnTouchesNothingElse) {
  EXPECT_EQ(Read({Order(0, {{0, 1}, {2, 2}}, top_, 1)}), absl::OkStatus());
  EXPECT_EQ(memory_, ".BC....HI...............");
  EXPECT_EQ(counts_.bytes, 4);
  EXPECT_EQ(counts_.files, 1);
  EXPECT_EQ(covered_, std::vector<int64_t>({0, 4}));
}

TEST_F(ReaderTest, AShardThatIsAPiece) {
  box_ = {{1, 4}, {2, 2}};
  EXPECT_EQ(Read({Order(0, {{1, 4}, {1, 2}}, top_),
                  Order(1, {{2, 4}, {1, 2}}, bottom_)}),
            absl::OkStatus());
  EXPECT_EQ(memory_.substr(0, 5), "KLQR.");
}

// As malloc gives it: a little further in its page than the file's bytes.
TEST_F(ReaderTest, WhatIsSlowToReadInPlaceIsStaged) {
  constexpr int64_t kRows = 1200, kColumns = 1000;
  constexpr int64_t kTileBytes = (int64_t{512} << 10) / kColumns * kColumns;
  std::string content(kPageBytes + kRows * kColumns, '-');
  for (int64_t i = 0; i < kRows * kColumns; ++i) {
    content[kPageBytes + i] = static_cast<char>('a' + i % 23);
  }
  Put("a", content);
  const Box box = WholeBox({kRows, kColumns});
  const RankReads reads{.orders = {Order(0, box, {box, kPageBytes})}};
  for (const int64_t ahead : {0, 16}) {
    std::string memory(2 * kPageBytes + kRows * kColumns, '.');
    const auto address = reinterpret_cast<uintptr_t>(memory.data());
    const int64_t begin =
        kPageBytes - static_cast<int64_t>(address % kPageBytes) + ahead;
    const std::vector<Shard> shards = {{.key = "w",
                                        .dtype = DType::kU8,
                                        .global_shape = box.shape,
                                        .box = box,
                                        .data = memory.data() + begin}};
    std::vector<uint32_t> registers(NumBlocks(kRows * kColumns));
    std::vector<int64_t> covered(registers.size());
    ReadCounts counts;
    ASSERT_EQ(ReadAll({.shards = shards,
                       .reads = reads,
                       .directory = dir_,
                       .file_names = names_,
                       .registers = registers,
                       .covered = covered},
                      counts),
              absl::OkStatus());
    const std::string need = content.substr(kPageBytes);
    EXPECT_TRUE(memory.substr(begin, need.size()) == need);
    EXPECT_EQ(std::count(memory.begin(), memory.end(), '.'), 2 * kPageBytes);
    EXPECT_EQ(StandardCrc(registers[0], kBlockBytes),
              PlainCrc(need.substr(0, kBlockBytes)));
    EXPECT_EQ(counts.staged_bytes,
              ahead == 16 && HasSlowTargets() ? kTileBytes : 0);
  }
}

TEST_F(ReaderTest, OrdersThatAreCountedElsewhereAreNotSummed) {
  EXPECT_EQ(Read({Order(0, top_.box, top_, -1)}), absl::OkStatus());
  EXPECT_EQ(memory_, "ABCDEFGHIJKL............");
  EXPECT_EQ(covered_, std::vector<int64_t>({0, 0}));
  EXPECT_EQ(registers_, std::vector<uint32_t>({0, 0}));
}

TEST_F(ReaderTest, WithoutChecksumsNothingIsSummed) {
  EXPECT_EQ(Read({Order(1, bottom_.box, bottom_)}, false), absl::OkStatus());
  EXPECT_EQ(memory_, "............MNOPQRSTUVWX");
}

TEST_F(ReaderTest, NoOrdersOpenNothing) {
  EXPECT_EQ(Read({}), absl::OkStatus());
  EXPECT_EQ(counts_.files, 0);
}

TEST_F(ReaderTest, AMissingFileIsDataLoss) {
  std::filesystem::remove(Path("b"));
  Put("index.h5", "");
  EXPECT_EQ(Read({Order(1, bottom_.box, bottom_)}),
            absl::DataLossError("open \"" + Path("b") +
                                "\": no such file or directory"));
}

TEST_F(ReaderTest, AHostThatSeesNothingIsNamed) {
  std::filesystem::remove(Path("b"));
  EXPECT_EQ(Read({Order(1, bottom_.box, bottom_)}),
            absl::FailedPreconditionError(
                "read \"" + dir_ + "\": host \"" + HostName() +
                "\" does not see what rank 0 has opened; all ranks need the "
                "same path on a shared file system"));
}

TEST_F(ReaderTest, AShortFileIsDataLoss) {
  std::filesystem::resize_file(Path("b"), 11);
  EXPECT_EQ(Read({Order(1, bottom_.box, bottom_)}),
            absl::DataLossError("read \"" + Path("b") +
                                "\": file is too short (need 12 bytes, found "
                                "11)"));
}

TEST_F(ReaderTest, TextsAreReadIntoTheirString) {
  std::string text(5, '.');
  const std::vector<Shard> shards = {
      {.key = "t", .dtype = DType::kString, .text = &text}};
  const RankReads reads{.orders = {Order(0, WholeBox({5}), {WholeBox({5}), 4})},
                        .texts = {{0, 5}}};
  std::vector<uint32_t> registers(1);
  std::vector<int64_t> covered(1);
  EXPECT_EQ(ReadAll({.shards = shards,
                     .reads = reads,
                     .directory = dir_,
                     .file_names = names_,
                     .registers = registers,
                     .covered = covered},
                    counts_),
            absl::OkStatus());
  EXPECT_EQ(text, "ABCDE");
  EXPECT_EQ(StandardCrc(registers[0], 5), PlainCrc("ABCDE"));
  EXPECT_EQ(covered[0], 5);
}

TEST_F(ReaderTest, ALargeTextIsStagedLikewise) {
  constexpr int64_t kBytes = 600'000;
  std::string text(kBytes, '.');
  const auto address = reinterpret_cast<uintptr_t>(text.data());
  const auto begin =
      static_cast<int64_t>(kPageBytes + address % kPageBytes - 16);
  std::string content(begin + kBytes, '-');
  for (int64_t i = begin; i < std::ssize(content); ++i) {
    content[i] = static_cast<char>('a' + i % 23);
  }
  Put("a", content);
  const std::vector<Shard> shards = {
      {.key = "t", .dtype = DType::kString, .text = &text}};
  const Box box = WholeBox({kBytes});
  const RankReads reads{.orders = {Order(0, box, {box, begin})},
                        .texts = {{0, kBytes}}};
  std::vector<uint32_t> registers(NumBlocks(kBytes));
  std::vector<int64_t> covered(registers.size());
  ASSERT_EQ(ReadAll({.shards = shards,
                     .reads = reads,
                     .directory = dir_,
                     .file_names = names_,
                     .registers = registers,
                     .covered = covered},
                    counts_),
            absl::OkStatus());
  EXPECT_TRUE(text == content.substr(begin));
  EXPECT_EQ(StandardCrc(registers[0], std::min(kBytes, kBlockBytes)),
            PlainCrc(text.substr(0, kBlockBytes)));
  EXPECT_EQ(covered[0], std::min(kBytes, kBlockBytes));
  EXPECT_EQ(counts_.staged_bytes, HasSlowTargets() ? int64_t{512} << 10 : 0);
}

TEST_F(ReaderTest, LargeReadsCountEveryBlock) {
  const int64_t bytes = 2 * kBlockBytes + 5;
  std::string content(bytes, '\0');
  Random random(1);
  for (char& byte : content) byte = static_cast<char>(random());
  Put("a", content);
  std::string memory(bytes, '.');
  const std::vector<Shard> shards = {{.key = "w",
                                      .dtype = DType::kU8,
                                      .global_shape = {bytes},
                                      .box = WholeBox({bytes}),
                                      .data = memory.data()}};
  const RankReads reads{
      .orders = {Order(0, {{7}, {bytes - 7}}, {WholeBox({bytes}), 0})}};
  std::vector<uint32_t> registers(3);
  std::vector<int64_t> covered(3);
  EXPECT_EQ(ReadAll({.shards = shards,
                     .reads = reads,
                     .directory = dir_,
                     .file_names = names_,
                     .registers = registers,
                     .covered = covered},
                    counts_),
            absl::OkStatus());
  EXPECT_TRUE(memory.substr(7) == content.substr(7));
  EXPECT_EQ(covered, std::vector<int64_t>({kBlockBytes - 7, kBlockBytes, 5}));
  EXPECT_EQ(
      StandardCrc(registers[1], kBlockBytes),
      PlainCrc(std::string_view(content).substr(kBlockBytes, kBlockBytes)));
}

}  // namespace
}  // namespace belay::reader_test
