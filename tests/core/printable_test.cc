#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "core/text.h"

namespace belay::printable_test {
namespace {

TEST(PrintableTest, WhatPrintsStays) {
  for (const std::string_view text :
       {"", "a b", "model/w \"q\" \\", "\u00e9\u4e16\U0001f600", "a\nb"}) {
    EXPECT_EQ(PrintableText(text), text);
  }
}

TEST(PrintableTest, WhatSpeaksToATerminalIsShown) {
  using namespace std::literals;
  EXPECT_EQ(PrintableText("\x1b]0;title\x07"), R"(\x1b]0;title\x07)");
  EXPECT_EQ(PrintableText("a\rb\tc\x7f\0"sv), R"(a\x0db\x09c\x7f\x00)");
  EXPECT_EQ(PrintableText("\u009b31m"), R"(\xc2\x9b31m)") << "C1";
  EXPECT_EQ(PrintableText("\xff\xc3"), R"(\xff\xc3)") << "no UTF-8";
}

// Such characters change the order of text, or cannot be seen.
TEST(PrintableTest, DirectionsOfTextAreShown) {
  EXPECT_EQ(PrintableText("\u202egnp.exe"), R"(\xe2\x80\xaegnp.exe)");
  for (const std::string_view mark :
       {"\u061c", "\u200b", "\u200f", "\u202a", "\u2066", "\u2069", "\u2028",
        "\ufeff", "\U000e0041"}) {
    EXPECT_EQ(PrintableText(mark).substr(0, 2), "\\x") << mark;
  }
}

TEST(PrintableTest, Quoted) {
  EXPECT_EQ(QuotedText("a\"b\\c\n\x1b"), R"("a\"b\\c\n\x1b")");
  EXPECT_EQ(QuotedText("\u202e"), R"("\xe2\x80\xae")");
}

TEST(PrintableTest, AStatusKeepsItsCode) {
  EXPECT_EQ(PrintableStatus(absl::DataLossError("a\nb")),
            absl::DataLossError("a\\nb"));
  EXPECT_EQ(PrintableStatus(absl::DataLossError("a\x1b[2J")),
            absl::DataLossError(R"(a\x1b[2J)"));
  EXPECT_EQ(PrintableStatus(Status()), Status());
}

}  // namespace
}  // namespace belay::printable_test
