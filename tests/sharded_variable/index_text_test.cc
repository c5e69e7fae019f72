#include <gmock/gmock.h>

#include <limits>
#include <string>
#include <string_view>

#include "belay/arrays/indexing.h"
#include "index_oracle.h"

namespace belay::index_text_test {
namespace {

using ::testing::HasSubstr;

TEST(IndexTextTest, PythonForm) {
  EXPECT_EQ(IndexText({Slice{2, 8, 3}, Ellipsis{}, NewAxis{}}),
            "2:8:3, ..., newaxis");
  EXPECT_EQ(IndexText({-1, Slice{}, Slice{.start = 1, .stop = {}, .step = {}}}),
            "-1, :, 1:");
  EXPECT_EQ(IndexText({Slice{.start = {}, .stop = -3, .step = -1}}), ":-3:-1");
  EXPECT_EQ(IndexText({}), "");
  const Tensor mask(DType::kBool, {4, 3});
  EXPECT_EQ(IndexText({&mask}), "mask[4, 3]");
}

TEST(ParseIndexTest, ReadsWhatPythonReads) {
  const auto normal = [](std::string_view text) {
    return IndexText(ParseIndex(text).value());
  };
  EXPECT_EQ(normal(" 2 : 8:3 ,...,  newaxis "), "2:8:3, ..., newaxis");
  EXPECT_EQ(normal("None,1::"), "newaxis, 1:");
  EXPECT_EQ(normal("None:None:-1"), "::-1");
  EXPECT_EQ(normal("3,"), "3");
  EXPECT_EQ(normal("  "), "");
  EXPECT_EQ(normal("-9223372036854775808:9223372036854775807"),
            "-9223372036854775808:9223372036854775807");
}

TEST(ParseIndexTest, RefusesEverythingElse) {
  for (std::string_view text : {",",
                                "1,,2",
                                ",1",
                                "1,2,,",
                                "1:2:3:4",
                                "one",
                                "1.5",
                                "1 2",
                                "--1",
                                "+1",
                                "0x1",
                                "..",
                                "....",
                                "newaxis:",
                                "...:1",
                                "True",
                                "[1]",
                                "mask[4, 3]",
                                "1:two",
                                "9223372036854775808",
                                "-9223372036854775809",
                                "1-",
                                "-",
                                "\n1"}) {
    const Status status = ParseIndex(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("parse index \"" + std::string(text) + "\": "));
  }
  EXPECT_EQ(ParseIndex("1:2:3:4").status().message(),
            "parse index \"1:2:3:4\": \"1:2:3:4\" is not a slice (need at most "
            "3 parts, found 4)");
}

bool Same(const IndexItem& a, const IndexItem& b) {
  if (a.index() != b.index()) return false;
  if (const int64_t* position = std::get_if<int64_t>(&a)) {
    return *position == std::get<int64_t>(b);
  }
  const Slice* slice = std::get_if<Slice>(&a);
  if (slice == nullptr) return true;
  const Slice& other = std::get<Slice>(b);
  return slice->start == other.start && slice->stop == other.stop &&
         slice->step == other.step;
}

TEST(ParseIndexTest, ReadsBackEveryText) {
  IndexDraw draw(11);
  for (int round = 0; round < 20000; ++round) {
    const Index index = draw.AnyIndex(draw.AnyShape(0));
    const StatusOr<Index> parsed = ParseIndex(IndexText(index));
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    ASSERT_EQ(parsed->size(), index.size()) << IndexText(index);
    for (size_t i = 0; i < index.size(); ++i) {
      ASSERT_TRUE(Same(index[i], (*parsed)[i])) << IndexText(index);
    }
  }
}

}  // namespace
}  // namespace belay::index_text_test
