#include "core/fault.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace belay::fault_test {
namespace {

class FaultTest : public ::testing::Test {
 protected:
  ~FaultTest() override { fault::Disarm(); }
};

TEST_F(FaultTest, OffByDefaultAndCountsNothing) {
  EXPECT_TRUE(fault::Point("write").ok());
  EXPECT_EQ(fault::Count(), 0);
}

TEST_F(FaultTest, ZeroOnlyCounts) {
  fault::Arm(0);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(fault::Point("write").ok());
  EXPECT_EQ(fault::Count(), 5);
}

TEST_F(FaultTest, ExactlyTheChosenPointFails) {
  fault::Arm(3);
  EXPECT_TRUE(fault::Point("open").ok());
  EXPECT_TRUE(fault::Point("write").ok());
  EXPECT_EQ(fault::Point("MPI_Allreduce"),
            absl::InternalError("MPI_Allreduce: injected fault"));
  EXPECT_TRUE(fault::Point("close").ok());
  EXPECT_EQ(fault::Count(), 4);
}

TEST_F(FaultTest, ArmStartsAgain) {
  fault::Arm(1);
  EXPECT_FALSE(fault::Point("open").ok());
  fault::Arm(2);
  EXPECT_EQ(fault::Count(), 0);
  EXPECT_TRUE(fault::Point("open").ok());
  EXPECT_FALSE(fault::Point("open").ok());
}

TEST_F(FaultTest, DisarmStopsFailingAndKeepsTheCount) {
  fault::Arm(2);
  EXPECT_TRUE(fault::Point("open").ok());
  fault::Disarm();
  EXPECT_TRUE(fault::Point("write").ok());
  EXPECT_EQ(fault::Count(), 1);
}

TEST_F(FaultTest, OneFailureAmongManyThreads) {
  constexpr int kThreads = 4;
  constexpr int kPoints = 1000;
  std::vector<int> failures(kThreads, 0);
  fault::Arm(1777);
  std::vector<std::thread> threads;
  for (int& mine : failures) {
    threads.emplace_back([&mine] {
      for (int i = 0; i < kPoints; ++i) mine += !fault::Point("write").ok();
    });
  }
  for (std::thread& thread : threads) thread.join();
  int sum = 0;
  for (int mine : failures) sum += mine;
  EXPECT_EQ(sum, 1);
  EXPECT_EQ(fault::Count(), kThreads * kPoints);
}

}  // namespace
}  // namespace belay::fault_test
