// Which number Checkpoint::Save gives a step.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "belay/checkpoint.h"
#include "values.h"

namespace belay::checkpoint_number_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Ok;

using CheckpointNumberTest = testing::CheckpointTest;

// The steps that are given up stay, and the newest one is of the new branch.
TEST_F(CheckpointNumberTest, AfterAnOlderStepTheNextNumberIsFree) {
  float v = 1;
  Checkpoint checkpoint(comm_, {{"v", v}});
  for (; v <= 3; ++v) Ok(checkpoint.Save(run()));
  Ok(checkpoint.Restore(StepPath(run(), 1)));
  EXPECT_EQ(v, 1);
  v = 10;
  // A failure gives no number away.
  EXPECT_FALSE(checkpoint.Save(run() + "/none/at/all").ok());
  EXPECT_EQ(checkpoint.save_counter(), 1);
  const StatusOr<SaveResult> saved = checkpoint.Save(run());
  Ok(saved);
  EXPECT_EQ(saved->step, 4);
  EXPECT_THAT(saved->warnings,
              ElementsAre(AllOf(HasSubstr("step 1 was restored"),
                                HasSubstr("has steps up to 3"))));
  EXPECT_EQ(checkpoint.save_counter(), 4);
  v = 11;
  const StatusOr<SaveResult> next = checkpoint.Save(run());
  Ok(next);
  EXPECT_EQ(next->step, 5);
  EXPECT_TRUE(next->warnings.empty());
  Ok(checkpoint.Restore(run()));
  EXPECT_EQ(v, 11);
  // Who wants the numbers again says so.
  Ok(checkpoint.Restore(StepPath(run(), 1)));
  const StatusOr<SaveResult> again =
      checkpoint.Save(run(), {.overwrite = true});
  EXPECT_EQ(again->step, 2);
  EXPECT_THAT(again->warnings,
              ElementsAre(HasSubstr("has steps up to 5: step 2 is not the one "
                                    "that a restore of the latest takes")));
  // A new run that forgets to restore is told.
  Checkpoint other(comm_, {{"v", v}});
  EXPECT_TRUE(absl::IsAlreadyExists(other.Save(run()).status()));
}

}  // namespace
}  // namespace belay::checkpoint_number_test
