#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "belay/values/restore_args.h"
#include "core/keys.h"

namespace belay::key_patterns_test {
namespace {

using ::testing::HasSubstr;

KeyPatterns Compiled(const std::vector<std::string>& expressions) {
  return KeyPatterns::Compile(expressions).value();
}

TEST(KeyPatterns, MatchesWholeKeysInOrder) {
  const KeyPatterns patterns = Compiled({"enc/.*", ".*/w", "enc/b"});
  EXPECT_EQ(patterns.Find("enc/b"), 0);
  EXPECT_EQ(patterns.Find("my/enc/w"), 1);
  EXPECT_EQ(patterns.Find("my/enc/b"), -1);
  EXPECT_EQ(patterns.Find(""), -1);
  EXPECT_EQ(KeyPatterns().Find("w"), -1);
  EXPECT_EQ(Compiled({""}).Find(""), 0);
}

TEST(KeyPatterns, KeysMayHoldAnyBytes) {
  const std::string odd("a\n\0\xff.b", 6);
  EXPECT_EQ(Compiled({"a.*b"}).Find(odd), 0);
  EXPECT_EQ(Compiled({"a.b"}).Find("a\xc3\xa4z"), -1);
  EXPECT_EQ(Compiled({"\xc3\xa4.*"}).Find("\xc3\xa4/w"), 0);
}

TEST(KeyPatterns, RewritesWithGroups) {
  const KeyPatterns patterns = Compiled({"(enc)/(.*)/w", "plain"});
  EXPECT_EQ(patterns.Rewrite(0, "enc/l/0/w", "old/\\2/\\1"), "old/l/0/enc");
  EXPECT_EQ(patterns.Rewrite(0, "enc/l/w", "\\0.x"), "enc/l/w.x");
  EXPECT_EQ(patterns.Rewrite(1, "plain", "other"), "other");
  const Status status = patterns.CheckRewrite(1, "\\1");
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("keys \"plain\""));
}

TEST(KeyPatterns, ExpressionsForOneKeyAndForAPrefix) {
  const std::string odd = "a.b[0]/(x)\\\xff";
  const KeyPatterns patterns = Compiled({ExactKey(odd), KeyPrefix("a.b[")});
  EXPECT_EQ(patterns.Find(odd), 0);
  EXPECT_EQ(patterns.Find("a.b[1]\n/y"), 1);
  EXPECT_EQ(patterns.Find("aXb[1]"), -1);
  EXPECT_EQ(patterns.Find("a.b"), -1);
}

TEST(KeyPatterns, NamesABadExpression) {
  const Status status = KeyPatterns::Compile({"fine", "a(b"}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("keys \"a(b\": not a regular expression"));
}

TEST(KeyPatterns, AnExpressionWithoutAKeyNamesCloseOnes) {
  const KeyPatterns patterns = Compiled({".*/bias", "model/kernl"});
  EXPECT_TRUE(patterns.CheckAllMatch({"m/bias", "model/kernl"}).ok());
  const Status status =
      patterns.CheckAllMatch({"model/bias", "model/kernel", "other"});
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("keys \"model/kernl\""));
  EXPECT_THAT(std::string(status.message()), HasSubstr("\"model/kernel\""));
  EXPECT_TRUE(KeyPatterns().CheckAllMatch({}).ok());
}

// Many groups that all may match take time linear in the key.
TEST(KeyPatterns, TakesNoLongerForHardExpressions) {
  const KeyPatterns patterns = Compiled({"(a*)*(a*)*(a*)*b"});
  EXPECT_EQ(patterns.Find(std::string(100000, 'a')), -1);
}

TEST(PatternCacheTest, TextsThatMakeMuchMoreProgram) {
  PatternCache cache;
  const std::string large = "(abcdefghijklmnopqrstuvwxyz){1000}";
  for (int i = 0; i < 10000; ++i) {
    ASSERT_EQ(cache.Compile(large).status(), absl::OkStatus())
        << "the same text is compiled once";
  }
  Status status;
  int compiled = 0;
  for (; status.ok() && compiled < 1000; ++compiled) {
    status = cache.Compile(absl::StrCat(large, compiled)).status();
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("the regular expressions are too large "
                                   "(need at most 64.0 MiB for all"));
  EXPECT_LT(compiled, 200);
}

}  // namespace
}  // namespace belay::key_patterns_test
