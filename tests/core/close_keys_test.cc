#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "core/keys.h"

namespace belay::close_keys_test {
namespace {

using Keys = std::vector<std::string_view>;

Keys Close(std::string_view absent, const Keys& stored, size_t count = 3) {
  CloseKeys close(absent, count);
  for (std::string_view key : stored) close.Offer(key);
  return close.keys();
}

// By its definition: what the last step may have been.
int64_t Oracle(std::string_view a, std::string_view b) {
  if (a.empty() || b.empty()) return static_cast<int64_t>(a.size() + b.size());
  const std::string_view c = a.substr(1), d = b.substr(1);
  if (a[0] == b[0]) return Oracle(c, d);
  return 1 + std::min({Oracle(c, b), Oracle(a, d), Oracle(c, d)});
}

TEST(CloseKeysTest, DistancesAreThoseOfTheDefinition) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 2000; ++i) {
    std::string a, b;
    for (uint64_t n = random() % 7; n > 0; --n) a += "abc"[random() % 3];
    for (uint64_t n = random() % 7; n > 0; --n) b += "abc"[random() % 3];
    const int64_t need = Oracle(a, b);
    EXPECT_EQ(EditDistance(a, b, 10), need) << a << " " << b;
    const auto limit = static_cast<int64_t>(random() % 7);
    EXPECT_EQ(EditDistance(a, b, limit), std::min(need, limit + 1))
        << a << " " << b << " " << limit;
  }
}

TEST(CloseKeysTest, TheClosestComeFirst) {
  EXPECT_EQ(Close("weihgt", {"bias", "height", "weight", "weights"}),
            Keys({"weight", "weights"}));
  EXPECT_EQ(Close("weihgt", {"weights", "height", "weight", "bias"}, 1),
            Keys({"weight"}));
}

TEST(CloseKeysTest, KeysThatDifferInMoreThanAThirdAreNotClose) {
  EXPECT_EQ(Close("abcdef", {"abcdxy"}), Keys({"abcdxy"}));
  EXPECT_EQ(Close("abcdef", {"abcxyz"}), Keys());
  EXPECT_EQ(Close("abcdef", {}), Keys());
  EXPECT_EQ(Close("abcdef", {"abcdxy"}, 0), Keys());
}

TEST(CloseKeysTest, AHintIsTheEndOfAMessage) {
  CloseKeys close("weight");
  EXPECT_EQ(close.Hint(), "");
  for (const char* key : {"wait", "model/weight", "weights"}) close.Offer(key);
  EXPECT_EQ(close.Hint(), "; close to it: \"weights\", \"model/weight\"");
}

TEST(CloseKeysTest, TheSameLastPartIsClose) {
  EXPECT_EQ(Close("kernel", {"model/dense/kernel", "model/dense/bias"}),
            Keys({"model/dense/kernel"}));
  EXPECT_EQ(Close("decoder/kernel", {"kernel"}), Keys({"kernel"}));
}

TEST(CloseKeysTest, WhatLiesAboveOrBelowIsClose) {
  EXPECT_EQ(Close("model", {"model/dense/kernel", "models/dense/kernel"}),
            Keys({"model/dense/kernel"}));
  EXPECT_EQ(Close("model/dense/kernel", {"model", "mode"}), Keys({"model"}));
}

TEST(CloseKeysTest, WhatIsVeryLongIsNotCompared) {
  const std::string longest = "a/" + std::string(4094, 'x');
  EXPECT_EQ(Close("a", {longest}), Keys({longest}));
  EXPECT_EQ(Close("a", {longest + "x"}), Keys());
}

}  // namespace
}  // namespace belay::close_keys_test
