#include "manager/manager_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "directory_fixture.h"
#include "storage/posix_file.h"

namespace belay::manager_files_test {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Names = std::vector<std::string>;

class ManagerFilesTest : public DirectoryTest {
 protected:
  Names List(const std::string& name = "") const {
    return ListDirectory(Path(name)).value();
  }

  // A directory with these files.
  void Make(const std::string& name, const Names& files) const {
    fs::create_directories(Path(name));
    for (const std::string& file : files) Put(name + "/" + file, "content");
  }

  const Names step_files_ = {"index.h5", "data_00000_of_00002.h5",
                             "data_00001_of_00002.h5"};
};

ManagerState OneStep(int64_t step) { return {.steps = {{.step = step}}}; }

TEST_F(ManagerFilesTest, TheStateIsReadAsWritten) {
  EXPECT_EQ(ReadState(dir_, "step").value(), std::nullopt);
  ASSERT_EQ(WriteState(dir_, "step", OneStep(3), true), absl::OkStatus());
  EXPECT_EQ(ReadState(dir_, "step").value(), OneStep(3));
  ASSERT_EQ(WriteState(dir_, "step", OneStep(4), false), absl::OkStatus());
  EXPECT_EQ(ReadState(dir_, "step").value(), OneStep(4));
  EXPECT_EQ(List(), Names({"step.manager.json"}));
  EXPECT_EQ(ReadState(dir_, "other").value(), std::nullopt);
}

TEST_F(ManagerFilesTest, AStateThatCannotBeReadIsAnError) {
  Put("step.manager.json", "");
  EXPECT_EQ(ReadState(dir_, "step").status().code(),
            absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(ReadState(dir_, "step").status().message()),
              HasSubstr("read \"" + Path("step.manager.json") + "\": "));
  fs::remove(Path("step.manager.json"));
  fs::create_directory(Path("step.manager.json"));
  EXPECT_FALSE(ReadState(dir_, "step").ok());
  fs::remove(Path("step.manager.json"));
  fs::create_symlink("nowhere", Path("step.manager.json"));
  EXPECT_EQ(ReadState(dir_, "step").status().code(),
            absl::StatusCode::kInvalidArgument);
  fs::remove(Path("step.manager.json"));
  // A hole, of which nothing is read.
  Put("step.manager.json", "{");
  fs::resize_file(Path("step.manager.json"), uint64_t{1} << 40);
  EXPECT_EQ(ReadState(dir_, "step").status(),
            absl::DataLossError("read \"" + Path("step.manager.json") +
                                "\": too long (need at most 8388608 bytes, "
                                "found 1099511627776)"));
}

// A sparse file takes no room on a disk, but much memory.
TEST_F(ManagerFilesTest, AStateOfAnyLengthIsNotRead) {
  Put("step.manager.json", "{");
  fs::resize_file(Path("step.manager.json"), (int64_t{8} << 20) + 1);
  EXPECT_EQ(ReadState(dir_, "step").status(),
            absl::DataLossError("read \"" + Path("step.manager.json") +
                                "\": too long (need at most 8388608 bytes, "
                                "found 8388609)"));
}

TEST_F(ManagerFilesTest, AFaultAnywhereLeavesTheOldStateOrTheNew) {
  ASSERT_EQ(WriteState(dir_, "step", OneStep(1), true), absl::OkStatus());
  for (int64_t point = 1;; ++point) {
    fault::Arm(point);
    const Status status = WriteState(dir_, "step", OneStep(point + 1), true);
    const bool injected = fault::Count() >= point;
    fault::Disarm();
    const auto read = ReadState(dir_, "step");
    ASSERT_EQ(read.status(), absl::OkStatus()) << point;
    if (!injected) {
      EXPECT_EQ(status, absl::OkStatus());
      EXPECT_EQ(*read, OneStep(point + 1));
      EXPECT_GT(point, 6);
      break;
    }
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    EXPECT_TRUE(*read == OneStep(1) || *read == OneStep(point + 1)) << point;
    ASSERT_EQ(WriteState(dir_, "step", OneStep(1), true), absl::OkStatus());
  }
}

TEST_F(ManagerFilesTest, TheRunDirectory) {
  EXPECT_EQ(EnsureRunDirectory(Path("run"), true), absl::OkStatus());
  EXPECT_EQ(EnsureRunDirectory(Path("run"), true), absl::OkStatus());
  EXPECT_EQ(EnsureRunDirectory(Path("a/b"), true),
            absl::NotFoundError("create directory \"" + Path("a/b") +
                                "\": no such file or directory; make \"" +
                                Path("a") + "\" first"));
  Put("file", "");
  EXPECT_EQ(EnsureRunDirectory(Path("file"), true).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(ManagerFilesTest, AStepIsRemoved) {
  Make("step_00000007", step_files_);
  Make("step_00000007.inprogress", {"index.h5", "writer_0123456789abcdef"});
  Make("step_00000008", step_files_);
  EXPECT_EQ(RemoveStep(Path("step_00000007"), true), absl::OkStatus());
  EXPECT_EQ(List(), Names({"step_00000008"}));
  EXPECT_EQ(RemoveStep(Path("step_00000007"), true).code(),
            absl::StatusCode::kNotFound);
}

TEST_F(ManagerFilesTest, AStepWithAFileOfSomebodyElseStays) {
  for (const std::string name :
       {"notes.txt", "data_1.h5", "data_x_of_1.h5", "index.h5~", ".nfs01",
        "data_00000_of_00002.h5.bak"}) {
    Make("step_00000007", step_files_);
    Put("step_00000007/" + name, "mine");
    EXPECT_EQ(RemoveStep(Path("step_00000007"), true),
              absl::FailedPreconditionError(
                  "remove \"" + Path("step_00000007") +
                  "\": not written by belay: \"" + name +
                  "\"; the step stays, and so does the file: move it "
                  "away"));
    EXPECT_EQ(List("step_00000007").size(), 4u);
    fs::remove_all(Path("step_00000007"));
  }
}

// Whatever fails, a step is whole or has lost its name.
TEST_F(ManagerFilesTest, AFaultAnywhereLeavesAWholeStepOrDebris) {
  for (int64_t point = 1;; ++point) {
    Make("step_00000007", step_files_);
    fault::Arm(point);
    const Status status = RemoveStep(Path("step_00000007"), true);
    const bool injected = fault::Count() >= point;
    fault::Disarm();
    if (!injected) {
      EXPECT_EQ(status, absl::OkStatus());
      EXPECT_GT(point, 3);
      break;
    }
    EXPECT_FALSE(status.ok());
    if (fs::exists(Path("step_00000007"))) {
      EXPECT_EQ(List("step_00000007").size(), 3u) << point;
    }
  }
  EXPECT_EQ(List(), Names());
}

TEST_F(ManagerFilesTest, DebrisOfThePrefixIsRemoved) {
  Make("step_00000001", step_files_);
  Make("step_00000002.inprogress", {"index.h5", "writer_0123456789abcdef"});
  Make("other_00000002.inprogress", {"index.h5"});
  Make("step_00000003.inprogress", {"index.h5", "\x1b[2J"});
  Make("step_3.inprogress", {});
  Make("step_x.inprogress", {});
  Make("xstep_00000004.inprogress", {});
  Put("step_00000005.inprogress", "a file");
  const auto notes = CleanRunDirectory(dir_, "step", true);
  ASSERT_EQ(notes.status(), absl::OkStatus());
  EXPECT_THAT(
      *notes,
      ElementsAre(
          "removed \"" + Path("step_00000002.inprogress") +
              "\", left by a job that ended",
          "remove \"" + Path("step_00000003.inprogress") +
              "\": not written by belay: \"\\x1b[2J\"; nothing is removed",
          HasSubstr("not a directory")));
  EXPECT_EQ(List(), Names({"other_00000002.inprogress", "step_00000001",
                           "step_00000003.inprogress",
                           "step_00000005.inprogress", "step_3.inprogress",
                           "step_x.inprogress", "xstep_00000004.inprogress"}));
}

TEST_F(ManagerFilesTest, WithoutRemovalDebrisStays) {
  Make("step_00000002.inprogress", {"index.h5"});
  Make("step_00000003.replaced", {"index.h5"});
  Make("step_00000003", {"index.h5"});
  EXPECT_THAT(CleanRunDirectory(dir_, "step", false).value(), ElementsAre());
  EXPECT_EQ(List().size(), 3u);
}

// The only copy of a step, on file systems that cannot swap names.
TEST_F(ManagerFilesTest, AReplacedStepGetsItsNameBack) {
  for (const bool remove : {true, false}) {
    Make("step_00000002.replaced", step_files_);
    EXPECT_THAT(
        CleanRunDirectory(dir_, "step", remove).value(),
        ElementsAre("brought \"" + Path("step_00000002") +
                    "\" back, which was being replaced when a job ended"));
    EXPECT_EQ(List(), Names({"step_00000002"}));
    EXPECT_EQ(List("step_00000002").size(), 3u);
    fs::remove_all(Path("step_00000002"));
  }
  Make("step_00000002.replaced", {"index.h5"});
  Make("step_00000002", {"index.h5"});
  CleanRunDirectory(dir_, "step", true).IgnoreError();
  EXPECT_EQ(List(), Names({"step_00000002"}));
}

TEST_F(ManagerFilesTest, AStepThatDoesNotOpen) {
  EXPECT_FALSE(CheckStepOpens(Path("step_00000001")).ok());
  Make("step_00000001", step_files_);
  EXPECT_EQ(CheckStepOpens(Path("step_00000001")).code(),
            absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace belay::manager_files_test
