#include <gtest/gtest.h>

#include "manager/save_decision.h"

namespace belay::loop_cost_test {
namespace {

// A loop of steps of one second, which a save may make slower.
class LoopCostTest : public ::testing::Test {
 protected:
  void Steps(int count, double seconds = 1, bool is_saving = false) {
    for (int i = 0; i < count; ++i) {
      now_ += seconds;
      NoteStep(now_, is_saving, loop_);
    }
  }

  void Save(double call_seconds) {
    NoteSave(loop_);
    now_ += call_seconds;
    NoteCall(call_seconds, loop_);
  }

  double now_ = 100;
  LoopCost loop_;
};

TEST_F(LoopCostTest, NothingIsKnownBeforeTheStepsAfterASave) {
  EXPECT_FALSE(EstimateCost(loop_).has_value());
  Steps(20);
  EXPECT_FALSE(EstimateCost(loop_).has_value());
  Save(3);
  EXPECT_FALSE(EstimateCost(loop_).has_value());
  Steps(7);
  EXPECT_FALSE(EstimateCost(loop_).has_value());
  Steps(1);
  EXPECT_NEAR(*EstimateCost(loop_), 3, 1e-9);
}

TEST_F(LoopCostTest, SlowerStepsAreACost) {
  Steps(20);
  Save(3);
  Steps(2, 1.5);
  Steps(20);
  EXPECT_NEAR(*EstimateCost(loop_), 4, 1e-9);
}

// All steps until it has ended count, however many they are.
TEST_F(LoopCostTest, ASaveInTheBackgroundCostsSlowerSteps) {
  Steps(20);
  Save(0.25);
  Steps(100, 1.125, true);
  EXPECT_FALSE(EstimateCost(loop_).has_value());
  Steps(1);
  EXPECT_NEAR(*EstimateCost(loop_), 0.25 + 100 * 0.125, 1e-6);
}

// Jitter never makes a save cheaper than its call.
TEST_F(LoopCostTest, NoLessThanTheCall) {
  Steps(20);
  Save(3);
  Steps(20, 0.5);
  EXPECT_NEAR(*EstimateCost(loop_), 3, 1e-9);
}

TEST_F(LoopCostTest, TheMedianOfTheLastFew) {
  Steps(20);
  for (const double call : {50.0, 1.0, 9.0, 2.0, 8.0, 3.0}) {
    Save(call);
    Steps(20);
  }
  EXPECT_NEAR(*EstimateCost(loop_), 3, 1e-6);
}

// The next one comes before its cost is sure: what is known counts.
TEST_F(LoopCostTest, SavesThatFollowEachOther) {
  Steps(20);
  Save(2);
  Save(5);  // not even one step
  Steps(3);
  Save(1);
  EXPECT_NEAR(*EstimateCost(loop_), 7, 1e-9);
}

TEST_F(LoopCostTest, AValidationAfterEachSaveIsNoCostOfIt) {
  Steps(20);
  for (int i = 0; i < 5; ++i) {
    Save(2);
    Steps(1, 60);
    Steps(30);
  }
  EXPECT_LE(*EstimateCost(loop_), 2 + 4);
}

TEST_F(LoopCostTest, FirstSaveOfALoopIsNoMeasure) {
  Save(5);
  Steps(30);
  EXPECT_FALSE(EstimateCost(loop_).has_value());
  Save(2);
  Steps(30);
  EXPECT_NEAR(*EstimateCost(loop_), 2, 1e-9);
}

TEST_F(LoopCostTest, APauseIsNoStep) {
  Steps(20);
  Save(2);
  NotePause(loop_);
  now_ += 1000;
  Steps(30);
  EXPECT_FALSE(EstimateCost(loop_).has_value());
  Save(2);
  Steps(30);
  EXPECT_NEAR(*EstimateCost(loop_), 2, 1e-9);
}

// A loop that becomes slower does not make its saves look expensive for long.
TEST_F(LoopCostTest, OlderStepsHaveLessWeight) {
  Steps(2000, 1);
  Steps(3000, 2);
  Save(4);
  Steps(8, 2);
  EXPECT_NEAR(*EstimateCost(loop_), 4, 0.3);
}

}  // namespace
}  // namespace belay::loop_cost_test
