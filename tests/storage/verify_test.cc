#include "storage/verify.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "directory_fixture.h"
#include "store_testing.h"

namespace belay::verify_test {
namespace {

using Registers = std::vector<uint32_t>;
using Covered = std::vector<int64_t>;

TEST(FinishChecksumsTest, ChecksumsArePlainCrc32c) {
  const std::vector<StoredArray> arrays = {
      {"a", DType::kF32, {700, 1100}},  // two blocks and a part
      {"b", DType::kString, {}, 13},
      {"c", DType::kU8, {0, 4}},
      {"d", DType::kU8, {kBlockBytes}},  // exactly one block
      {"e", DType::kI64, {}}};
  Registers registers, need;
  for (const StoredArray& array : arrays) {
    const std::string content = ContentOf(array);
    for (size_t at = 0; at < content.size(); at += kBlockBytes) {
      const std::string block = content.substr(at, kBlockBytes);
      registers.push_back(CrcRegisterPortable(0, block.data(), block.size()));
      need.push_back(PlainCrc(block));
    }
  }
  ASSERT_EQ(need.size(), 6);
  EXPECT_EQ(FinishChecksums(arrays, registers), need);
  EXPECT_EQ(FinishChecksums({}, {}), Registers());
}

TEST(FinishChecksumsTest, TheCheckValueOfCrc32c) {
  const uint32_t raw = CrcRegisterPortable(0, "123456789", 9);
  EXPECT_EQ(FinishChecksums({{"k", DType::kString, {}, 9}}, {{raw}}),
            Registers({0xE3069283}));
}

class VerifyFileTest : public DirectoryTest {};

TEST_F(VerifyFileTest, AFileHasItsSize) {
  Put("data", std::string(9000, 'x'));
  bool has_holes = true;
  EXPECT_EQ(CheckWrittenFile(Path("data"), 9000, has_holes), absl::OkStatus());
  EXPECT_FALSE(has_holes);
  for (const int64_t need : {8999, 9001}) {
    EXPECT_EQ(CheckWrittenFile(Path("data"), need, has_holes),
              absl::DataLossError(
                  "verify \"" + Path("data") +
                  "\": the file changed its size while it was written (need " +
                  std::to_string(need) + " bytes, found 9000)"));
  }
}

TEST_F(VerifyFileTest, HolesAreSeen) {
  Put("data", "");
  std::filesystem::resize_file(Path("data"), 1 << 20);
  bool has_holes = false;
  EXPECT_EQ(CheckWrittenFile(Path("data"), 1 << 20, has_holes),
            absl::OkStatus());
  EXPECT_TRUE(has_holes);
}

TEST_F(VerifyFileTest, AMissingFileIsNotFound) {
  bool has_holes = false;
  EXPECT_EQ(CheckWrittenFile(Path("data"), 1, has_holes).code(),
            absl::StatusCode::kNotFound);
}

// Arrays "a" of 3 blocks, the last of 100 bytes; "b" of 1 block; "c" of 2,
// the last of 8 bytes. Each is one dataset but for "c", which is in two files.
SavedCheckpoint ThreeArrays() {
  const int64_t a = 2 * kBlockBytes + 100, c = kBlockBytes / 8 + 1;
  const auto piece = [](int32_t array, int32_t file, Box box) {
    return StoredDataset{array, file, std::move(box), {}, 0};
  };
  SavedCheckpoint saved{
      .arrays = {{"a", DType::kU8, {a}},
                 {"b", DType::kString, {}, 5},
                 {"c", DType::kF64, {c}}},
      .datasets = {piece(0, 0, WholeBox({a})), piece(1, 1, WholeBox({5})),
                   piece(2, 0, {{0}, {c - 1}}), piece(2, 1, {{c - 1}, {1}})},
      .files = {{"data_0.h5"}, {"data_1.h5"}}};
  for (uint32_t i = 0; i < 6; ++i) {
    const int64_t bytes[] = {kBlockBytes, kBlockBytes, 100, 5, kBlockBytes, 8};
    saved.checksums.push_back(StandardCrc(i + 1, bytes[i]));
  }
  return saved;
}

// A restore of "c", then "a": registers of c at 0 and 1, those of a at 2 to 4.
class CompareTest : public ::testing::Test {
 protected:
  Status Compare() {
    return CompareChecksums(saved_, plan_, "restore \"run/step_00000001\"",
                            registers_, covered_, counts_);
  }

