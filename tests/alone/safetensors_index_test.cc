#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "counted_memory.h"
#include "safetensors/export_plan.h"

namespace belay::safetensors {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

TEST(IndexTest, RefusesBadIndexes) {
  const auto refused = [](const std::string& text, absl::StatusCode code) {
    const Status status = ParseIndex(text).status();
    EXPECT_EQ(status.code(), code) << status;
    return std::string(status.message());
  };
  const auto lost = absl::StatusCode::kDataLoss;
  EXPECT_THAT(refused("", lost), HasSubstr("not JSON"));
  EXPECT_THAT(refused("{\"weight_map\":", lost), HasSubstr("not JSON"));
  EXPECT_THAT(refused(std::string("{\"weight_map\":{}}\0x", 20), lost),
              HasSubstr("not JSON"));
  EXPECT_THAT(refused("[]", lost), HasSubstr("no \"weight_map\""));
  EXPECT_THAT(refused(R"({"weight_map":[]})", lost),
              HasSubstr("no \"weight_map\""));
  EXPECT_THAT(
      refused(R"({"weight_map":{"a":1}})", lost),
      HasSubstr("the file of tensor \"a\" is not a string (found number)"));
  EXPECT_THAT(refused(R"({"weight_map":{"a":"x","a":"y"}})", lost),
              HasSubstr("the name \"a\" appears twice"));
  EXPECT_THAT(refused(R"({"weight_map":{},"weight_map":{"a":"x"}})", lost),
              HasSubstr("the name \"weight_map\" appears twice"));
  for (const std::string name :
       {"../x.safetensors", "/etc/passwd", "a/b.safetensors", "..", ".", "",
        "x\\u0000", "./x.safetensors"}) {
    EXPECT_THAT(refused("{\"weight_map\":{\"a\":\"" + name + "\"}}",
                        absl::StatusCode::kInvalidArgument),
                HasSubstr("need a name without \"/\""))
        << name;
  }
}

// What is not asked for may be anything that is JSON.
TEST(IndexTest, OtherMembersAreSkipped) {
  const StatusOr<FileOfTensor> index = ParseIndex(
      R"({"metadata":{"total_size":8,"weight_map":{"a":1},"x":[{"y":null}]},)"
      R"("weight_map":{"a":"x.safetensors"},"more":[true,-1,2.5,"text"]})");
  ASSERT_TRUE(index.ok()) << index.status();
  EXPECT_THAT(*index, ElementsAre(Pair("a", "x.safetensors")));
}

TEST(IndexTest, NeedsNoMemoryForWhatItSkips) {
  std::string text = "{\"weight_map\":{},\"more\":[0";
  for (int i = 0; i < 100000; ++i) text += ",0";
  text += "]}";
  const int64_t before = counted_memory.bytes;
  EXPECT_TRUE(ParseIndex(text).ok());
  EXPECT_LT(counted_memory.bytes - before, text.size() / 10);
}

TEST(IndexTest, IsNotNestedWithoutEnd) {
  const auto nested = [](int levels) {
    return "{\"weight_map\":{},\"more\":" + std::string(levels, '[') +
           std::string(levels, ']') + "}";
  };
  EXPECT_TRUE(ParseIndex(nested(63)).ok());
  EXPECT_EQ(ParseIndex(nested(64)).status(),
            absl::DataLossError(
                "the index: too many levels of JSON (need at most 64)"));
  EXPECT_FALSE(ParseIndex(std::string(1000000, '[')).ok());
}

}  // namespace
}  // namespace belay::safetensors
