#include <gtest/gtest.h>

#include <chrono>

#include "save/node_progress.h"

namespace belay::stall_watch_test {
namespace {

using std::chrono::seconds;

TEST(StallWatch, WhatChangesIsNotStuck) {
  StallWatch watch;
  StallWatch::Time now;
  for (int i = 0; i < 10; ++i) {
    EXPECT_FALSE(watch.IsStuck(now += seconds(100), i, 5));
  }
}

TEST(StallWatch, WhatDoesNotChangeIsStuckAtTheSecondLook) {
  StallWatch watch;
  StallWatch::Time now;
  EXPECT_FALSE(watch.IsStuck(now, 7, 5));
  EXPECT_FALSE(watch.IsStuck(now += seconds(4), 7, 5));
  EXPECT_FALSE(watch.IsStuck(now += seconds(2), 7, 5));
  EXPECT_FALSE(watch.IsStuck(now, 7, 5));
  EXPECT_TRUE(watch.IsStuck(now += seconds(1), 7, 5));
  EXPECT_TRUE(watch.IsStuck(now += seconds(1), 7, 5));
}

TEST(StallWatch, ASuspendedProcessMayGoOn) {
  StallWatch watch;
  StallWatch::Time now;
  EXPECT_FALSE(watch.IsStuck(now, 7, 5));
  EXPECT_FALSE(watch.IsStuck(now += seconds(3600), 7, 5));
  EXPECT_FALSE(watch.IsStuck(now += seconds(1), 8, 5));
  EXPECT_FALSE(watch.IsStuck(now += seconds(1), 8, 5));
}

TEST(StallWatch, ThereMayBeNoLimit) {
  StallWatch watch;
  StallWatch::Time now;
  for (int i = 0; i < 10; ++i) {
    EXPECT_FALSE(watch.IsStuck(now += seconds(1000), 7, 0));
  }
}

}  // namespace
}  // namespace belay::stall_watch_test
