// Managers whose neighbours, steps or saves are bad.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "belay/checkpoint_manager.h"
#include "manager_testing.h"
#include "storage/lease.h"

namespace belay {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::ManagerTest;
using testing::OnRank0;
using ::testing::StartsWith;
using testing::Steps;
using testing::WorldRank;
using testing::WorldSize;

class ManagerFaultTest : public ManagerTest {
 protected:
  std::string DataFile(int64_t step) const {
    return StepDir(step) + "/data_00000_of_00001.h5";
  }

  // Changes one byte of the array in the middle of the file.
  static void Damage(const std::string& path) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    const auto middle = static_cast<std::streamoff>(fs::file_size(path)) - 500;
    file.seekg(middle);
    const char changed = static_cast<char>(file.get() ^ 1);
    file.seekp(middle);
    file.put(changed);
  }
};

TEST_F(ManagerFaultTest, ANewestStepThatIsDamagedIsPassedOver) {
  std::optional<CheckpointManager> manager = *Manage();
  SaveAll(*manager, 1, 6);
  OnRank0([&] {
    Damage(DataFile(5));                              // a checksum
    fs::remove(DataFile(4));                          // half deleted
    fs::resize_file(StepDir(3) + "/index.h5", 1000);  // cut off
  });
  manager.reset();
  manager = *Manage({.retention = {.max_to_keep = 2}});
  const auto restored = manager->RestoreLatest();
  ASSERT_EQ(restored.status(), absl::OkStatus());
  EXPECT_EQ(restored->step, 2);
  EXPECT_TRUE(program_.Is(2));
  ASSERT_EQ(restored->skipped.size(), 3u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(restored->skipped[i].step, 5 - i);
    EXPECT_EQ(restored->skipped[i].status.code(), absl::StatusCode::kDataLoss);
  }
  EXPECT_THAT(restored->ToString(),
              ::testing::MatchesRegex("restored step 2\n"
                                      "skipped step 5: DATA_LOSS: .*\n"
                                      "skipped step 4: DATA_LOSS: .*\n"
                                      "skipped step 3: DATA_LOSS: .*"));
  EXPECT_EQ(manager->LatestStep(), 2);
  // The training goes on from there, and the number is taken again.
  const auto saved = SaveStep(*manager, 3);
  ASSERT_EQ(saved.status(), absl::OkStatus());
  EXPECT_EQ(saved->outcome, SaveOutcome::kSaved) << saved->reason;
  EXPECT_THAT(saved->deleted, ElementsAre(1));
  EXPECT_EQ(manager->LatestStep(), 3);
  program_.Set(0);
  EXPECT_EQ(manager->RestoreLatest()->step, 3);
  EXPECT_TRUE(program_.Is(3));
}

TEST_F(ManagerFaultTest, AStepThatWasHalfDeletedIsPassedOver) {
  auto manager = Manage();
  SaveAll(*manager, 1, 3);
  OnRank0([&] { fs::remove(StepDir(2) + "/index.h5"); });
  const auto restored = manager->RestoreLatest();
  ASSERT_EQ(restored.status(), absl::OkStatus());
  EXPECT_EQ(restored->step, 1);
  EXPECT_EQ(restored->skipped[0].step, 2);
}

TEST_F(ManagerFaultTest, NothingCanBeRestored) {
  int calls = 0;
  auto manager = Manage({.init_fn = [&] {
    ++calls;
    return absl::OkStatus();
  }});
  SaveAll(*manager, 1, 3);
  OnRank0([&] {
    fs::remove(DataFile(1));
    fs::remove(DataFile(2));
  });
  const std::string message = SameError(manager->RestoreOrInitialize().status(),
                                        absl::StatusCode::kDataLoss);
  EXPECT_THAT(message, ::testing::MatchesRegex(
                           "restore \".*/run\": none of the 2 steps can be "
                           "restored\n  step 2: .*\n  step 1: .*"));
  // The manager has tried them already.
  EXPECT_THAT(message, ::testing::Not(HasSubstr("earlier step")));
  EXPECT_EQ(calls, 0);
}

