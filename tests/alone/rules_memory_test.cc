// The memory that rules take before they are refused, as the allocations of
// this process count it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "counted_memory.h"
#include "state/conversion_rules.h"

namespace belay {
namespace {

using ::testing::HasSubstr;

TEST(RulesMemoryTest, RulesThatAreTooDeepTakeNone) {
  const std::string deep(10'000'000, '[');
  for (const std::string start :
       {"", "// \"\n", "/* \" // */", "// \r",
        "{\"a\\\\\": ", "{\"\\\"//\": \"/*\", \"b\": "}) {
    const std::string text = start + deep;
    counted_memory.most_live_bytes = counted_memory.live_bytes;
    const int64_t before = counted_memory.live_bytes;
    const Status status = ParseRules(text, {}).status();
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("the file: too many levels of JSON (need at most"))
        << start;
    EXPECT_LT(counted_memory.most_live_bytes - before, 10'000) << start;
  }
}

}  // namespace
}  // namespace belay
