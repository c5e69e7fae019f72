#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "storage/metadata_file.h"

namespace belay::metadata_text_test {
namespace {

using ::testing::HasSubstr;

StatusOr<Metadata> Parse(const std::string& text) {
  return ParseMetadata(text, "read");
}

TEST(MetadataTextTest, ComesBack) {
  for (const Metadata& metadata :
       {Metadata{}, Metadata{{"", ""}},
        Metadata{{"commit", "1a2b"}, {"\u00e9\n\"", "{\"lr\": 1e-3}\x01"}}}) {
    EXPECT_EQ(Parse(MetadataText(metadata).value()).value(), metadata);
  }
}

TEST(MetadataTextTest, WhatJsonCannotHoldIsRefused) {
  const Status status = MetadataText({{"a", "\xff"}}).status();
  EXPECT_EQ(status, absl::InvalidArgumentError("metadata \"a\": not UTF-8"));
  EXPECT_FALSE(MetadataText({{"\xff", ""}}).ok());
  EXPECT_TRUE(MetadataText({{"a", std::string((1 << 20) - 1, 'x')}}).ok());
  EXPECT_THAT(
      std::string(
          MetadataText({{"a", std::string(1 << 20, 'x')}}).status().message()),
      HasSubstr("need at most 1048576 bytes, found 1048577"));
}

TEST(MetadataTextTest, EveryDamageIsTold) {
  const std::string text =
      MetadataText({{"commit", "1a2b"}, {"args", "--lr 3"}}).value();
  for (size_t i = 0; i < text.size(); ++i) {
    for (const char flip : {1, 4, 32}) {
      std::string damaged = text;
      damaged[i] = static_cast<char>(damaged[i] ^ flip);
      const StatusOr<Metadata> parsed = Parse(damaged);
      // Blanks around the values are no content.
      if (parsed.ok()) {
        EXPECT_EQ(*parsed, Parse(text).value()) << damaged;
      } else {
        EXPECT_TRUE(absl::IsDataLoss(parsed.status()) ||
                    absl::IsUnimplemented(parsed.status()))
            << parsed.status();
      }
    }
    EXPECT_TRUE(i + 2 >= text.size() || !Parse(text.substr(0, i)).ok()) << i;
  }
}

TEST(MetadataTextTest, OthersAreRefused) {
  for (const std::string text :
       {"", "[]", "1", "{}", R"({"format": "belay metadata"})",
        R"({"format": "belay metadata", "version": 1, "metadata": []})",
        R"({"format": "belay metadata", "version": 1, "metadata": {"a": 1}})",
        R"({"format": "belay metadata", "version": 1, "metadata": {}})"}) {
    EXPECT_TRUE(absl::IsDataLoss(Parse(text).status())) << text;
  }
  EXPECT_TRUE(absl::IsUnimplemented(
      Parse(R"({"format": "belay metadata", "version": 2})").status()));
  // Objects inside each other do not fill the stack.
  EXPECT_FALSE(Parse(std::string(1 << 20, '[')).ok());
}

TEST(MetadataTextTest, WhatNobodyWritesIsRefused) {
  const auto with = [](const std::string& members) {
    const Status status =
        Parse(R"({"format": "belay metadata", "version": 1, )" + members + "}")
            .status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    return std::string(status.message());
  };
  std::string many = "0";
  for (int i = 0; i < 1 << 20; ++i) many += ",0";
  EXPECT_THAT(with("\"x\": [" + many + ",0]"), HasSubstr("too many values"));
  EXPECT_THAT(with("\"x\": " + std::string(16, '[') + std::string(16, ']')),
              HasSubstr("too many levels"));
  EXPECT_THAT(
      with(R"("metadata": {"a": ")" + std::string(1 << 20, 'x') + "\"}"),
      HasSubstr("too long (need at most 1048576 bytes, found 1048577)"));
}

}  // namespace
}  // namespace belay::metadata_text_test