// What the program has is wrong then, not the step.
TEST_F(ManagerFaultTest, AnotherShapeIsNotPassedOver) {
  auto manager = Manage();
  SaveAll(*manager, 1, 3);
  Comm comm = *Comm::Duplicate(MPI_COMM_WORLD);
  std::array<double, 7> rows = {};  // a vector takes the stored length
  Checkpoint other(
      comm, ObjectRef([&](Tracker& tracker) { tracker.Value("rows", rows); }));
  auto reader = CheckpointManager::Create(other, Run(), {.read_only = true});
  ASSERT_EQ(reader.status(), absl::OkStatus());
  SameError(reader->RestoreLatest().status(),
            absl::StatusCode::kFailedPrecondition);
  comm.Close().IgnoreError();
}

TEST_F(ManagerFaultTest, AnExplicitStepIsNotReplacedByAnother) {
  auto manager = Manage();
  SaveAll(*manager, 1, 3);
  OnRank0([&] { fs::remove(DataFile(2)); });
  EXPECT_THAT(
      SameError(manager->Restore(2).status(), absl::StatusCode::kDataLoss),
      HasSubstr("found none); use an earlier step, such as 1 [rank 0 of "));
  EXPECT_EQ(
      SameError(manager->Restore(9).status(), absl::StatusCode::kNotFound),
      "restore \"" + Run() + "\": no step 9; the steps are 1, 2" + OfRank0());
  EXPECT_THAT(SameError(manager->Restore(-1).status(),
                        absl::StatusCode::kInvalidArgument),
              StartsWith("restore \"" + Run() +
                         "\": step is out of range (need 0 to "
                         "9223372036854775807, found -1)"));
  EXPECT_EQ(manager->Restore(1)->step, 1);
  SameError(manager->Restore(1 + WorldRank() % 2).status(),
            WorldSize() == 1 ? absl::StatusCode::kOk
                             : absl::StatusCode::kInvalidArgument);
}

TEST_F(ManagerFaultTest, AStepThatIsNotThereIsToldWithThoseThatAre) {
  auto manager = Manage();
  const auto told = [&] {
    return SameError(manager->Restore(99).status(),
                     absl::StatusCode::kNotFound);
  };
  const std::string start = "restore \"" + Run() + "\": no step 99; ";
  EXPECT_EQ(told(), start + "there are no steps" + OfRank0());
  SaveAll(*manager, 1, 2);
  EXPECT_EQ(told(), start + "the only step is 1" + OfRank0());
  SaveAll(*manager, 2, 21);
  EXPECT_EQ(
      told(),
      start + "there are 20 steps, the newest 16, 17, 18, 19, 20" + OfRank0());
}

// A reader whose steps a writer deletes, just as it begins to read them.
TEST_F(ManagerFaultTest, AStepThatIsDeletedMeanwhileIsNoDamage) {
  auto manager = Manage();
  SaveAll(*manager, 1, 3);
  int restores = 0;
  program_.on_track = [&] {
    if (WorldRank() != 0 || ++restores > 1) return;
    fs::rename(StepDir(1), StepDir(5));
    fs::remove_all(StepDir(2));
  };
  const auto restored = manager->RestoreLatest();
  ASSERT_EQ(restored.status(), absl::OkStatus());
  EXPECT_EQ(restored->step, 5);
  EXPECT_TRUE(restored->skipped.empty());
  EXPECT_TRUE(program_.Is(1));
}

