#include <gtest/gtest.h>

#include "core/text.h"

namespace belay::first_of_test {
namespace {

TEST(FirstOfTest, SaysHowManyMoreThereAre) {
  const std::vector<int> ranks = {0, 1, 5};
  EXPECT_EQ(JoinFirst(ranks, 4, ", "), "0, 1, 5");
  EXPECT_EQ(JoinFirst(ranks, 3, ", "), "0, 1, 5");
  EXPECT_EQ(JoinFirst(ranks, 2, ", "), "0, 1, and 1 more");
  const std::vector<std::string> texts = {"a", "b", "c"};
  EXPECT_EQ(JoinFirst(texts, 1, "; "), "a; and 2 more");
  EXPECT_EQ(JoinFirst(std::vector<int>(), 1, ", "), "");
}

}  // namespace
}  // namespace belay::first_of_test
