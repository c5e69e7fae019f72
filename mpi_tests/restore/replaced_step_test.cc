// A step that another save replaces, or somebody deletes, while it is read: an
// error, and never values of another array.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "belay/checkpoint_reader.h"
#include "values.h"

namespace belay::replaced_step_test {
namespace {

using ::testing::HasSubstr;

class ReplacedStepTest : public testing::CheckpointTest {
 protected:
  ReplacedStepTest() { SaveFirst(); }
  ~ReplacedStepTest() override {
    EXPECT_EQ(other_comm_.Close(), absl::OkStatus());
  }

  void SaveFirst() {
    const std::vector<double> a(4000, 1), b(2000, 2);
    State state;
    state.Add("a", a);
    state.Add("b", b);
    EXPECT_TRUE(Save(comm_, run(), 1, state, options_).ok());
  }

  // The same step, in which other arrays lie where "b" was.
  Status Replace() {
    const std::vector<double> a(3000, 111), c(6000, 222);
    State state;
    state.Add("a", a);
    state.Add("c", c);
    return Save(other_comm_, run(), 1, state, options_).status();
  }

  Status Delete() {
    if (rank_ == 0) std::filesystem::remove_all(StepFile(1, ""));
    MPI_Barrier(MPI_COMM_WORLD);
    return absl::OkStatus();
  }

  // Restores a part of "b", and does this between the index and the values.
  Status RestoreWhile(const std::function<Status()>& meanwhile) {
    std::vector<double> part(10, -1);
    State state;
    state.AddPiece("b", {2000}, Box{{5}, {10}}, AtAddress(part.data()));
    return Restore(comm_, run(), 1, state,
                   {.on_open = [&](const StoredStep&) { return meanwhile(); }})
        .status();
  }

  SaveOptions options_{.overwrite = true, .durable = false};
  Comm other_comm_ = *Comm::Duplicate(MPI_COMM_WORLD);
};

TEST_F(ReplacedStepTest, ARestoreFails) {
  for (const bool checksums : {true, false}) {
    for (const FileLayout layout :
         {FileLayout::kShared, FileLayout::kPerTask}) {
      options_.checksums = checksums;
      options_.file_layout = layout;
      SaveFirst();
      ExpectRefused(RestoreWhile([&] { return Replace(); }),
                    absl::StatusCode::kFailedPrecondition,
                    "the step was replaced by another save while it was read");
    }
  }
}

TEST_F(ReplacedStepTest, ARestoreOfADeletedStepFails) {
  ExpectRefused(RestoreWhile([&] { return Delete(); }),
                absl::StatusCode::kFailedPrecondition,
                "the step was deleted while it was read");
}

TEST_F(ReplacedStepTest, AnOpenReaderFails) {
  for (const bool checksums : {true, false}) {
    options_.checksums = checksums;
    SaveFirst();
    const auto reader = CheckpointReader::Open(StepFile(1, ""));
    ASSERT_TRUE(reader.ok()) << reader.status();
    EXPECT_TRUE(reader->ReadTensor("b", Box{{5}, {10}}).ok());
    MPI_Barrier(MPI_COMM_WORLD);
    ASSERT_EQ(Replace(), absl::OkStatus());
    const auto part = reader->ReadTensor("b", Box{{5}, {10}});
    EXPECT_EQ(part.status().code(), absl::StatusCode::kFailedPrecondition)
        << part.status();
    EXPECT_THAT(part.status().ToString(), HasSubstr("replaced"));
    int visited = 0;
    const Status pieces = reader->ReadPieces("b", Box{{0}, {2000}}, 800,
                                             [&](const Box&, const Tensor&) {
                                               ++visited;
                                               return absl::OkStatus();
                                             });
    EXPECT_EQ(pieces.code(), absl::StatusCode::kFailedPrecondition) << pieces;
    EXPECT_EQ(visited, 0);
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

}  // namespace
}  // namespace belay::replaced_step_test
