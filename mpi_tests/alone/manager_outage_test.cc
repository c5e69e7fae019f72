// The file system goes away under a manager, and comes back.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "manager_testing.h"
#include "outage.h"

namespace belay {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::HasSubstr;
using testing::ManagerTest;
using ::testing::MatchesRegex;
using testing::OnRank0;
using testing::outage;
using testing::Outage;
using testing::Steps;
using testing::WorldRank;
using testing::WorldSize;

class ManagerOutageTest : public ManagerTest {
 protected:
  ~ManagerOutageTest() override { outage = {}; }

  // After so many calls this rank, or all, sees nothing of the directory.
  void GoAway(int64_t after = 0, std::optional<int> rank = std::nullopt,
              int error = ENOTCONN) {
    outage = {};
    if (rank.value_or(WorldRank()) == WorldRank()) {
      outage = {.below = Run(), .after = after, .error = error};
    }
  }
  static void ComeBack() { outage = {}; }

  // The same with its end, if that is in the background.
  StatusOr<ManagedSave> SaveWhole(CheckpointManager& manager, int64_t step) {
    StatusOr<ManagedSave> saved = SaveStep(manager, step);
    if (!saved.ok() || saved->outcome != SaveOutcome::kBegun) return saved;
    program_.Set(-1);
    auto ended = manager.Wait();
    if (!ended.ok()) return ended.status();
    if (!*ended) return absl::NotFoundError("nothing was under way");
    return **std::move(ended);
  }

  StatusOr<ManagedSave> SaveAway(CheckpointManager& manager, int64_t step,
                                 const ManagedSaveOptions& how = {}) {
    GoAway();
    auto saved = SaveStep(manager, step, how);
    ComeBack();
    return saved;
  }

  bool HasDebris() const {
    MPI_Barrier(MPI_COMM_WORLD);
    bool has = false;
    for (const auto& entry : fs::directory_iterator(Run())) {
      has = has || entry.path().extension() == ".inprogress";
    }
    MPI_Barrier(MPI_COMM_WORLD);
    return has;
  }

