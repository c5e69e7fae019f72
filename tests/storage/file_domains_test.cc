#include <gtest/gtest.h>

#include <numeric>

#include "storage/transfer.h"

namespace belay::file_domains_test {
namespace {

TEST(FileDomainsTest, WeightsAreThoseOfTheRanges) {
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
  AddWeights({}, edges, weights);
  EXPECT_EQ(std::accumulate(weights.begin(), weights.end(), int64_t{0}),
            4000 + 39 + 6 * kSegmentWeight);
}

TEST(FileDomainsTest, UnitsAreMultiplesOfStripes) {
  constexpr int64_t kMiB = int64_t{1} << 20;
  EXPECT_EQ(DomainUnit(0, 40 * kMiB), kDomainAlignment);
  EXPECT_EQ(DomainUnit(kMiB, 40 * kMiB), kMiB);
  EXPECT_EQ(DomainUnit(4 * kMiB, 40 * kMiB), 4 * kMiB);
  EXPECT_EQ(DomainUnit(65536, 40 * kMiB), kMiB);
  EXPECT_EQ(DomainUnit(5 * 65536, 40 * kMiB), 4 * 5 * 65536);
  EXPECT_EQ(DomainUnit(65536, kMiB / 6), 65536);
  EXPECT_EQ(DomainUnit(4 * kMiB, kMiB), 4 * kMiB);
}

}  // namespace
}  // namespace belay::file_domains_test
