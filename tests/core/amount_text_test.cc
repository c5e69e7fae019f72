#include <gtest/gtest.h>

#include "core/text.h"

namespace belay::amount_text_test {
namespace {

TEST(AmountTextTest, Amounts) {
  EXPECT_EQ(CountText(1, "array"), "1 array");
  EXPECT_EQ(CountText(0, "array"), "0 arrays");
  EXPECT_EQ(BytesText(1023), "1023 B");
  EXPECT_EQ(BytesText(1536), "1.5 KiB");
  EXPECT_EQ(SecondsText(0.0031), "3 ms");
  EXPECT_EQ(SecondsText(0.424), "0.42 s");
  EXPECT_EQ(SecondsText(1.26), "1.3 s");
  EXPECT_EQ(SecondsText(95.2), "95 s");
}

}  // namespace
}  // namespace belay::amount_text_test