  // Expects that step 3 was missed, or is there, in the same way on all ranks,
  // and that the manager goes on as if nothing had been.
  void ExpectToGoOn(CheckpointManager& manager,
                    const StatusOr<ManagedSave>& saved) {
    SameError(saved.status(), absl::StatusCode::kOk);
    ASSERT_EQ(saved.status(), absl::OkStatus());
    EXPECT_EQ(saved->failure.has_value(),
              saved->outcome != SaveOutcome::kSaved);
    const Status failure = saved->failure.value_or(absl::OkStatus());
    const absl::StatusCode code = absl::IsNotFound(failure)
                                      ? absl::StatusCode::kNotFound
                                      : absl::StatusCode::kUnavailable;
    SameError(failure, saved->outcome == SaveOutcome::kSaved
                           ? absl::StatusCode::kOk
                           : code);
    const auto next = SaveWhole(manager, 4);
    ASSERT_EQ(next.status(), absl::OkStatus());
    EXPECT_EQ(next->outcome, SaveOutcome::kSaved) << next->reason;
    EXPECT_FALSE(HasDebris()) << failure;
    const Steps disk = OnDisk();
    EXPECT_EQ(manager.Steps(), disk);
    EXPECT_EQ(Active(manager), disk);
    EXPECT_THAT(disk, Contains(2));
    if (saved->outcome == SaveOutcome::kSaved) {
      EXPECT_THAT(disk, Contains(3));
    }
    program_.Set(0);
    EXPECT_EQ(manager.RestoreLatest()->step, 4);
    EXPECT_TRUE(program_.Is(4));
  }
};

// From each call of a save on, on each rank and on all of them.
class AnyOutageTest
    : public ManagerOutageTest,
      public ::testing::WithParamInterface<std::tuple<int, bool>> {};

TEST_P(AnyOutageTest, ASaveThatFailsAnywhereIsMadeUpFor) {
  const auto [error, in_background] = GetParam();
  std::vector<std::optional<int>> victims = {std::nullopt, 0};
  if (WorldSize() > 1) victims.emplace_back(WorldSize() - 1);
  int64_t tried = 0;
  for (const std::optional<int> victim : victims) {
    for (int64_t after = 0;; after += after < 12 ? 1 : 3) {
      SCOPED_TRACE(::testing::Message()
                   << "after " << after << " calls, on rank "
                   << victim.value_or(-1));
      ManagerOptions options{.tolerated_failures = 1,
                             .retention = {.max_to_keep = 9},
                             .save = {.deadline_seconds = 1}};
      if (in_background) options.async = AsyncOptions();
      auto manager = Manage(options);
      ASSERT_EQ(manager.status(), absl::OkStatus());
      for (const int64_t step : {1, 2}) SaveWhole(*manager, step).IgnoreError();
      GoAway(after, victim, error);
      const auto saved = SaveWhole(*manager, 3);
      int64_t failed_here = outage.calls > after ? 1 : 0;
      ComeBack();
      MPI_Allreduce(MPI_IN_PLACE, &failed_here, 1, MPI_INT64_T, MPI_MAX,
                    MPI_COMM_WORLD);
      ExpectToGoOn(*manager, saved);
      if (HasFailure()) return;
      manager = absl::UnknownError("ended");
      OnRank0([&] { fs::remove_all(Run()); });
      if (failed_here == 0) break;
      ++tried;
    }
  }
  EXPECT_GT(tried, 40);
}

// The server has gone; a node sees the directory as if nothing were there.
INSTANTIATE_TEST_SUITE_P(All, AnyOutageTest,
                         ::testing::Combine(::testing::Values(ENOTCONN, ENOENT),
                                            ::testing::Bool()));

TEST_F(ManagerOutageTest, ItIsToldAndThePreviousStepsStay) {
  auto manager =
      Manage({.tolerated_failures = 2, .retention = {.max_to_keep = 1}});
  SaveAll(*manager, 1, 2);
  const auto missed = SaveAway(*manager, 2);
  ASSERT_EQ(missed.status(), absl::OkStatus());
  EXPECT_EQ(missed->outcome, SaveOutcome::kFailed);
  ASSERT_TRUE(missed->failure.has_value());
  const std::string reason =
      "the save of step 2 failed, which is tolerated (missed 1 of at most 2 in "
      "a row): " +
      missed->failure->ToString();
  EXPECT_EQ(missed->reason, reason);
  EXPECT_THAT(missed->notes, ::testing::ElementsAre(reason));
  EXPECT_THAT(manager->notes(), Contains(reason));
  EXPECT_THAT(std::string(missed->failure->message()),
              HasSubstr("transport endpoint is not connected"));
  EXPECT_EQ(program_.checkpoint().save_counter(), 1);
  EXPECT_EQ(manager->Steps(), Steps({1}));
  EXPECT_EQ(OnDisk(), Steps({1}));
  // The same step can be saved again.
  EXPECT_EQ(SaveStep(*manager, 2)->outcome, SaveOutcome::kSaved);
  EXPECT_EQ(OnDisk(), Steps({2}));
  EXPECT_THAT(manager->notes(),
              Contains("saving works again; missed in a row: 1"));
}

TEST_F(ManagerOutageTest, MoreInARowAreAnError) {
  auto manager = Manage({.tolerated_failures = 2});
  for (const int64_t first : {10, 20}) {
    for (const int64_t step : {first, first + 1}) {
      EXPECT_TRUE(SaveAway(*manager, step)->failure.has_value());
    }
    if (first == 10) {
      EXPECT_EQ(SaveStep(*manager, 12)->outcome,
                SaveOutcome::kSaved);  // counts anew from here
    }
  }
  for (int i = 0; i < 2; ++i) {
    SameError(SaveAway(*manager, 22 + i).status(),
              absl::StatusCode::kUnavailable);
  }
  EXPECT_EQ(OnDisk(), Steps({12}));
  EXPECT_EQ(SaveStep(*manager, 24)->outcome, SaveOutcome::kSaved);
  EXPECT_TRUE(SaveAway(*manager, 25)->failure.has_value());
}

TEST_F(ManagerOutageTest, NoneIsToleratedUnlessAskedFor) {
  auto manager = Manage();
  SameError(SaveAway(*manager, 1).status(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(SaveStep(*manager, 2)->outcome, SaveOutcome::kSaved);
}

// No rule would try it again: the program may end with it.
TEST_F(ManagerOutageTest, AForcedSaveFailsUnlessTheCallerToleratesIt) {
  auto manager = Manage(
      {.save_policy = {.save_interval_steps = 10}, .tolerated_failures = 1});
  SaveAll(*manager, 0, 1);
  SameError(SaveAway(*manager, 3, {.force = true}).status(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(SaveStep(*manager, 4)->reason,
            "step 4 is neither a multiple of 10 nor in save_on_steps");
  EXPECT_TRUE(SaveAway(*manager, 5, {.force = true, .tolerate_failure = true})
                  ->failure.has_value());
  SameError(SaveAway(*manager, 10, {.tolerate_failure = false}).status(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(SaveStep(*manager, 20)->outcome, SaveOutcome::kSaved);
  EXPECT_FALSE(HasDebris());
}

// What a mistake of the program is stays an error.
TEST_F(ManagerOutageTest, OnlyTheFileSystemIsTolerated) {
  bool throws = false;
  auto manager =
      Manage({.save_policy = {.should_save =
                                  [&](int64_t, std::optional<int64_t>) {
                                    if (throws) throw std::runtime_error("no");
                                    return true;
                                  }},
              .tolerated_failures = 9});
  throws = true;
  SameError(SaveStep(*manager, 1).status(), absl::StatusCode::kInternal);
  throws = false;
  SameError(SaveStep(*manager, -1).status(),
            absl::StatusCode::kInvalidArgument);
  program_.on_track = [] { throw std::runtime_error("none"); };
  EXPECT_FALSE(SaveStep(*manager, 1).ok());
  program_.on_track = nullptr;
  OnRank0([&] { fs::create_directory(StepDir(1)); });
  SameError(SaveStep(*manager, 1).status(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(SaveStep(*manager, 2)->outcome, SaveOutcome::kSaved);
}

// The rules ask for every tenth step; the missed one is made up for once ten
// seconds have passed, and ten times as long as the failure took.
TEST_F(ManagerOutageTest, AMissedSaveIsMadeUpForLater) {
  auto manager = Manage(
      {.save_policy = {.save_interval_steps = 10}, .tolerated_failures = 1});
  SaveAll(*manager, 0, 1);
  EXPECT_TRUE(SaveAway(*manager, 10)->failure.has_value());
  time_ += 9;
  EXPECT_EQ(SaveStep(*manager, 11)->outcome, SaveOutcome::kSkipped);
  time_ += 1;
  // One that is to make up for it and fails as well does not count.
  for (int64_t step = 12; step < 15; ++step) {
    EXPECT_TRUE(SaveAway(*manager, step)->failure.has_value());
    EXPECT_EQ(SaveStep(*manager, step)->reason,
              "step " + std::to_string(step) +
                  " is neither a multiple of 10 nor in save_on_steps");
    time_ += 10;
  }
  EXPECT_EQ(SaveStep(*manager, 15)->outcome, SaveOutcome::kSaved);
  EXPECT_EQ(SaveStep(*manager, 16)->outcome, SaveOutcome::kSkipped);
  program_.on_track = [&] {  // how long it takes to fail
    time_ += 5;
    GoAway();
  };
  EXPECT_TRUE(SaveStep(*manager, 20)->failure.has_value());
  ComeBack();
  program_.on_track = nullptr;
  time_ += 49;
  EXPECT_EQ(SaveStep(*manager, 21)->outcome, SaveOutcome::kSkipped);
  time_ += 1;
  EXPECT_EQ(SaveStep(*manager, 22)->outcome, SaveOutcome::kSaved);
}

TEST_F(ManagerOutageTest, ShouldSaveAsksForWhatWasMissed) {
  auto manager = Manage(
      {.save_policy = {.save_interval_steps = 10}, .tolerated_failures = 1});
  const auto asks = [&](int64_t step) {
    const auto due = manager->ShouldSave(step);
    EXPECT_EQ(due.status(), absl::OkStatus());
    return due.value_or(false);
  };
  EXPECT_TRUE(asks(10));
  EXPECT_TRUE(SaveAway(*manager, 10)->failure.has_value());
  EXPECT_FALSE(asks(11));
  time_ += 10;
  EXPECT_FALSE(asks(12));  // rank 0 tells it in this call
  EXPECT_TRUE(asks(13));
  EXPECT_TRUE(SaveAway(*manager, 13)->failure.has_value());
  EXPECT_FALSE(asks(14));
  time_ += 10;
  EXPECT_FALSE(asks(15));
  EXPECT_TRUE(asks(16));
  EXPECT_EQ(SaveStep(*manager, 16)->outcome, SaveOutcome::kSaved);
  EXPECT_FALSE(asks(17));
  time_ += 100;
  EXPECT_FALSE(asks(18));
  EXPECT_FALSE(asks(19));
  EXPECT_TRUE(asks(20));
}

TEST_F(ManagerOutageTest, RulesOfOtherKindsAskAgainLaterToo) {
  const auto every_third = [](int64_t step, std::optional<int64_t> latest) {
    return !latest || step - *latest >= 3;
  };
  int64_t counter = 0;
  for (const ManagerOptions& options :
       {ManagerOptions{.save_policy = {.should_save = every_third},
       .tolerated_failures = 1},
        ManagerOptions{
            .save_policy = {.step_counter = &counter, .checkpoint_interval = 3},
           .tolerated_failures = 1}}) {
    auto manager = Manage(options);
    const auto save = [&](int64_t step) {
      counter = step;
      return SaveStep(*manager, step);
    };
    const auto save_away = [&](int64_t step) {
      counter = step;
      return SaveAway(*manager, step);
    };
    EXPECT_TRUE(save_away(10)->failure.has_value());
    EXPECT_EQ(save(11)->outcome, SaveOutcome::kSkipped);
    EXPECT_EQ(save(12)->outcome, SaveOutcome::kSkipped);
    SameError(save_away(13).status(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(save(14)->outcome, SaveOutcome::kSaved);
    EXPECT_EQ(save(15)->outcome, SaveOutcome::kSkipped);
    EXPECT_TRUE(save_away(17)->failure.has_value());
    time_ += 10;
    EXPECT_EQ(save(18)->outcome, SaveOutcome::kSaved);
    manager = absl::UnknownError("ended");
    OnRank0([&] { fs::remove_all(Run()); });
  }
}

TEST_F(ManagerOutageTest, AnIntervalOfTimeBeginsAnew) {
  auto manager = Manage(
      {.save_policy = {.auto_interval = AutoInterval{.mtbf_seconds = 1e4}},
       .tolerated_failures = 1});
  program_.on_track = [&] { time_ += 1; };
  EXPECT_EQ(SaveStep(*manager, 1)->outcome, SaveOutcome::kSaved);
  time_ += 1000;
  EXPECT_TRUE(SaveAway(*manager, 2)->failure.has_value());
  EXPECT_THAT(SaveStep(*manager, 3)->reason, HasSubstr("auto_interval"));
  time_ += 10;
  EXPECT_EQ(SaveStep(*manager, 4)->outcome, SaveOutcome::kSaved);
}

// The job is started again and goes on from the step before.
TEST_F(ManagerOutageTest, TheLastSaveIsMissed) {
  auto manager = Manage({.save_policy = {.save_interval_steps = 10},
                         .tolerated_failures = 1,
                         .stop_signals = {SIGUSR1}});
  SaveAll(*manager, 0, 1);
  EXPECT_FALSE(manager->ShouldSave(1).value());
  raise(SIGUSR1);
  EXPECT_FALSE(manager->ShouldSave(2).value());
  EXPECT_TRUE(manager->ShouldSave(3).value());
  EXPECT_TRUE(SaveAway(*manager, 3)->failure.has_value());
  EXPECT_TRUE(manager->ShouldStop().has_value());
  // It is owed as long as the program goes on.
  EXPECT_TRUE(manager->ShouldSave(4).value());
  EXPECT_EQ(SaveStep(*manager, 4)->outcome, SaveOutcome::kSaved);
  EXPECT_FALSE(manager->ShouldSave(5).value());
}

TEST_F(ManagerOutageTest, AnotherManagerHasTakenTheLease) {
  auto manager = Manage({.tolerated_failures = 9});
  SaveAll(*manager, 1, 2);
  EXPECT_TRUE(SaveAway(*manager, 2)->failure.has_value());
  std::string text = Content("step.lease");
  text.replace(text.find("\"host\":\"") + 8, 0, "not-");
  Put("step.lease", text);
  const std::string message = SameError(SaveStep(*manager, 3).status(),
                                        absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(message, MatchesRegex("renew the lease \".*/run/step.lease\": "
                                    "taken meanwhile by process .* on host "
                                    "\"not-.*"));
  EXPECT_EQ(OnDisk(), Steps({1}));
}

}  // namespace
}  // namespace belay
