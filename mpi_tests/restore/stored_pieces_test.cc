// What the index says of the groups: in which file they are, and who wrote
// them.

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "belay/checkpoint_reader.h"
#include "policy_fixture.h"

namespace belay::stored_pieces_test {
namespace {

using testing::Made;
using testing::Pieces;
using testing::Values;

class StoredPiecesTest : public testing::PolicyTest {
 protected:
  // What the index says of the files; empty on other ranks than 0.
  std::vector<StoredPiece> PiecesOf(int64_t step) {
    if (rank_ != 0) return {};
    const auto info = ReadCheckpointInfo(StepFile(step, ""));
    EXPECT_TRUE(info.ok()) << info.status();
    return info.ok() ? info->pieces : std::vector<StoredPiece>();
  }
};

TEST_F(StoredPiecesTest, EveryTaskHasItsFile) {
  Values values;
  values.AddText(absl::StrCat("v", rank_), 7);
  options_.file_layout = FileLayout::kPerTask;
  MustSave(values, 1);
  for (const StoredPiece& piece : PiecesOf(1)) {
    EXPECT_EQ(piece.group, 0);
    EXPECT_EQ(piece.key, absl::StrCat("v", *piece.task));
  }
  EXPECT_EQ(PiecesOf(1).size(), static_cast<size_t>(rank_ == 0 ? size_ : 0));
}

// The limit is one for each group of each task, in every file layout.
TEST_F(StoredPiecesTest, GroupsStayBelowTheLimit) {
  constexpr int64_t kLimit = 700;
  options_.sharding_policy = MaxShardSize(kLimit);
  Values values = SomeValues();
  for (FileLayout layout :
       {FileLayout::kShared, FileLayout::kPerNode, FileLayout::kPerTask}) {
    options_.file_layout = layout;
    const auto step = static_cast<int64_t>(layout) + 1;
    const int64_t files = MustSave(values, step).counters.files;
    const std::map<std::string, int64_t> element_bytes = {
        {"rows", 4}, {"columns", 1}, {"copies", 8}, {"scalar", 8}, {"text", 1}};
    std::map<std::string, int64_t> bytes;
    std::map<std::string, std::set<std::pair<int64_t, int64_t>>> groups;
    for (const StoredPiece& piece : PiecesOf(step)) {
      bytes[piece.file] +=
          NumElements(piece.box.shape) * element_bytes.at(piece.key);
      groups[piece.file].insert({piece.group, piece.task.value_or(-1)});
    }
    if (rank_ == 0) {
      EXPECT_EQ(static_cast<int64_t>(bytes.size()), files);
    }
    for (const auto& [file, sum] : bytes) {
      const int64_t tasks = layout == FileLayout::kPerTask ? 1 : size_;
      EXPECT_LE(sum, kLimit * tasks) << file;
      if (layout != FileLayout::kPerTask) continue;
      EXPECT_EQ(groups[file].size(), 1u) << file;
    }
  }
}

// A shared file has one dataset for all rows of a group where they fill a box.
TEST_F(StoredPiecesTest, PiecesOfManyTasksShareADataset) {
  Values values;
  values.AddCut("columns", DType::kF64, {8, 4 * size_}, 1, rank_, size_);
  options_.sharding_policy = MaxShardSize(2 * 4 * 8);
  EXPECT_EQ(MustSave(values, 1).counters.files, 4);
  const std::vector<StoredPiece> pieces = PiecesOf(1);
  EXPECT_EQ(pieces.size(), rank_ == 0 ? 4u : 0u);
  for (size_t i = 0; i < pieces.size(); ++i) {
    const auto number = static_cast<int64_t>(i);
    EXPECT_EQ(pieces[i].box, (Box{{2 * number, 0}, {2, 4 * size_}}));
    EXPECT_EQ(pieces[i].group, number);
    EXPECT_EQ(pieces[i].task.has_value(), size_ == 1);
  }
  ExpectRestores(values, 1, 1);
}

// A user's policy by a lambda: keys under "model/" apart from all others.
TEST_F(StoredPiecesTest, AUsersPolicySortsKeys) {
  options_.sharding_policy = Made([](const Pieces& pieces) {
    std::vector<ShardGroup> groups(2);
    for (const ShardableTensor& piece : pieces) {
      groups[piece.key.starts_with("model/") ? 0 : 1].push_back(piece);
    }
    return groups;
  });
  Values values;
  values.AddCut("model/a", DType::kF32, {7 * size_}, 0, rank_, size_);
  values.AddCut("other", DType::kF32, {3 * size_}, 0, rank_, size_);
  values.AddCut("model/b", DType::kF32, {2 * size_, 3}, 0, rank_, size_);
  EXPECT_EQ(MustSave(values, 1).counters.files, 2);
  for (const StoredPiece& piece : PiecesOf(1)) {
    EXPECT_EQ(piece.group, piece.key == "other" ? 1 : 0);
    EXPECT_EQ(piece.file, piece.key == "other" ? "data_00001_of_00002.h5"
                                               : "data_00000_of_00002.h5");
  }
  ExpectRestores(values, 1, 1);
}

}  // namespace
}  // namespace belay::stored_pieces_test
