// Comparing arrays that take several pieces to read.

#include "difference.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "commands.h"
#include "directory_fixture.h"
#include "h5_testing.h"
#include "store_testing.h"

namespace belay::tools::difference_test {
namespace {

// Two checkpoints "a" and "b" of one array "w", u8 [3, 5 MiB + 1]: each row is
// a piece, and all but the first begin in the middle of a block.
class DifferenceTest : public DirectoryTest {
 protected:
  static constexpr int64_t kColumns = (int64_t{5} << 20) + 1;

  DifferenceTest() {
    Write("a", false);
    Write("b", false);
  }

  void Write(const std::string& name, bool has_checksums) {
    std::filesystem::remove_all(Path(name));
    std::filesystem::create_directory(Path(name));
    SavedCheckpoint saved{.step = 1,
                          .has_checksums = has_checksums,
                          .arrays = {{"w", DType::kU8, {3, kColumns}}},
                          .datasets = {{0, 0, WholeBox({3, kColumns})}},
                          .files = {{"data_00000_of_00001.h5"}}};
    WriteCheckpoint(Path(name), saved);
    offset_ = saved.datasets[0].offset;
  }

  // Adds to an element of "b".
  void Add(int64_t row, int64_t column, int change) const {
    const int64_t at = row * kColumns + column;
    const std::string content = ContentOf({"w", DType::kU8, {3, kColumns}});
    const char byte = static_cast<char>(content[at] + change);
    h5::PatchBytes(Path("b/data_00000_of_00001.h5"), offset_ + at, &byte, 1);
  }

  StatusOr<Difference> Compare(std::optional<double> tolerance) {
    const CheckpointReader a = h5::Value(CheckpointReader::Open(Path("a")));
    const CheckpointReader b = h5::Value(CheckpointReader::Open(Path("b")));
    bytes_.clear();
    return CompareArrays(a, b, h5::Value(a.Find("w")), tolerance,
                         [&](int64_t bytes) { bytes_.push_back(bytes); });
  }

  int64_t offset_ = 0;
  std::vector<int64_t> bytes_;
};

TEST_F(DifferenceTest, EveryPieceIsCompared) {
  EXPECT_EQ(h5::Value(Compare({})).elements, 0);
  EXPECT_EQ(bytes_, std::vector<int64_t>(3, kColumns));
  Add(1, 17, 3);
  Add(2, kColumns - 1, 200);
  Difference found = h5::Value(Compare({}));
  EXPECT_EQ(found.elements, 2);
  EXPECT_EQ(found.position, Shape({1, 17}));
  found = h5::Value(Compare(1));
  EXPECT_EQ(found.elements, 2);
  EXPECT_EQ(found.position, Shape({2, kColumns - 1}));
  EXPECT_EQ(
      std::abs(found.a.values<uint8_t>()[0] - found.b.values<uint8_t>()[0]),
      found.largest);
}

TEST_F(DifferenceTest, DamageIsNoDifference) {
  Write("b", true);
  EXPECT_EQ(h5::Value(Compare({})).elements, 0);
  Add(1, 17, 3);
  EXPECT_EQ(Compare({}).status().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace belay::tools::difference_test
