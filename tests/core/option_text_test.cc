#include "core/option_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <string>

namespace belay::option_text_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

OptionTexts Parsed(const std::string& text) {
  OptionTexts texts;
  EXPECT_EQ(ParseOptionTexts(text, texts), absl::OkStatus()) << text;
  return texts;
}

std::string ParseError(const std::string& text) {
  OptionTexts texts;
  const Status status = ParseOptionTexts(text, texts);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(status.message());
}

TEST(OptionTextTest, NamesAndValues) {
  EXPECT_EQ(Parsed(""), OptionTexts());
  EXPECT_EQ(Parsed(" \t\n"), OptionTexts());
  EXPECT_EQ(Parsed("async_save"), (OptionTexts{{"async_save", "true"}}));
  EXPECT_EQ(
      Parsed("a=1 b  c = 2\nd='x y' e=\"it's\" a=3"),
      (OptionTexts{
          {"a", "3"}, {"b", "true"}, {"c", "2"}, {"d", "x y"}, {"e", "it's"}}));
  EXPECT_EQ(Parsed("a= 1"), (OptionTexts{{"a", "1"}}));
  EXPECT_EQ(Parsed("a=b=c"), (OptionTexts{{"a", "b=c"}}));
  EXPECT_EQ(Parsed("a=''"), (OptionTexts{{"a", ""}}));
}

TEST(OptionTextTest, Mistakes) {
  EXPECT_THAT(ParseError("a=1 =2"), HasSubstr("no name at character 5"));
  EXPECT_THAT(ParseError("a="), HasSubstr("no value at character 3"));
  EXPECT_THAT(ParseError("a='x"),
              HasSubstr("a quote without its end at character 3"));
  EXPECT_THAT(ParseError("a='x'b"),
              HasSubstr("no blank after a quote at character 6"));
  EXPECT_THAT(ParseError("a='\x1b"), HasSubstr("options \"a='\\x1b\": "));
}

Status SetOptions(const std::string& text, ManagerOptions& options) {
  return SetManagerOptions(Parsed(text), options);
}

TEST(OptionTextTest, OptionsOfAManager) {
  ManagerOptions options{.save_policy = {.save_first_step = false},
                         .tolerated_failures = 2};
  const std::string text =
      "save_interval_steps=10 save_on_steps=3,5 max_to_keep=2 async_save "
      "max_staging_bytes=4096 best_mode=min stop_signals=SIGUSR1,SIGTERM "
      "transfer=two_phase durable=false mtbf_seconds=3600.5";
  ASSERT_EQ(SetOptions(text, options), absl::OkStatus());
  EXPECT_EQ(options.save_policy.save_interval_steps, 10);
  EXPECT_THAT(options.save_policy.save_on_steps, ElementsAre(3, 5));
  EXPECT_FALSE(options.save_policy.save_first_step) << "it is not named";
  EXPECT_EQ(options.tolerated_failures, 2) << "it is not named";
  EXPECT_EQ(options.retention.max_to_keep, 2);
  EXPECT_EQ(options.retention.best_mode, BestMode::kMin);
  ASSERT_TRUE(options.async.has_value());
  EXPECT_EQ(options.async->max_staging_bytes, 4096);
  EXPECT_THAT(options.stop_signals, ElementsAre(SIGUSR1, SIGTERM));
  EXPECT_EQ(options.save.transfer, Transfer::kTwoPhase);
  EXPECT_FALSE(options.save.durable);
  ASSERT_TRUE(options.save_policy.auto_interval.has_value());
  EXPECT_EQ(options.save_policy.auto_interval->mtbf_seconds, 3600.5);
  ASSERT_EQ(SetOptions("snapshot=lazy", options), absl::OkStatus());
  EXPECT_EQ(options.async->max_staging_bytes, 4096);
  EXPECT_EQ(options.async->snapshot, SnapshotMode::kLazy);
  ASSERT_EQ(SetOptions("async_save=false", options), absl::OkStatus());
  EXPECT_FALSE(options.async.has_value());
}

TEST(OptionTextTest, UnknownOptionsAndValues) {
  ManagerOptions options;
  EXPECT_THAT(SetOptions("max_to_kep=2", options).message(),
              HasSubstr("option \"max_to_kep\": no such option here (need one "
                        "of "));
  EXPECT_THAT(SetOptions("max_to_kep=2", options).message(),
              HasSubstr("close to it: \"max_to_keep\""));
  EXPECT_EQ(SetOptions("max_to_keep=two", options).message(),
            "option \"max_to_keep\": unusable value (need a whole number of at "
            "least 0, found \"two\")");
}

}  // namespace
}  // namespace belay::option_text_test
