#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "plan/listed_ranks.h"

namespace belay::progressions_test {
namespace {

Progressions Of(const std::vector<int64_t>& values) {
  Progressions all;
  for (const int64_t value : values) all.Append(value);
  return all;
}

Progressions Sent(const Progressions& all) {
  return Decode<Progressions>(Encode(all)).value();
}

// The same answers as a vector gives.
void ExpectLike(const std::vector<int64_t>& values, const Progressions& all) {
  ASSERT_EQ(all.size(), std::ssize(values));
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(all[static_cast<int64_t>(i)], values[i]) << i;
  }
  if (values.empty()) return;
  EXPECT_EQ(all.back(), values.back());
  if (!std::is_sorted(values.begin(), values.end())) return;
  for (int64_t v = values.front() - 2; v <= values.back() + 2; ++v) {
    const auto bound = std::upper_bound(values.begin(), values.end(), v);
    ASSERT_EQ(all.UpperBound(v), bound - values.begin()) << v;
  }
}

TEST(ProgressionsTest, ARuleTakesOneRun) {
  Progressions all;
  for (int64_t i = 0; i < 100000; ++i) all.Append(7 + 6 * i);
  EXPECT_EQ(all.num_runs(), 1u);
  EXPECT_EQ(all.UpperBound(7 + 6 * 500), 501);
  EXPECT_EQ(all.UpperBound(INT64_MAX), 100000);
}

TEST(ProgressionsTest, UnevenRowsTakeTwo) {
  const Progressions all = Of({4, 8, 12, 15, 18, 21});
  EXPECT_EQ(all.num_runs(), 2u);
}

TEST(ProgressionsTest, NothingIsEmpty) {
  EXPECT_EQ(Progressions().size(), 0);
  EXPECT_EQ(Progressions().UpperBound(0), 0);
  ExpectLike({}, Sent({}));
}

TEST(ProgressionsTest, AnswersLikeAVector) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 300; ++round) {
    std::vector<int64_t> values;
    const size_t size = random() % 40;
    const auto widest = static_cast<int64_t>(1 + random() % 4);
    int64_t value = static_cast<int64_t>(random() % 20) - 10;
    while (values.size() < size) {
      values.push_back(value);
      value += static_cast<int64_t>(random() % static_cast<uint64_t>(widest));
    }
    if (round % 3 == 0) std::shuffle(values.begin(), values.end(), random);
    ExpectLike(values, Of(values));
    ExpectLike(values, Sent(Of(values)));
  }
}

}  // namespace
}  // namespace belay::progressions_test
