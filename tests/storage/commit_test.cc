#include "storage/commit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "directory_fixture.h"
#include "format/paths.h"
#include "storage/posix_file.h"

namespace belay::commit_test {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kNonce = 0x651c277647c0e60b;
constexpr char kSavedTwice[] =
    ": two jobs or processes save the same step; let only one of them save "
    "to a directory, which a CheckpointManager makes sure of, or give each its "
    "own";
using Names = std::vector<std::string>;

class CommitTest : public DirectoryTest {
 protected:
  std::string Run() const { return Path("run"); }

  std::string Step(int64_t step) const {
    return JoinPath(Run(), StepName(step));
  }

  Names List(const std::string& name) const {
    return ListDirectory(Path(name)).value();
  }

  Status Begin(int64_t step, bool overwrite = false) const {
    return BeginStep(Step(step), overwrite, true, kNonce);
  }

  // Saves a step with one file.
  void Save(int64_t step, const std::string& content, bool durable = true) {
    ASSERT_EQ(Begin(step, true), absl::OkStatus());
    Put("run/" + InProgress(step) + "/index.h5", content);
    ASSERT_EQ(Commit(Step(step), durable), absl::OkStatus());
  }

  // Takes the step and commits it.
  static Status Commit(const std::string& path, bool durable = true,
                       uint64_t nonce = kNonce) {
    const Status taken = TakeStep(path, nonce);
    return taken.ok() ? CommitStep(path, true, durable, nonce) : taken;
  }

  // Where a step is once it is taken.
  static std::string Taken(int64_t step) {
    return "step_0000000" + std::to_string(step) +
           ".651c277647c0e60b.inprogress";
  }