  SavedCheckpoint saved_ = ThreeArrays();
  RestorePlan plan_{.arrays = {2, 0}, .first_blocks = {0, 2}, .num_blocks = 5};
  Registers registers_ = {5, 6, 1, 2, 3};
  Covered covered_ = {kBlockBytes, 8, kBlockBytes, kBlockBytes, 100};
  BlockCounts counts_;
};

TEST_F(CompareTest, AllBlocksMatch) {
  EXPECT_EQ(Compare(), absl::OkStatus());
  EXPECT_EQ(counts_.verified, 5);
  EXPECT_EQ(counts_.partial, 0);
}

TEST_F(CompareTest, PartialAndUnreadBlocksAreNotCompared) {
  registers_ = {99, 6, 99, 2, 99};
  covered_ = {kBlockBytes - 8, 8, 1, kBlockBytes, 0};
  EXPECT_EQ(Compare(), absl::OkStatus());
  EXPECT_EQ(counts_.verified, 2);
  EXPECT_EQ(counts_.partial, 2);
}

TEST_F(CompareTest, ADamagedBlockIsNamed) {
  registers_[3] = 77;
  const Status status = Compare();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(status.message(),
            "restore \"run/step_00000001\": " +
                DescribeDamage(saved_, 0, 1, StandardCrc(2, kBlockBytes),
                               StandardCrc(77, kBlockBytes)) +
                "; 1 damaged block in all");
  EXPECT_EQ(counts_.verified, 5);
}

TEST_F(CompareTest, TheFirstOfSeveralIsNamed) {
  registers_ = {5, 0, 0, 2, 0};
  const Status status = Compare();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(
      status.message(),
      "restore \"run/step_00000001\": " +
          DescribeDamage(saved_, 2, 1, StandardCrc(6, 8), StandardCrc(0, 8)) +
          "; 3 damaged blocks in all");
}

TEST(DescribeDamageTest, NumbersAreHexadecimal) {
  EXPECT_EQ(DescribeDamage(ThreeArrays(), 0, 2, 0xabc, 0xffffffff),
            "checksum of key \"a\", block 2 (box \"2097152,100\") in file "
            "\"data_0.h5\" does not match (need 0x00000abc, found "
            "0xffffffff)");
}

TEST(DescribeDamageTest, ATextIsAnArrayOfBytes) {
  EXPECT_EQ(DescribeDamage(ThreeArrays(), 1, 0, 1, 2),
            "checksum of key \"b\", block 0 (box \"0,5\") in file "
            "\"data_1.h5\" does not match (need 0x00000001, found "
            "0x00000002)");
}

TEST(DescribeDamageTest, OnlyFilesThatHoldTheBlockAreNamed) {
  EXPECT_EQ(DescribeDamage(ThreeArrays(), 2, 0, 1, 2),
            "checksum of key \"c\", block 0 (box \"0,131072\") in file "
            "\"data_0.h5\" does not match (need 0x00000001, found "
            "0x00000002)");
  EXPECT_EQ(DescribeDamage(ThreeArrays(), 2, 1, 1, 2),
            "checksum of key \"c\", block 1 (box \"131072,1\") in file "
            "\"data_1.h5\" does not match (need 0x00000001, found "
            "0x00000002)");
}

// What is named for a block of an array that is cut into two column halves.
std::string Named(DType dtype, const Shape& shape, int64_t block) {
  Box left = WholeBox(shape), right = WholeBox(shape);
  left.shape.back() /= 2;
  right.offset.back() = left.shape.back();
  right.shape.back() -= left.shape.back();
  const SavedCheckpoint saved{
      .arrays = {{"k", dtype, shape}},
      .datasets = {{0, 0, left, {}, 0}, {0, 1, right, {}, 0}},
      .files = {{"l"}, {"r"}}};
  const std::string text = DescribeDamage(saved, 0, block, 1, 2);
  const size_t begin = text.find("(box "), end = text.find(" does");
  return text.substr(begin, end - begin);
}

TEST(DescribeDamageTest, BoxesOfMatrices) {
  // 262144 elements a block: 262 rows of 1000, and 144 elements.
  EXPECT_EQ(Named(DType::kF32, {1000, 1000}, 0),
            "(box \"0,263:0,1000\") in file \"l\", \"r\"");
  EXPECT_EQ(Named(DType::kF32, {1000, 1000}, 3),
            "(box \"786,214:0,1000\") in file \"l\", \"r\"");
  // Blocks within one long row.
  EXPECT_EQ(Named(DType::kF32, {2, 1 << 20}, 1),
            "(box \"0,1:262144,262144\") in file \"l\"");
  EXPECT_EQ(Named(DType::kF32, {2, 1 << 20}, 6),
            "(box \"1,1:524288,262144\") in file \"r\"");
}

TEST(DescribeDamageTest, BoxesOfThreeAxes) {
  // A plane has 65536 elements of 8 bytes: two planes a block.
  EXPECT_EQ(Named(DType::kF64, {5, 256, 256}, 1),
            "(box \"2,2:0,256:0,256\") in file \"l\", \"r\"");
  EXPECT_EQ(Named(DType::kF64, {5, 256, 256}, 2),
            "(box \"4,1:0,256:0,256\") in file \"l\", \"r\"");
  // Blocks of half a plane.
  EXPECT_EQ(Named(DType::kC128, {2, 512, 256}, 3),
            "(box \"1,1:256,256:0,256\") in file \"l\", \"r\"");
}

}  // namespace
}  // namespace belay::verify_test
