#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/keys.h"

namespace belay {
namespace {

TEST(KeyFinderTest, FindsKeysInTheOrderOfTheListAndInAnyOther) {
  const std::vector<std::string> keys = {"a", "b", "c", "d", "e"};
  KeyFinder finder({keys.begin(), keys.end()});
  for (int i = 0; i < 5; ++i) EXPECT_EQ(finder.Find(keys[i]), i);
  for (int i = 4; i >= 0; --i) EXPECT_EQ(finder.Find(keys[i]), i);
  for (int i = 0; i < 5; i += 2) EXPECT_EQ(finder.Find(keys[i]), i);
  EXPECT_EQ(finder.Find("c"), 2);
  EXPECT_EQ(finder.Find("c"), 2);
}

TEST(KeyFinderTest, SaysWhichKeysAreNotThere) {
  KeyFinder none({});
  EXPECT_EQ(none.Find(""), -1);
  KeyFinder finder({"a", "c"});
  EXPECT_EQ(finder.Find("a"), 0);
  EXPECT_EQ(finder.Find("b"), -1);
  EXPECT_EQ(finder.Find("c"), 1);
  EXPECT_EQ(finder.Find("d"), -1);
  EXPECT_EQ(finder.Find("a"), 0);
}

TEST(KeyFinderTest, FindsTheFirstOfEqualKeysWhateverWasAskedBefore) {
  KeyFinder finder({"a", "c", "b", "c", "a"});
  EXPECT_EQ(finder.Find("b"), 2);
  EXPECT_EQ(finder.Find("c"), 1);
  EXPECT_EQ(finder.Find("a"), 0);
  KeyFinder pair({"a", "a"});
  EXPECT_EQ(pair.Find("a"), 0);
  EXPECT_EQ(pair.Find("a"), 0);
}

}  // namespace
}  // namespace belay
