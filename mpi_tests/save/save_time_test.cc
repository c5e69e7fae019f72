// The time of a save in the index: that of rank 0, or of the environment.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <string>
#include <vector>

#include "belay/async_saver.h"
#include "belay/checkpoint_reader.h"
#include "belay/save_restore.h"
#include "values.h"

namespace belay::save_time_test {
namespace {

using testing::FileBytes;
using ::testing::HasSubstr;
using testing::IsSameEverywhere;
using testing::Ok;

class SaveTimeTest : public testing::CheckpointTest {
 protected:
  SaveTimeTest() {
    state_.Add("own", own_);
    state_.AddReplicated("w", {4}, values_);
  }
  ~SaveTimeTest() override { unsetenv("SOURCE_DATE_EPOCH"); }

  // The time of rank 0 counts.
  void SetTime(const std::string& time) {
    setenv("SOURCE_DATE_EPOCH", rank_ == 0 ? time.c_str() : "nonsense", 1);
  }
  int64_t TimeOf(int64_t step) {
    return Ok(ReadCheckpointInfo(StepFile(step, ""))).time;
  }

  double own_ = 1;
  std::vector<float> values_ = {1, 2, 3, 4};
  State state_;
};

TEST_F(SaveTimeTest, IsThatOfTheClock) {
  const int64_t before = std::time(nullptr);
  Ok(Save(comm_, run(), 1, state_));
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_GE(TimeOf(1), before);
  EXPECT_LE(TimeOf(1), std::time(nullptr));
  // As if nothing were set.
  setenv("SOURCE_DATE_EPOCH", "", 1);
  Ok(Save(comm_, run(), 2, state_));
  EXPECT_GE(TimeOf(2), before);
}

// The bytes of the index are those of the last save but for what is known last.
TEST_F(SaveTimeTest, APlanThatIsReusedHasANewOne) {
  PlanCache cache;
  AsyncSaver saver(comm_);
  for (const int64_t step : {1, 2, 3}) {
    SetTime(std::to_string(1000 * step));
    EXPECT_EQ(
        Ok(Save(comm_, run(), step, state_, {.cache = &cache})).plan_reused,
        step > 1);
    Ok(saver.Save(run(), 10 + step, state_));
  }
  EXPECT_EQ(saver.Close(), absl::OkStatus());
  MPI_Barrier(MPI_COMM_WORLD);
  for (const int64_t step : {1, 2, 3}) {
    EXPECT_EQ(TimeOf(step), 1000 * step);
    EXPECT_EQ(TimeOf(10 + step), 1000 * step);
  }
}

TEST_F(SaveTimeTest, EqualTimesMakeEqualFiles) {
  std::vector<std::string> found;
  for (const char* time : {"1700000000", "1700000000", "1700000001"}) {
    SetTime(time);
    Ok(Save(comm_, run(), 1, state_, {.overwrite = true}));
    MPI_Barrier(MPI_COMM_WORLD);
    found.push_back(FileBytes(StepFile(1, "index.h5")));
    MPI_Barrier(MPI_COMM_WORLD);
  }
  EXPECT_TRUE(found[0] == found[1]);
  EXPECT_FALSE(found[0] == found[2]);
}

TEST_F(SaveTimeTest, WhatIsNoTimeIsAnError) {
  for (const char* time : {"x", "-1", "1.5", " 1", "253402300800", "0x10"}) {
    SetTime(time);
    const Status status = Save(comm_, run(), 1, state_).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("SOURCE_DATE_EPOCH: not a time (need seconds since "
                          "1970, found \""));
    EXPECT_TRUE(IsSameEverywhere(status.ToString())) << status;
    EXPECT_FALSE(std::filesystem::exists(StepFile(1, "")));
  }
  SetTime("253402300799");  // 9999-12-31 23:59:59Z
  Ok(Save(comm_, run(), 1, state_));
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_EQ(TimeOf(1), 253402300799);
}

}  // namespace
}  // namespace belay::save_time_test
