#include "storage/reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/checksum.h"
#include "core/process.h"
#include "directory_fixture.h"
#include "storage/file_system.h"
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
    return ReadShards(shards, {.orders = orders}, sums ? 2 : 0);
  }

  // With registers for so many blocks; 0: nothing is summed.
  Status ReadShards(const std::vector<Shard>& shards, const RankReads& reads,
                    size_t blocks, bool stages = HasSlowTargets()) {
    registers_.assign(blocks, 0);
    covered_.assign(blocks, 0);
    counts_ = {};
    return ReadAll({.shards = shards,
                    .reads = reads,
                    .directory = dir_,
                    .file_names = names_,
                    .registers = registers_,
                    .covered = covered_,
                    .stages_slow_targets = stages},
                   counts_);
  }

  // Reads one order of "a" into one shard, and expects that all of it counts.
  void ReadOne(const ReadOrder& order, const Shard& shard, bool stages) {
    ASSERT_EQ(ReadShards({shard}, {.orders = {order}}, 1, stages),
              absl::OkStatus());
    EXPECT_EQ(counts_.bytes, NumElements(order.box.shape));
    EXPECT_EQ(covered_[0], counts_.bytes);
    const ShardMemory memory = GetMemory(shard);
    if (NumElements(memory.array) != counts_.bytes) return;
    EXPECT_EQ(StandardCrc(registers_[0], counts_.bytes),
              PlainCrc(std::string_view(memory.data, counts_.bytes)));
  }

  // The second page of the memory, and `place` bytes more.
  static char* AtPlace(std::string& memory, int64_t place) {
    const auto address = reinterpret_cast<uintptr_t>(memory.data());
    return memory.data() + kPlaces - address % kPlaces + kPlaces + place;
  }

  // The bytes of a part of rows of so many columns.
  static std::string Cut(std::string_view rows, int64_t columns,
                         const Box& part) {
    std::string all;
    for (int64_t row = 0; row < part.shape[0]; ++row) {
      all += rows.substr((part.offset[0] + row) * columns + part.offset[1],
                         part.shape[1]);
    }
    return all;
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

// Many small orders of two files, whose places in the files are so far apart,
// in memory that has as many dots between them.
TEST_F(ReaderTest, SmallOrdersAreReadTogether) {
  constexpr int64_t kOrders = 700, kBytes = 100, kDots = 3;
  for (const int64_t apart : {0, 1, 4096, 4097}) {
    SCOPED_TRACE(apart);
    const int64_t stride = kBytes + apart;
    std::string content(kOrders * stride, '-');
    for (size_t i = 0; i < content.size(); ++i) {
      content[i] = static_cast<char>('a' + i % 23);
    }
    Put("a", content);
    Put("b", content);
    std::string memory(2 * kOrders * (kBytes + kDots), '.'), need;
    std::vector<Shard> shards;
    RankReads reads;
    for (int64_t i = 0; i < 2 * kOrders; ++i) {
      shards.push_back({.key = absl::StrCat("w", i),
                        .dtype = DType::kU8,
                        .global_shape = {kBytes},
                        .box = WholeBox({kBytes}),
                        .data = memory.data() + i * (kBytes + kDots)});
      const int64_t offset = i % kOrders * stride;
      reads.orders.push_back(Order(i < kOrders ? 0 : 1, WholeBox({kBytes}),
                                   {WholeBox({kBytes}), offset}, i));
      reads.orders.back().shard = static_cast<int32_t>(i);
      need += content.substr(offset, kBytes) + std::string(kDots, '.');
    }
    ASSERT_EQ(ReadShards(shards, reads, 2 * kOrders), absl::OkStatus());
    EXPECT_TRUE(memory == need);
    EXPECT_EQ(covered_, std::vector<int64_t>(2 * kOrders, kBytes));
    for (int64_t i = 0; i < 2 * kOrders; ++i) {
      ASSERT_EQ(StandardCrc(registers_[i], kBytes),
                PlainCrc(std::string_view(need).substr(i * (kBytes + kDots),
                                                       kBytes)));
    }
    EXPECT_EQ(counts_.bytes, 2 * kOrders * kBytes);
    EXPECT_EQ(counts_.files, 2);
    // A call takes at most 512 orders, and a gap of a page.
    EXPECT_EQ(counts_.io_calls, apart > 4096 ? 2 * kOrders : 4);
  }
}

// As of values that a program wants none of, or one of two that are tied.
TEST_F(ReaderTest, ShardsMayShareTheirMemory) {
  for (const int64_t ahead : {0, 3, 6}) {
    std::string memory(12, '.');
    std::vector<Shard> shards;
    RankReads reads;
    for (const int64_t place : {int64_t{0}, ahead, int64_t{0}}) {
      shards.push_back({.key = absl::StrCat("w", shards.size()),
                        .dtype = DType::kU8,
                        .global_shape = {6},
                        .box = WholeBox({6}),
                        .data = memory.data() + place});
      const auto number = static_cast<int32_t>(reads.orders.size());
      reads.orders.push_back(
          Order(0, WholeBox({6}), {WholeBox({6}), 4 + 2 * number}, number));
      reads.orders.back().shard = number;
    }
    ASSERT_EQ(ReadShards(shards, reads, 3), absl::OkStatus());
    std::string need(12, '.');
    for (const int64_t i : {0, 1, 2}) {
      const std::string part = letters_.substr(2 * i, 6);
      EXPECT_EQ(StandardCrc(registers_[i], 6), PlainCrc(part)) << ahead;
      need.replace(i == 1 ? ahead : 0, 6, part);
    }
    EXPECT_EQ(memory, need);
  }
}

TEST_F(ReaderTest, AFileThatEndsAmongSmallOrdersIsDataLoss) {
  EXPECT_EQ(Read({Order(0, {{0, 0}, {1, 2}}, top_),
                  Order(0, {{0, 4}, {2, 2}}, {{{0, 0}, {2, 6}}, 8})}),
            absl::DataLossError("read \"" + Path("a") +
                                "\": the file is truncated (need 20 bytes, "
                                "found 16)"));
}

TEST_F(ReaderTest, WhatIsSlowToReadInPlaceIsStaged) {
  constexpr int64_t kRows = 100, kColumns = 10'000;
  constexpr int64_t kMaxTileBytes = int64_t{512} << 10;
  const Box box = WholeBox({kRows, kColumns});
  const Box columns = {{0, 1000}, {kRows, 6000}};
  for (const int64_t place : {0, 1, 100, 4090}) {
    std::string content(kPlaces + place + kRows * kColumns, '-');
    const std::string_view need(content.data() + kPlaces + place);
    for (size_t i = kPlaces + place; i < content.size(); ++i) {
      content[i] = static_cast<char>('a' + i % 23);
    }
    Put("a", content);
    for (const int64_t ahead : {-1, 0, 16, 32}) {
      for (const bool stages : {true, false}) {
        for (const Box& part : {box, columns}) {
          SCOPED_TRACE(absl::StrCat(place, ", ", ahead, ", ", stages, ", ",
                                    BoxText(part)));
          std::string memory(4 * kPlaces + kRows * kColumns, '.');
          char* const data =
              AtPlace(memory, place + ahead + (part == columns ? 1000 : 0));
          ReadOne(
              {.first_block = 0, .box = part, .extent = {box, kPlaces + place}},
              {.key = "w",
               .dtype = DType::kU8,
               .global_shape = box.shape,
               .box = part,
               .data = data},
              stages);
          EXPECT_TRUE(std::string_view(data, NumElements(part.shape)) ==
                      Cut(need, kColumns, part));
          EXPECT_EQ(std::count(memory.begin(), memory.end(), '.'),
                    std::ssize(memory) - NumElements(part.shape));
          const int64_t row = part.shape[1];
          EXPECT_EQ(counts_.staged_bytes,
                    stages && ahead == 16 ? kMaxTileBytes / row * row : 0);
        }
      }
    }
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
  EXPECT_EQ(
      Read({Order(1, bottom_.box, bottom_)}),
      absl::DataLossError("read \"" + Path("b") +
                          "\": the file is truncated (need 12 bytes, found "
                          "11)"));
}

TEST_F(ReaderTest, TextsAreReadIntoTheirString) {
  std::string text(5, '.');
  const std::vector<Shard> shards = {
      {.key = "t", .dtype = DType::kString, .text = &text}};
  const RankReads reads{.orders = {Order(0, WholeBox({5}), {WholeBox({5}), 4})},
                        .texts = {{0, 5}}};
  EXPECT_EQ(ReadShards(shards, reads, 1), absl::OkStatus());
  EXPECT_EQ(text, "ABCDE");
  EXPECT_EQ(StandardCrc(registers_[0], 5), PlainCrc("ABCDE"));
  EXPECT_EQ(covered_[0], 5);
}

TEST_F(ReaderTest, ALargeTextIsStagedLikewise) {
  constexpr int64_t kBytes = 600'000;
  std::string text(kBytes, '.');
  const auto address = reinterpret_cast<uintptr_t>(text.data());
  const auto begin = static_cast<int64_t>(kPlaces + address % kPlaces - 16);
  std::string content(begin + kBytes, '-');
  for (int64_t i = begin; i < std::ssize(content); ++i) {
    content[i] = static_cast<char>('a' + i % 23);
  }
  Put("a", content);
  const Box box = WholeBox({kBytes});
  ReadOne({.first_block = 0, .box = box, .extent = {box, begin}},
          {.key = "t", .dtype = DType::kString, .text = &text}, true);
  EXPECT_TRUE(text == content.substr(begin));
  EXPECT_EQ(counts_.staged_bytes, int64_t{512} << 10);
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
  EXPECT_EQ(ReadShards(shards, reads, 3), absl::OkStatus());
  EXPECT_TRUE(memory.substr(7) == content.substr(7));
  EXPECT_EQ(covered_, std::vector<int64_t>({kBlockBytes - 7, kBlockBytes, 5}));
  EXPECT_EQ(
      StandardCrc(registers_[1], kBlockBytes),
      PlainCrc(std::string_view(content).substr(kBlockBytes, kBlockBytes)));
}

}  // namespace
}  // namespace belay::reader_test
