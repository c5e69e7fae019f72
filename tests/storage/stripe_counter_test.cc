#include <gtest/gtest.h>

#include <vector>

#include "storage/file_system.h"

namespace belay::stripe_counter_test {
namespace {

TEST(StripeCounterTest, WritesAreCutAtTheBordersOfStripes) {
  StripeCounter counter({.stripe_bytes = 4096, .servers = 3});
  counter.Add(0, 1);             // stripe 0
  counter.Add(4000, 200);        // 0 and 1
  counter.Add(4096 * 3, 8192);   // 3 and 4
  counter.Add(4096 * 9 - 1, 1);  // 8
  counter.Add(5000, 0);          // none
  StripeCounts counts{.stripes = 100, .requests = 1000, .server_requests = {7}};
  counter.AddTo(counts);
  EXPECT_EQ(counts.stripes, 105);
  EXPECT_EQ(counts.requests, 1006);
  EXPECT_EQ(counts.server_requests, (std::vector<int64_t>{7 + 3, 2, 1}));
}

TEST(StripeCounterTest, WithoutStripesNothingIsCounted) {
  StripeCounter counter(Striping{});
  counter.Add(0, 100);
  StripeCounts counts;
  counter.AddTo(counts);
  EXPECT_EQ(counts.stripes, 0);
  EXPECT_EQ(counts.requests, 0);
  EXPECT_TRUE(counts.server_requests.empty());
  StripeCounter unknown({.stripe_bytes = 4096});
  unknown.Add(4095, 2);
  unknown.AddTo(counts);
  EXPECT_EQ(counts.stripes, 2);
  EXPECT_EQ(counts.requests, 2);
  EXPECT_TRUE(counts.server_requests.empty());
}

}  // namespace
}  // namespace belay::stripe_counter_test
