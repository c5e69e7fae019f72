// A manager of a State: what a Checkpoint has, without objects.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/fault.h"
#include "state_manager_testing.h"

namespace belay::testing::state_manager_test {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST_F(StateManagerTest, SavesAndRestores) {
  int calls = 0;
  const ManagerOptions options{.init_fn = [&] {
    ++calls;
    return absl::OkStatus();
  }};
  {
    auto manager = Manage(options);
    ASSERT_EQ(manager.status(), absl::OkStatus());
    const auto first = manager->RestoreOrInitialize();
    ASSERT_EQ(first.status(), absl::OkStatus());
    EXPECT_EQ(first->step, std::nullopt);
    EXPECT_EQ(first->ToString(), "restored nothing");
    EXPECT_FALSE(first->result.has_value());
    EXPECT_EQ(calls, 1);
    SaveAll(*manager, 1, 4);
  }
  program_.Set(0);
  auto manager = Manage(options);
  ASSERT_EQ(manager.status(), absl::OkStatus());
  const auto restored = manager->RestoreOrInitialize();
  ASSERT_EQ(restored.status(), absl::OkStatus());
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(program_.Is(3));
  EXPECT_EQ(restored->step, 3);
  ASSERT_TRUE(restored->result.has_value());
  EXPECT_EQ(restored->result->path, StepDir(3));
  EXPECT_EQ(restored->result->num_arrays, 2);
  EXPECT_THAT(restored->ToString(), StartsWith("restored step 3 from \"" +
                                               StepDir(3) + "\": 2 arrays, "));
  EXPECT_EQ(restored->load_status.kind(),
            LoadStatus::Kind::kInitializationOnly);
  ASSERT_EQ(manager->Restore(1)->step, 1);
  EXPECT_TRUE(program_.Is(1));
}

// Steps are those of Save and Restore.
TEST_F(StateManagerTest, StepsOfAProgramWithoutAManager) {
  program_.Set(1);
  ASSERT_EQ(Save(program_.comm(), Run(), 1, program_.state()).status(),
            absl::OkStatus());
  auto manager = Manage({.retention = {.max_to_keep = 1}});
  ASSERT_EQ(manager.status(), absl::OkStatus());
  program_.Set(0);
  ASSERT_EQ(manager->RestoreLatest()->step, 1);
  EXPECT_TRUE(program_.Is(1));
  SaveAll(*manager, 2, 4);
  EXPECT_EQ(OnDisk(), Steps({1, 3}));
  program_.Set(0);
  ASSERT_EQ(
      Restore(program_.comm(), Run(), kLatestStep, program_.state()).status(),
      absl::OkStatus());
  EXPECT_TRUE(program_.Is(3));
}

TEST_F(StateManagerTest, AnotherNumberOfRanks) {
  constexpr int64_t kLength = 12;
  const auto piece = [](const Comm& comm) {
    const int64_t begin = kLength * comm.rank() / comm.size();
    return Box{.offset = {begin},
               .shape = {kLength * (comm.rank() + 1) / comm.size() - begin}};
  };
  const Box box = piece(program_.comm());
  std::vector<double> u(box.shape[0]);
  for (size_t i = 0; i < u.size(); ++i) {
    u[i] = static_cast<double>(box.offset[0]) + static_cast<double>(i);
  }
  State state;
  state.AddPiece("u", {kLength}, box, u);
  {
    auto manager = ManageOf(state);
    ASSERT_EQ(manager.status(), absl::OkStatus());
    ASSERT_EQ(manager->Save(5).status(), absl::OkStatus());
  }
  // The last rank, and all others if there are any, each group for itself.
  Comm group = Ok(program_.comm().Split(is_last() ? 1 : 0));
  const Box other = piece(group);
  std::vector<double> v(other.shape[0], -1.0);
  State wanted;
  wanted.AddPiece("u", {kLength}, other, v);
  {
    auto manager =
        CheckpointManager::Create(group, wanted, Run(), {.read_only = true});
    EXPECT_EQ(manager.status(), absl::OkStatus());
    EXPECT_EQ(manager->RestoreLatest()->step, 5);
  }
  for (size_t i = 0; i < v.size(); ++i) {
    EXPECT_EQ(v[i],
              static_cast<double>(other.offset[0]) + static_cast<double>(i));
  }
  EXPECT_TRUE(group.Close().ok());
}

TEST_F(StateManagerTest, Numbers) {
  {
    auto manager = Manage({.retention = {.max_to_keep = 2}});
    ASSERT_EQ(manager.status(), absl::OkStatus());
    EXPECT_EQ(SaveNext(*manager), 1);
    EXPECT_EQ(SaveNext(*manager), 2);
    EXPECT_EQ(SaveStep(*manager, 30)->result.step, 30);
    EXPECT_EQ(SaveNext(*manager), 31);
    EXPECT_EQ(OnDisk(), Steps({30, 31}));
    // No number is used twice, also when its step is gone.
    ASSERT_EQ(manager->Delete(31), absl::OkStatus());
    EXPECT_EQ(SaveNext(*manager), 32);
  }
  auto manager = Manage();
  ASSERT_EQ(manager.status(), absl::OkStatus());
  ASSERT_EQ(manager->RestoreLatest()->step, 32);
  EXPECT_EQ(SaveNext(*manager), 33);
  EXPECT_EQ(SaveStep(*manager, 33)->outcome, SaveOutcome::kSkipped);
  EXPECT_EQ(manager->ShouldSave(34).value(), true);
}

TEST_F(StateManagerTest, KeepsTheBest) {
  auto manager = Manage({.retention = {.max_to_keep = 2,
                                       .best_metric = "loss",
                                       .best_mode = BestMode::kMin}});
  ASSERT_EQ(manager.status(), absl::OkStatus());
  for (const auto& [step, loss] : std::vector<std::pair<int64_t, double>>{
           {1, 3}, {2, 1}, {3, 2}, {4, 9}}) {
    ASSERT_EQ(
        SaveStep(*manager, step, {.metrics = Metrics{{"loss", loss}}}).status(),
        absl::OkStatus());
  }
  EXPECT_EQ(manager->BestStep().value(), 2);
  EXPECT_EQ(OnDisk(), Steps({2, 3}));
}

TEST_F(StateManagerTest, GoesBack) {
  CheckpointManager manager = Begin({.newer_steps = NewerSteps::kSetAside});
  const auto restored = manager.Restore(2);
  ASSERT_EQ(restored.status(), absl::OkStatus());
  EXPECT_TRUE(program_.Is(2));
  EXPECT_THAT(restored->set_aside, ElementsAre(3, 4));
  EXPECT_THAT(restored->ToString(), HasSubstr("\nset aside in \""));
  EXPECT_EQ(OnDisk(), Steps({1, 2}));
  // The number of the branch that was left.
  EXPECT_EQ(SaveNext(manager), 3);
  EXPECT_EQ(manager.LatestStep(), 3);
}

TEST_F(StateManagerTest, GoesBackWhereNewerStepsStay) {
  CheckpointManager manager = Begin({});
  ASSERT_EQ(manager.Restore(2).status(), absl::OkStatus());
  EXPECT_THAT(SameError(SaveStep(manager, 3).status(),
                        absl::StatusCode::kFailedPrecondition),
              HasSubstr("step 2 was restored, and step 3 is not after the "
                        "latest step 4"));
  EXPECT_EQ(SaveNext(manager), 5);
}

// All ranks get it, and the next save works.
TEST_F(StateManagerTest, ErrorsOfOneRank) {
  const std::string by = " [rank " + std::to_string(WorldSize() - 1) + " of " +
                         std::to_string(WorldSize()) + "]";
  float value = 0;
  State broken;
  broken.Add("number", value);
  broken.AddReplicated("a", {1}, AtAddress(is_last() ? nullptr : &value));
  {
    auto manager = ManageOf(broken, {.tolerated_failures = 3});
    ASSERT_EQ(manager.status(), absl::OkStatus());
    EXPECT_THAT(SameError(manager->Save(1).status(),
                          absl::StatusCode::kInvalidArgument),
                HasSubstr("add \"a\": the pointer is null" + by));
    EXPECT_EQ(OnDisk(), Steps());
    EXPECT_EQ(manager->LatestStep(), std::nullopt);
  }
  CheckpointManager manager = Begin({});
  EXPECT_EQ(OnDisk(), Steps({1, 2, 3, 4}));
  if (WorldSize() == 1) return;
  EXPECT_THAT(SameError(manager.Save(is_last() ? 6 : 5).status(),
                        absl::StatusCode::kInvalidArgument),
              HasSubstr("the step, step_counter or force differs"));
  EXPECT_THAT(SameError(manager.Restore(is_last() ? 1 : 2).status(),
                        absl::StatusCode::kInvalidArgument),
              HasSubstr("has \"1\", rank 0 has \"2\""));
  const std::string dir = is_last() ? Run() + "x" : Run();
  EXPECT_THAT(SameError(CheckpointManager::Create(program_.comm(),
                                                  program_.state(), dir)
                            .status(),
                        absl::StatusCode::kInvalidArgument),
              HasSubstr("the directory differs"));
}

TEST_F(StateManagerTest, ACommunicatorThatIsClosed) {
  Comm closed = Ok(Comm::Duplicate(MPI_COMM_WORLD));
  ASSERT_TRUE(closed.Close().ok());
  EXPECT_EQ(
      CheckpointManager::Create(closed, program_.state(), Run())
          .status()
          .message(),
      "manage \"" + Run() + "\": the communicator is closed or was moved from");
}

// Whatever fails on rank 0, all ranks learn the same, the step before stays,
// and the next save works.
TEST_F(StateManagerTest, EveryFaultOfASave) {
  int missed = 0, failed = 0, reached = 1;
  for (int64_t point = 1; reached != 0; ++point) {
    SCOPED_TRACE(point);
    OnRank0([&] { fs::remove_all(Run()); });
    auto manager = Manage({.tolerated_failures = 1});
    ASSERT_EQ(manager.status(), absl::OkStatus());
    SaveAll(*manager, 1, 2);
    if (WorldRank() == 0) fault::Arm(point);
    const auto saved = SaveStep(*manager, 2);
    reached = WorldRank() == 0 && fault::Count() >= point ? 1 : 0;
    fault::Disarm();
    MPI_Bcast(&reached, 1, MPI_INT, 0, MPI_COMM_WORLD);
    EXPECT_THAT(GatherStatus(saved.status()),
                ::testing::Each(saved.status().ToString()));
    failed += saved.ok() ? 0 : 1;
    missed += saved.ok() && saved->failure.has_value() ? 1 : 0;
    program_.Set(0);
    ASSERT_EQ(manager->Restore(1).status(), absl::OkStatus());
    EXPECT_TRUE(program_.Is(1));
    EXPECT_EQ(SaveStep(*manager, 3)->outcome, SaveOutcome::kSaved);
    program_.Set(0);
    ASSERT_EQ(manager->RestoreLatest()->step, 3);
    EXPECT_TRUE(program_.Is(3));
  }
  EXPECT_GT(failed, 0);
  EXPECT_GT(missed, 0);
}

TEST_F(StateManagerTest, AReaderBesideIt) {
  CheckpointManager manager = Begin({.retention = {.max_to_keep = 2}});
  Program other;
  auto reader = CheckpointManager::Create(other.comm(), other.state(), Run(),
                                          {.read_only = true});
  ASSERT_EQ(reader.status(), absl::OkStatus());
  EXPECT_EQ(reader->WaitForNewStep(3, 0).value(), 4);
  ASSERT_EQ(reader->RestoreLatest()->step, 4);
  EXPECT_TRUE(other.Is(4));
  EXPECT_EQ(reader->Save(9)->outcome, SaveOutcome::kSkipped);
}

}  // namespace
}  // namespace belay::testing::state_manager_test
