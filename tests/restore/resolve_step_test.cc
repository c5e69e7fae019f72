// Which step a path means.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "belay/checkpoint_reader.h"
#include "directory_fixture.h"
#include "h5_testing.h"
#include "store_testing.h"

namespace belay::resolve_step_test {
namespace {

using ::testing::HasSubstr;

class ResolveTest : public DirectoryTest {
 protected:
  // Makes a step by the name.
  void Make(const std::string& name) const {
    std::filesystem::create_directory(Path(name));
    SavedCheckpoint saved = SmallIndex();
    WriteCheckpoint(Path(name), saved);
  }
  std::string PathOf(const std::string& path) const {
    return h5::Value(CheckpointReader::Open(path)).info().path;
  }
};

TEST_F(ResolveTest, ARunIsItsNewestStep) {
  Make("step_00000009");
  Make("step_00000010");
  Make("step_00000011.inprogress");
  Make("best");
  EXPECT_EQ(PathOf(dir_), Path("step_00000010"));
  EXPECT_EQ(PathOf(dir_ + "/"), Path("step_00000010"));
  EXPECT_EQ(PathOf(Path("step_00000009/")), Path("step_00000009"));
  EXPECT_EQ(PathOf(Path("best")), Path("best"));
}

TEST_F(ResolveTest, StepsOfOtherNames) {
  Make("ckpt_00000009");
  Make("ckpt_00000010");
  EXPECT_EQ(PathOf(dir_), Path("ckpt_00000010"));
  Make("best_00000003");
  EXPECT_EQ(CheckpointReader::Open(dir_).status(),
            absl::NotFoundError(
                "open \"" + dir_ +
                "\": several series of steps, the first \"best\" and the last "
                "\"ckpt\"; name one of the steps"));
  Make("step_00000001");
  EXPECT_EQ(PathOf(dir_), Path("step_00000001"));
}

TEST_F(ResolveTest, WhatIsNotCommittedIsNotOpened) {
  Make("step_00000011.inprogress");
  EXPECT_EQ(CheckpointReader::Open(dir_).status(),
            absl::NotFoundError(
                "open \"" + dir_ +
                "\": no step is committed; \"step_00000011.inprogress\" is a "
                "save that is running or was killed"));
  for (const char* end : {"", "/"}) {
    EXPECT_EQ(
        CheckpointReader::Open(Path("step_00000011.inprogress") + end).status(),
        absl::NotFoundError(
            "open \"" + Path("step_00000011.inprogress") +
            "\": not committed; it is a save that is running or was killed"));
  }
}

TEST_F(ResolveTest, WhatIsNoCheckpoint) {
  const auto error = [&](const std::string& path) {
    const Status status = CheckpointReader::Open(path).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << path;
    return std::string(status.message());
  };
  EXPECT_EQ(error(dir_), "open \"" + dir_ +
                             "\": neither a committed step nor a directory of "
                             "steps");
  EXPECT_THAT(error(Path("none")), HasSubstr("no such file or directory"));
  EXPECT_NE(error(""), "");
  Put("file", "text");
  EXPECT_EQ(
      error(Path("file")),
      "open \"" + Path("file") +
          "\": not a directory; need a step directory or a directory of steps "
          "(Checkpoint::Restore reads HDF5 files of other programs)");
  // A step whose index is gone, by its path and by that of the run.
  std::filesystem::create_directory(Path("step_00000001"));
  Put("step_00000001/data_00000_of_00001.h5", "");
  EXPECT_THAT(error(dir_), HasSubstr("index.h5"));
  const std::string cause =
      "\": the step has no index.h5; parts of it were deleted, or not copied";
  EXPECT_EQ(error(Path("step_00000001")),
            "open \"" + Path("step_00000001") + cause);
  std::filesystem::rename(Path("step_00000001"), Path("best"));
  EXPECT_EQ(error(Path("best")), "open \"" + Path("best") + cause);
  std::filesystem::create_directory(Path("step_00000002"));
  EXPECT_EQ(error(Path("step_00000002")),
            "open \"" + Path("step_00000002") + cause);
}

TEST_F(ResolveTest, ADamagedIndexIsDataLoss) {
  Put("index.h5", "nothing");
  EXPECT_EQ(CheckpointReader::Open(dir_).status().code(),
            absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace belay::resolve_step_test
