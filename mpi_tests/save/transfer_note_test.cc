// What a save is asked for and does otherwise: its result says so.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "belay/async_saver.h"
#include "values.h"

namespace belay::transfer_note_test {
namespace {

using ::testing::HasSubstr;
using testing::Ok;

constexpr int64_t kLength = 24;

class TransferNoteTest : public testing::CheckpointTest {
 protected:
  std::vector<double> whole_ = std::vector<double>(kLength, 1);
};

TEST_F(TransferNoteTest, TransfersOfFilesOfOneRank) {
  State state;
  state.AddReplicated("w", {kLength}, whole_);
  int64_t step = 1;
  const std::string note =
      "positional writes, as each rank writes a file of its own: there is "
      "nothing to write together";
  AsyncSaver saver(comm_);
  for (const auto& [asked, need] : {std::pair(Transfer::kCollective, note),
                                    {Transfer::kTwoPhase, note},
                                    {Transfer::kIndependent, std::string()},
                                    {Transfer::kAuto, std::string()}}) {
    const SaveOptions options{.file_layout = FileLayout::kPerTask,
                              .transfer = asked};
    const SaveResult saved = Ok(Save(comm_, run(), ++step, state, options));
    EXPECT_EQ(saved.transfer, Transfer::kIndependent);
    EXPECT_EQ(saved.transfer_note, need);
    const PendingSave pending = Ok(saver.Save(run(), ++step, state, options));
    EXPECT_FALSE(pending.saved.has_value());
    const std::optional<SaveResult> ended = Ok(saver.Wait());
    ASSERT_TRUE(ended.has_value());
    EXPECT_EQ(ended->transfer, Transfer::kIndependent);
    EXPECT_EQ(ended->transfer_note, need);
  }
  EXPECT_TRUE(saver.Close().ok());
}

TEST_F(TransferNoteTest, CanonicalArraysInFilesOfSomeRanks) {
  State state;
  state.AddReplicated("w", {kLength}, whole_);
  int64_t step = 1;
  for (const FileLayout layout :
       {FileLayout::kShared, FileLayout::kPerNode, FileLayout::kPerTask}) {
    for (const bool one_group : {true, false}) {
      const SaveResult saved =
          Ok(Save(comm_, run(), ++step, state,
                  {.file_layout = layout,
                   .array_layout = ArrayLayout::kCanonical,
                   .sharding_policy =
                       one_group ? ShardByTask() : MaxShardSize(1 << 20)}));
      const bool holds = layout == FileLayout::kShared && one_group;
      ASSERT_EQ(saved.warnings.size(), holds ? 0u : 1u);
      if (!holds) {
        EXPECT_THAT(saved.warnings[0],
                    HasSubstr("these files depend on what each rank holds"));
      }
    }
  }
}

TEST_F(TransferNoteTest, ChunksWithFilters) {
  State state;
  state.AddReplicated("w", {kLength}, whole_);
  SaveOptions options{.args = {{"w", {.filters = Deflate()}}}};
  SaveResult saved = Ok(Save(comm_, run(), 1, state, options));
  EXPECT_EQ(saved.transfer_note,
            "chunks with filters by collective HDF5 writes");
  options.transfer = Transfer::kHdf5;
  saved = Ok(Save(comm_, run(), 2, state, options));
  EXPECT_EQ(saved.transfer_note, "");
}

}  // namespace
}  // namespace belay::transfer_note_test