TEST_F(ManagerFaultTest, AFailedSaveChangesNothing) {
  auto manager = Manage({.retention = {.max_to_keep = 1}});
  SaveAll(*manager, 1, 2);
  const std::string state = Content("step.manager.json");
  OnRank0([&] { fs::create_directory(StepDir(2)); });
  // A step directory that appeared meanwhile: the save is refused.
  const Status refused = SaveStep(*manager, 2).status();
  SameError(refused, absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(Content("step.manager.json"), state);
  EXPECT_EQ(manager->Steps(), Steps({1}));
  EXPECT_EQ(program_.checkpoint().save_counter(), 1);
  OnRank0([&] { fs::remove(StepDir(2)); });
  EXPECT_EQ(SaveStep(*manager, 2)->outcome, SaveOutcome::kSaved);
}

// The step of the counter counts once it is committed, so it can be tried
// again.
TEST_F(ManagerFaultTest, MendsF1AFailedSaveIsTriedAgain) {
  int64_t counter = 5;
  auto manager = Manage(
      {.save_policy = {.step_counter = &counter, .checkpoint_interval = 2}});
  ASSERT_EQ(manager.status(), absl::OkStatus());
  OnRank0([&] { fs::create_directory(StepDir(1)); });
  SameError(manager->Save().status(), absl::StatusCode::kAlreadyExists);
  OnRank0([&] { fs::remove(StepDir(1)); });
  EXPECT_EQ(manager->Save()->outcome, SaveOutcome::kSaved);
  EXPECT_EQ(manager->Save()->outcome, SaveOutcome::kSkipped);
}

TEST_F(ManagerFaultTest, AFileOfSomebodyElseKeepsItsStep) {
  auto manager = Manage({.retention = {.max_to_keep = 1}});
  SaveAll(*manager, 1, 2);
  Put("step_00000001/notes.txt", "mine");
  const auto saved = SaveStep(*manager, 2);
  EXPECT_THAT(saved->deleted, ElementsAre());
  EXPECT_THAT(saved->notes,
              ElementsAre(HasSubstr("not written by belay: \"notes.txt\"")));
  EXPECT_EQ(OnDisk(), Steps({1, 2}));
  SameError(manager->Delete(1), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(OnDisk(), Steps({1, 2}));
  OnRank0([&] { fs::remove(StepDir(1) + "/notes.txt"); });
  EXPECT_THAT(SaveStep(*manager, 3)->deleted, ElementsAre(1, 2));
}

TEST_F(ManagerFaultTest, DebrisIsRemovedAtTheStart) {
  std::optional<CheckpointManager> manager = *Manage();
  SaveAll(*manager, 1, 2);
  manager.reset();
  OnRank0([&] {
    fs::copy(StepDir(1), StepDir(2) + ".inprogress");
    fs::rename(StepDir(1), StepDir(1) + ".replaced");
  });
  manager = *Manage();
  EXPECT_EQ(manager->notes().size(), 2u);
  EXPECT_EQ(OnDisk(), Steps({1}));
  OnRank0([&] { EXPECT_FALSE(fs::exists(StepDir(2) + ".inprogress")); });
  EXPECT_EQ(Active(*manager), Steps({1}));
}

TEST_F(ManagerFaultTest, ASecondManagerIsRefusedWhileTheFirstLives) {
  std::optional<CheckpointManager> first = *Manage();
  const std::string message =
      SameError(Manage().status(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(message, HasSubstr("held by process"));
  EXPECT_THAT(message, HasSubstr("close the other one first"));
  EXPECT_EQ(Manage({.read_only = true}).status(), absl::OkStatus());
  first.reset();
  const auto second = Manage();
  ASSERT_EQ(second.status(), absl::OkStatus());
  EXPECT_THAT(second->notes(), ElementsAre());
}

TEST_F(ManagerFaultTest, ALeaseOfAKilledProcessIsTakenOver) {
  pid_t child = -1;
  OnRank0([&] {
    fs::create_directory(Run());
    int ready[2];
    ASSERT_EQ(pipe(ready), 0);
    child = fork();
    if (child == 0) {
      const auto lease = Lease::Take(File("step.lease"), ThisProcess());
      const char done = lease.ok() ? 'y' : 'n';
      if (write(ready[1], &done, 1) != 1) _exit(1);
      for (;;) pause();
    }
    char done = 'n';
    EXPECT_EQ(read(ready[0], &done, 1), 1);
    EXPECT_EQ(done, 'y');
  });
  SameError(Manage().status(), absl::StatusCode::kFailedPrecondition);
  OnRank0([&] {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  });
  const auto manager = Manage();
  ASSERT_EQ(manager.status(), absl::OkStatus());
  EXPECT_THAT(manager->notes(),
              ElementsAre(HasSubstr("the lease was taken over from process")));
}

}  // namespace
}  // namespace belay
