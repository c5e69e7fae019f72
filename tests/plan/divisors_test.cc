#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "plan/chunks.h"

namespace belay::divisors_test {
namespace {

using ::testing::ElementsAre;

PrimePowers PowersOf(const std::vector<int64_t>& factors) {
  PrimePowers powers;
  for (const int64_t factor : factors) MultiplyBy(Factorize(factor), powers);
  return powers;
}

// By trial of every number.
DivisorList TrialDivisors(int64_t number) {
  DivisorList divisors;
  for (int64_t i = 1; i <= number; ++i) {
    if (number % i == 0) divisors.push_back(i);
  }
  return divisors;
}

TEST(SubchunkingTest, FindDivisors) {
  EXPECT_THAT(Divisors(1), ElementsAre(1));
  EXPECT_THAT(Divisors(12), ElementsAre(1, 2, 3, 4, 6, 12));
  for (int64_t number = 1; number <= 3000; ++number) {
    EXPECT_EQ(Divisors(number), TrialDivisors(number)) << number;
  }
}

TEST(DivisorsTest, LargeNumbers) {
  EXPECT_THAT(Divisors(2147483647), ElementsAre(1, 2147483647));
  EXPECT_THAT(Divisors(int64_t{65537} * 65537),
              ElementsAre(1, 65537, int64_t{65537} * 65537));
  EXPECT_THAT(Divisors(int64_t{1048573} * 1048571),
              ElementsAre(1, 1048571, 1048573, int64_t{1048573} * 1048571));
  EXPECT_EQ(Divisors(int64_t{1} << 62).size(), 63);
  EXPECT_EQ(Divisors(897612484786617600).size(), 103680);  // the most there are
}

TEST(DivisorsTest, OfAnyPrimeAboveTheSearchedOnesOnlyTheProduct) {
  const int64_t product = int64_t{1073741827} * 1073741831;
  EXPECT_THAT(Divisors(product), ElementsAre(1, product));
}

TEST(DivisorsTest, OfAProductThatFitsNoNumber) {
  const int64_t large = int64_t{1} << 62;
  const PrimePowers powers = PowersOf({large, large, 3});
  EXPECT_EQ(LargestDivisorUpTo(large, powers), large);
  EXPECT_EQ(LargestDivisorUpTo(large - 1, powers), large / 4 * 3);
  EXPECT_EQ(LargestDivisorUpTo(1, powers), 1);
}

TEST(DivisorsTest, UpToALimit) {
  std::mt19937_64 rng(1);
  for (int i = 0; i < 2000; ++i) {
    std::vector<int64_t> factors;
    int64_t product = 1;
    for (int j = 0; j < 3; ++j) {
      factors.push_back(1 + static_cast<int64_t>(rng() % 30));
      product *= factors.back();
    }
    const auto limit = 1 + static_cast<int64_t>(rng() % 30000);
    DivisorList need;
    for (const int64_t divisor : TrialDivisors(product)) {
      if (divisor <= limit) need.push_back(divisor);
    }
    DivisorList found = DivisorsUpTo(limit, PowersOf(factors));
    std::sort(found.begin(), found.end());
    EXPECT_EQ(found, need) << product << " up to " << limit;
    EXPECT_EQ(LargestDivisorUpTo(limit, PowersOf(factors)), need.back());
  }
}

}  // namespace
}  // namespace belay::divisors_test