  static std::string InProgress(int64_t step) {
    return "step_0000000" + std::to_string(step) + ".inprogress";
  }
};

TEST_F(CommitTest, BeginMakesRunDirectoryAndMarker) {
  EXPECT_EQ(Begin(7), absl::OkStatus());
  EXPECT_EQ(List("run"), Names({"step_00000007.inprogress"}));
  EXPECT_EQ(List("run/step_00000007.inprogress"),
            Names({"writer_651c277647c0e60b"}));
  EXPECT_EQ(Content("run/step_00000007.inprogress/writer_651c277647c0e60b"),
            "");
}

TEST_F(CommitTest, BeginNeedsTheParentOfTheRun) {
  EXPECT_EQ(BeginStep(Path("none/run/step_00000007"), false, true, kNonce),
            absl::NotFoundError("create directory \"" + Path("none/run") +
                                "\": no such file or directory; make \"" +
                                Path("none") + "\" first"));
  EXPECT_FALSE(fs::exists(Path("none")));
}

TEST_F(CommitTest, NothingIsSavedIntoAStep) {
  Save(7, "old");
  EXPECT_EQ(
      BeginStep(Step(7) + "/step_00000008", false, true, kNonce),
      absl::InvalidArgumentError(
          "save to \"" + Step(7) +
          "\": this is a step, which never changes, not the directory of a "
          "run; give the directory that it is in, or another one"));
  EXPECT_EQ(List("run/step_00000007"), Names({"index.h5"}));
}

// No reader would open them.
TEST_F(CommitTest, NothingIsSavedUnderANameOfSomethingInProgress) {
  for (const std::string run : {"x.inprogress", "x.replaced"}) {
    EXPECT_EQ(BeginStep(Path(run) + "/step_00000008", false, true, kNonce),
              absl::InvalidArgumentError(
                  "save to \"" + Path(run) +
                  "\": this is the name of a step that is being saved or "
                  "replaced, which no reader opens and the next save may "
                  "remove; give the directory of a run another name"));
    EXPECT_FALSE(fs::exists(Path(run)));
  }
}

TEST_F(CommitTest, ARunThatIsAFileIsRefused) {
  Put("run", "");
  EXPECT_EQ(Begin(7).code(), absl::StatusCode::kInvalidArgument) << Begin(7);
}

TEST_F(CommitTest, TheMarkerTellsTheDirectoryOfThisSave) {
  ASSERT_EQ(Begin(7), absl::OkStatus());
  EXPECT_EQ(WaitForStep(Step(7), kNonce, 0).value(), true);
  EXPECT_EQ(WaitForStep(Step(7), kNonce + 1, 0).value(), false);
  EXPECT_EQ(WaitForStep(Step(8), kNonce, 0).value(), false);
}

// A network file system may show a new name late.
TEST_F(CommitTest, TheMarkerIsWaitedFor) {
  std::thread late([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(Begin(7), absl::OkStatus());
  });
  EXPECT_EQ(WaitForStep(Step(7), kNonce, 60).value(), true);
  late.join();
  EXPECT_EQ(WaitForStep(Step(8), kNonce, 0.01).value(), false);
}

TEST_F(CommitTest, AContentIsWaitedFor) {
  EXPECT_EQ(WaitUntilHolds(Path("file"), "new", 0.01).value(), false);
  for (const char* other : {"", "old", "new and more"}) {
    Put("file", other);
    EXPECT_EQ(WaitUntilHolds(Path("file"), "new", 0.01).value(), false);
  }
  std::thread late([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    Put("file", "new");
  });
  EXPECT_EQ(WaitUntilHolds(Path("file"), "new", 60).value(), true);
  late.join();
}

TEST_F(CommitTest, CommitRenamesAndTakesTheMarkerAway) {
  for (const bool durable : {true, false}) {
    const int64_t step = durable ? 1 : 2;
    Save(step, "content", durable);
    const std::string committed = "run/step_0000000" + std::to_string(step);
    EXPECT_EQ(List(committed), Names({"index.h5"}));
    EXPECT_EQ(Content(committed + "/index.h5"), "content");
  }
  EXPECT_EQ(List("run"), Names({"step_00000001", "step_00000002"}));
}

TEST_F(CommitTest, ACommittedStepIsNotBegunAgain) {
  Save(7, "first");
  EXPECT_EQ(Begin(7),
            absl::AlreadyExistsError(
                "save \"" + Path("run/step_00000007") +
                "\": the step is committed already; choose another number or "
                "set SaveOptions.overwrite"));
  EXPECT_EQ(List("run"), Names({"step_00000007"}));
}

TEST_F(CommitTest, AForeignDirectoryIsNoStep) {
  fs::create_directories(Path("run/step_00000007/data"));
  EXPECT_EQ(
      Begin(7),
      absl::AlreadyExistsError(
          "save \"" + Path("run/step_00000007") +
          "\": a directory that is not a checkpoint is in the way (it has no "
          "index.h5); move it away or choose another number"));
  EXPECT_TRUE(fs::exists(Path("run/step_00000007/data")));
}

TEST_F(CommitTest, AnErrorAsksForAnotherNameWhereThereIsNoNumber) {
  fs::create_directories(Path("run/best/data"));
  const Status status = BeginStep(Path("run/best"), false, true, kNonce);
  EXPECT_THAT(std::string(status.message()),
              ::testing::EndsWith("move it away or choose another name"));
}

TEST_F(CommitTest, AnOverwrittenStepWaitsUnderTheTemporaryName) {
  Save(7, "first");
  ASSERT_EQ(Begin(7, true), absl::OkStatus());
  Put("run/step_00000007.inprogress/index.h5", "second");
  EXPECT_EQ(Content("run/step_00000007/index.h5"), "first");
  ASSERT_EQ(Commit(Step(7)), absl::OkStatus());
  EXPECT_EQ(Content("run/step_00000007/index.h5"), "second");
  EXPECT_EQ(Content("run/" + Taken(7) + "/index.h5"), "first");
  RemoveDebris(Step(7), kNonce);
  EXPECT_EQ(List("run"), Names({"step_00000007"}));
}

TEST_F(CommitTest, UndoTakesANewStepBack) {
  Save(6, "before");
  Save(7, "new");
  EXPECT_EQ(UndoCommit(Step(7), kNonce), absl::OkStatus());
  EXPECT_EQ(CommittedSteps(Run(), "step").value(), std::vector<int64_t>({6}));
  EXPECT_EQ(Content("run/" + Taken(7) + "/index.h5"), "new");
  RemoveDebris(Step(7), kNonce);
  EXPECT_EQ(List("run"), Names({"step_00000006"}));
}

TEST_F(CommitTest, UndoBringsAnOverwrittenStepBack) {
  Save(7, "first");
  Save(7, "second");
  EXPECT_EQ(UndoCommit(Step(7), kNonce), absl::OkStatus());
  EXPECT_EQ(Content("run/step_00000007/index.h5"), "first");
  RemoveDebris(Step(7), kNonce);
  EXPECT_EQ(List("run"), Names({"step_00000007"}));
}

TEST_F(CommitTest, DebrisOfAnEarlierSaveIsRemovedByTheNext) {
  ASSERT_EQ(Begin(7), absl::OkStatus());
  Put("run/step_00000007.inprogress/data_00000_of_00001.h5", "half");
  Put("run/step_00000007.inprogress/.nfs0000000000a1", "still open elsewhere");
  EXPECT_EQ(BeginStep(Step(7), false, true, 1), absl::OkStatus());
  EXPECT_EQ(List("run/step_00000007.inprogress"),
            Names({"writer_0000000000000001"}));
}

TEST_F(CommitTest, WhatIsNotOursIsNotRemoved) {
  Save(7, "old");
  Put("run/step_00000007/notes.txt", "mine");
  EXPECT_EQ(Begin(7, true),
            absl::FailedPreconditionError(
                "overwrite \"" + Path("run/step_00000007") +
                "\": not written by belay: \"notes.txt\"; nothing is removed"));
  fs::create_directories(Path("run/step_00000008.inprogress/deep/er"));
  EXPECT_EQ(Begin(8),
            absl::FailedPreconditionError(
                "remove \"" + Path("run/step_00000008.inprogress") +
                "\": not written by belay: \"deep\"; nothing is removed"));
  // However many files are still open elsewhere.
  for (const char* name : {".nfs1", ".nfs2", ".nfs3", ".nfs4", ".nfs5"}) {
    Put("run/step_00000008.inprogress/" + std::string(name), "");
  }
  EXPECT_EQ(Begin(8).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(fs::exists(Path("run/step_00000008.inprogress/deep")));
  fs::create_directories(Path("run/step_00000009/data"));
  EXPECT_EQ(Begin(9, true).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(fs::exists(Path("run/step_00000009/data")));
  EXPECT_EQ(Content("run/step_00000007/index.h5"), "old");
}

// Two jobs save one step: the second has taken the directory over, and the
// first must neither commit what is in it nor remove it.
TEST_F(CommitTest, ADirectoryThatAnotherSaveTookOverIsNotCommitted) {
  ASSERT_EQ(Begin(7), absl::OkStatus());
  ASSERT_EQ(BeginStep(Step(7), false, true, 1), absl::OkStatus());
  EXPECT_EQ(Commit(Step(7)),
            absl::FailedPreconditionError(
                "commit \"" + Path("run/step_00000007") +
                "\": another save of this step has taken over its directory" +
                kSavedTwice));
  EXPECT_EQ(CheckOurs("save", Step(7), kNonce).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(CheckOurs("save", Step(7), 1), absl::OkStatus());
  fs::remove_all(Path("run/step_00000007.inprogress"));
  EXPECT_EQ(Commit(Step(7), true, 1),
            absl::NotFoundError(
                "commit \"" + Path("run/step_00000007.inprogress") +
                "\": the directory was removed during the save, by hand or by "
                "another save of this step, or this host no longer sees it"));
  ASSERT_EQ(BeginStep(Step(7), false, true, 1), absl::OkStatus());
  EXPECT_EQ(Commit(Step(7), true, 1), absl::OkStatus());
}

// What is taken is this save's own: it notices others that take its place.
TEST_F(CommitTest, AStepThatWasCommittedMeanwhileIsNotReplaced) {
  ASSERT_EQ(Begin(7), absl::OkStatus());
  ASSERT_EQ(TakeStep(Step(7), kNonce), absl::OkStatus());
  EXPECT_EQ(List("run"), Names({Taken(7)}));
  // Another save of this step, from its beginning to its end; the first one is
  // gone with it.
  ASSERT_EQ(BeginStep(Step(7), false, true, 1), absl::OkStatus());
  EXPECT_EQ(List("run"), Names({"step_00000007.inprogress"}));
  Put("run/step_00000007.inprogress/index.h5", "other");
  ASSERT_EQ(Commit(Step(7), true, 1), absl::OkStatus());
  EXPECT_EQ(CommitStep(Step(7), false, true, kNonce),
            absl::NotFoundError(
                "commit \"" + Path("run/step_00000007") +
                "\": another save of this step has removed what this one was "
                "committing" +
                kSavedTwice));
  EXPECT_EQ(CheckOurs("save", Step(7), kNonce).message(),
            "save \"" + Path("run/step_00000007") +
                "\": another save of this step has committed it, or removed "
                "this one" +
                kSavedTwice);
  // Or it is there still, as if the other one had not seen it.
  fs::create_directory(Path("run/" + Taken(7)));
  EXPECT_EQ(CommitStep(Step(7), false, true, kNonce).code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(Content("run/step_00000007/index.h5"), "other");
}

TEST_F(CommitTest, DebrisOfACommitIsRemovedByTheNextSave) {
  ASSERT_EQ(Begin(7), absl::OkStatus());
  ASSERT_EQ(TakeStep(Step(7), kNonce), absl::OkStatus());
  fs::create_directory(Path("run/step_00000008.651c277647c0e60b.inprogress"));
  ASSERT_EQ(BeginStep(Step(7), false, true, 1), absl::OkStatus());
  EXPECT_EQ(List("run"), Names({"step_00000007.inprogress",
                                "step_00000008.651c277647c0e60b.inprogress"}));
}

// Where names cannot be swapped, a crash can leave the old step renamed.
TEST_F(CommitTest, AStepThatWasLeftHalfReplacedGetsItsNameBack) {
  Save(7, "old");
  fs::rename(Path("run/step_00000007"), Path("run/step_00000007.replaced"));
  ASSERT_EQ(Begin(8), absl::OkStatus());
  EXPECT_EQ(CommittedSteps(Run(), "step").value(), std::vector<int64_t>());
  EXPECT_EQ(Begin(7).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(Content("run/step_00000007/index.h5"), "old");
}

TEST_F(CommitTest, ALeftOverOfAReplacedStepIsRemoved) {
  Save(7, "new");
  fs::create_directory(Path("run/step_00000007.replaced"));
  EXPECT_EQ(Begin(7, true), absl::OkStatus());
  EXPECT_FALSE(fs::exists(Path("run/step_00000007.replaced")));
}

TEST_F(CommitTest, RemovingNoDebrisIsQuiet) {
  Save(7, "content");
  RemoveDebris(Step(7), kNonce);
  RemoveDebris(Path("none/step_00000007"), kNonce);
  EXPECT_EQ(UndoCommit(Path("none/step_00000007"), kNonce).code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(List("run"), Names({"step_00000007"}));
}

TEST_F(CommitTest, StepsAreListedAscendingAndNothingElse) {
  Save(9, "");
  Save(2, "");
  ASSERT_EQ(Begin(3), absl::OkStatus());
  for (const char* name :
       {"step_100000000", "step_9223372036854775807", "step_1",
        "step_000000001", "step_-0000001", "step_00000004.replaced",
        "step_00000005~", "step_", "step_0000000a", "Step_00000006", "index.h5",
        "step_00000042.bak", "step_9223372036854775808", "astep_00000006",
        "step_+0000006", "step_ 0000006"}) {
    fs::create_directory(Path("run/" + std::string(name)));
    std::ofstream(Path("run/" + std::string(name) + "/index.h5")) << "x";
  }
  EXPECT_EQ(CommittedSteps(Run(), "step").value(),
            std::vector<int64_t>({2, 9, 100000000, INT64_MAX}));
}

TEST_F(CommitTest, WhatHoldsNothingIsNoStep) {
  Save(2, "");
  fs::create_directory(Path("run/step_00000003"));
  std::ofstream(Path("run/step_00000004")) << "x";
  fs::create_symlink("nowhere", Path("run/step_00000005"));
  fs::create_symlink("step_00000006", Path("run/step_00000006"));
  EXPECT_EQ(CommittedSteps(Run(), "step").value(), std::vector<int64_t>({2}));
  for (const int64_t step : {3, 4, 6}) {
    const Status status = Begin(step, false);
    EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
    EXPECT_THAT(std::string(status.message()),
                ::testing::HasSubstr("a file or an empty directory is in"));
  }
}

TEST_F(CommitTest, ListingNeedsADirectory) {
  EXPECT_EQ(CommittedSteps(Run(), "step").status().code(),
            absl::StatusCode::kNotFound);
  fs::create_directory(Run());
  EXPECT_EQ(CommittedSteps(Run(), "step").value(), std::vector<int64_t>());
}

// After a fault anywhere in a commit, the run is as it was before.
void ExpectOldOrUncommitted(const std::string& run, const Status& status) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(CommittedSteps(run, "step").value(), std::vector<int64_t>({7}));
}

// All fails from some point on, so that nothing can be undone either.
TEST_F(CommitTest, AnErrorSaysIfTheStepIsCommittedAllTheSame) {
  int64_t times = 0;
  for (const bool overwrite : {false, true}) {
    const int64_t step = overwrite ? 7 : 8;
    bool injected = true;
    for (int64_t point = 1; injected; ++point) {
      Save(7, "old");
      RemoveDebris(Step(7), kNonce);
      ASSERT_EQ(Begin(step, true), absl::OkStatus());
      Put("run/" + InProgress(step) + "/index.h5", "new");
      fault::Arm(point, 1000);
      const Status status = Commit(Step(step));
      injected = fault::Count() >= point;
      fault::Disarm();
      const std::string index =
          "run/step_0000000" + std::to_string(step) + "/index.h5";
      const bool stands = fs::exists(Path(index)) && Content(index) == "new";
      const bool says_so = status.message().find("is committed all the same") !=
                           std::string_view::npos;
      EXPECT_EQ(stands, status.ok() || says_so) << point << " " << status;
      times += says_so ? 1 : 0;
      fs::remove_all(Run());
    }
  }
  EXPECT_GE(times, 2);
}

TEST_F(CommitTest, AnErrorAnywhereLeavesTheStepUncommitted) {
  for (const bool overwrite : {false, true}) {
    const int64_t step = overwrite ? 7 : 8;
    for (int64_t point = 1;; ++point) {
      Save(7, "old");
      RemoveDebris(Step(7), kNonce);
      ASSERT_EQ(Begin(step, true), absl::OkStatus());
      Put("run/" + InProgress(step) + "/index.h5", "new");
      fault::Arm(point);
      const Status status = Commit(Step(step));
      const bool injected = fault::Count() >= point;
      fault::Disarm();
      if (!injected) {
        EXPECT_EQ(status, absl::OkStatus());
        EXPECT_GT(point, 4);
        EXPECT_EQ(
            Content("run/step_0000000" + std::to_string(step) + "/index.h5"),
            "new");
        break;
      }
      ExpectOldOrUncommitted(Run(), status);
      EXPECT_EQ(Content("run/step_00000007/index.h5"), "old") << point;
      fs::remove_all(Run());
    }
    fs::remove_all(Run());
  }
}

}  // namespace
}  // namespace belay::commit_test
