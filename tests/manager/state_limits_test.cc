// States that are longer or deeper than any run has them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "manager/manager_state.h"

namespace belay::state_limits_test {
namespace {

using ::testing::HasSubstr;

const ManagerState kSample = {
    .last_preserved = 1,
    .steps = {{.step = 7, .time = 2, .metrics = Metrics{{"[{", 1}}}}};

StatusOr<ManagerState> Parse(const std::string& text) {
  return ParseState(text, "step", "read \"f\"");
}

// A tree of it would take a hundred times the memory of the text.
TEST(StateLimitsTest, DepthHasAnEnd) {
  const std::string text = StateText(kSample, "step").value();
  const auto with = [&](int depth) {
    std::string member = "{\"x\": \"[[[[[[[[[[[[[[[[[[[[\\\"\", \"y\": ";
    member += std::string(depth, '[') + std::string(depth, ']') + ",";
    return member + text.substr(1);
  };
  EXPECT_EQ(Parse(with(10)).value(), kSample);
  for (const int depth : {17, 1 << 20}) {
    EXPECT_THAT(std::string(Parse(with(depth)).status().message()),
                HasSubstr("read \"f\": the state is damaged (too many levels "
                          "of JSON (need at most 16))"));
  }
  EXPECT_THAT(std::string(Parse(std::string(1 << 20, '[')).status().message()),
              HasSubstr("too many levels"));
}

// Small values take many times the memory of their text.
TEST(StateLimitsTest, ValuesHaveAnEnd) {
  const std::string text = StateText(kSample, "step").value();
  for (const std::string value : {"0", "{}", "[]"}) {
    std::string many = "{\"x\": [" + value;
    for (int i = 0; i < (1 << 20); ++i) many += "," + value;
    EXPECT_THAT(
        std::string(Parse(many + "]," + text.substr(1)).status().message()),
        HasSubstr("(too many values of JSON (need at most 1048576))"));
  }
}

// A name in the file makes no line of its own.
TEST(StateLimitsTest, AnotherPrefixIsPrintedOnOneLine) {
  const std::string text = StateText(kSample, "a\nb").value();
  EXPECT_THAT(std::string(Parse(text).status().message()),
              HasSubstr("(need \"step\", found \"a\\nb\")"));
}

// What cannot be read again is not written.
TEST(StateLimitsTest, LengthHasAnEnd) {
  ManagerState state{.steps = {{.step = 1, .metrics = Metrics()}}};
  (*state.steps[0].metrics)[std::string(kMaxStateBytes, 'm')] = 1;
  const Status status = StateText(state, "step").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("describe the steps of \"step\": they are too many"));
}

}  // namespace
}  // namespace belay::state_limits_test
