// What an operator sets by the environment: read on rank 0, the same on all.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>
#include <vector>

#include "belay/log.h"
#include "manager_testing.h"

namespace belay::testing::operator_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class OperatorTest : public ManagerTest {
 protected:
  ~OperatorTest() override {
    SetLogSink(nullptr);
    for (const std::string& name : set_) unsetenv(name.c_str());
  }

  // Sets it on rank 0; on the other ranks something else.
  void Set(const std::string& name, const std::string& value) {
    setenv(name.c_str(), WorldRank() == 0 ? value.c_str() : "nonsense", 1);
    set_.push_back(name);
  }

 private:
  std::vector<std::string> set_;
};

TEST_F(OperatorTest, TakesThePlaceOfOptions) {
  Set("BELAY_DIR", scratch_.File("elsewhere"));
  Set("BELAY_INTERVAL", "3");
  Set("BELAY_KEEP", "2");
  std::vector<std::string> told;
  SetLogSink([&](LogLevel level, std::string_view message) {
    if (message.starts_with("BELAY_")) {
      EXPECT_EQ(level, LogLevel::kInfo);
      told.emplace_back(message);
    }
  });
  auto manager = Manage({.save_policy = {.save_interval_steps = 5},
                         .retention = {.max_to_keep = 7}});
  ASSERT_EQ(manager.status(), absl::OkStatus());
  const auto are_all = ElementsAre(
      "BELAY_DIR: the directory is \"" + scratch_.File("elsewhere") +
          "\" in place of \"" + Run() + "\"",
      "BELAY_INTERVAL: save_interval_steps is 3 in place of 5",
      "BELAY_KEEP: max_to_keep is 2 in place of 7");
  EXPECT_THAT(manager->notes(), are_all);
  SaveAll(*manager, 0, 11);
  if (WorldRank() == 0) {
    EXPECT_THAT(told, are_all);
  } else {
    EXPECT_THAT(told, IsEmpty());
  }
  EXPECT_FALSE(std::filesystem::exists(Run()));
  EXPECT_EQ(ListSteps(scratch_.File("elsewhere")).value(), Steps({6, 9}));
  EXPECT_EQ(manager->StepPath(9), scratch_.File("elsewhere/step_00000009"));
  program_.Set(0);
  EXPECT_EQ(manager->RestoreLatest()->step, 9);
  EXPECT_TRUE(program_.Is(9));
}

// Also where one save has options of its own.
TEST_F(OperatorTest, HowAStepIsSaved) {
  Set("BELAY_TRANSFER", "two_phase");
  Set("BELAY_DURABLE", "0");
  auto manager = Manage();
  ASSERT_EQ(manager.status(), absl::OkStatus());
  EXPECT_EQ(manager->Save(1)->result.transfer, Transfer::kTwoPhase);
  ManagedSaveOptions own;
  own.save = SaveOptions{.transfer = Transfer::kIndependent};
  EXPECT_EQ(manager->Save(2, own)->result.transfer, Transfer::kTwoPhase);
}

TEST_F(OperatorTest, ManagersOfAStateAsWell) {
  Set("BELAY_KEEP", "1");
  auto manager =
      CheckpointManager::Create(program_.comm(), program_.state(), Run());
  ASSERT_EQ(manager.status(), absl::OkStatus());
  SaveAll(*manager, 1, 4);
  EXPECT_EQ(OnDisk(), Steps({3}));
}

TEST_F(OperatorTest, RulesThatWouldContradict) {
  Set("BELAY_INTERVAL", "2");
  Set("BELAY_KEEP", "1");
  auto manager = Manage(
      {.save_policy = {.auto_interval = AutoInterval{.mtbf_seconds = 1e9}},
       .retention = {.preservation = PreserveAll()}});
  ASSERT_EQ(manager.status(), absl::OkStatus());
  SaveAll(*manager, 1, 6);
  EXPECT_EQ(OnDisk(), Steps({4}));
}

TEST_F(OperatorTest, WhatCannotBeParsed) {
  Set("BELAY_KEEP", "three");
  EXPECT_EQ(SameError(Manage().status(), absl::StatusCode::kInvalidArgument),
            "manage \"" + Run() +
                "\": BELAY_KEEP is invalid (need a whole number of at least "
                "0, found \"three\")" +
                OfRank0());
  EXPECT_FALSE(std::filesystem::exists(Run()));
}

TEST_F(OperatorTest, AReaderLooksInTheSameDirectory) {
  auto writer = CheckpointManager::Create(program_.checkpoint(),
                                          scratch_.File("elsewhere"));
  ASSERT_EQ(writer.status(), absl::OkStatus());
  SaveAll(*writer, 1, 3);
  Set("BELAY_DIR", scratch_.File("elsewhere"));
  Set("BELAY_KEEP", "1");
  Set("BELAY_INTERVAL", "4");
  auto reader = Manage({.read_only = true});
  ASSERT_EQ(reader.status(), absl::OkStatus());
  EXPECT_EQ(reader->Steps(), Steps({1, 2}));
}

}  // namespace
}  // namespace belay::testing::operator_test
