#include "store/stripes.h"

#include <gtest/gtest.h>

#include <numeric>

namespace belay::stripes_test {
namespace {

TEST(StripesTest, WeightsAreThoseOfTheRanges) {
  const std::vector<int64_t> edges = {0, 10, 20, 40, 100};
  const Segments segments = {{nullptr, 3, 4},    // in the first
                             {nullptr, 8, 4},    // in the first two
                             {nullptr, 25, 30},  // in the last two
                             {nullptr, 99, 1}};
  std::vector<int64_t> weights(4, 1000);
  AddWeights(segments, edges, weights);
  EXPECT_EQ(weights, (std::vector<int64_t>{
                         1000 + 4 + 2 + 2 * kSegmentWeight,
                         1000 + 2 + kSegmentWeight, 1000 + 15 + kSegmentWeight,
                         1000 + 15 + 1 + 2 * kSegmentWeight}));
  EXPECT_EQ(WeightOf(segments), 39 + 4 * kSegmentWeight);
  AddWeights({}, edges, weights);
  EXPECT_EQ(std::accumulate(weights.begin(), weights.end(), int64_t{0}),
            4000 + 39 + 6 * kSegmentWeight);
}

}  // namespace
}  // namespace belay::stripes_test
