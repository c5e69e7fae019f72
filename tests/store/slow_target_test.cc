#include "store/slow_target.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>

#include "base/huge_pages.h"

namespace belay::slow_target_test {
namespace {

constexpr int64_t kOffset = 3 * kPageBytes + 100;

class SlowTargetTest : public ::testing::Test {
 protected:
  // Whether rows of so many bytes are slow to read, whose first one lies
  // `ahead` bytes further in its page than in that of the file, and each next
  // one `more` bytes further than the one before.
  bool IsSlow(int64_t ahead, int64_t rows, int64_t bytes, int64_t more) {
    const ShardMemory memory{
        .data = page_.data() + (kOffset + ahead) % kPageBytes,
        .box = WholeBox({rows, bytes + more}),
        .array = {rows, bytes + more}};
    const Box part = WholeBox({rows, bytes});
    return IsSlowTarget(memory, part, {.box = part, .offset = kOffset});
  }

  // Never read nor written.
  alignas(kPageBytes) std::array<char, kPageBytes> page_;
};

TEST_F(SlowTargetTest, SlowIsALittleFurtherInThePage) {
  for (const int64_t ahead : {1, 8, 16, 31}) {
    EXPECT_EQ(IsSlow(ahead, 1, kPageBytes, 0), HasSlowTargets()) << ahead;
    EXPECT_EQ(IsSlow(ahead, 70, kPageBytes, 0), HasSlowTargets()) << ahead;
  }
  for (const int64_t ahead : {0, 32, 64, 2048, 4080, 4095}) {
    EXPECT_FALSE(IsSlow(ahead, 1, 100 * kPageBytes, 0)) << ahead;
  }
}

TEST_F(SlowTargetTest, LessThanAPageIsRead) {
  EXPECT_FALSE(IsSlow(16, 1, kPageBytes - 1, 0));
  EXPECT_FALSE(IsSlow(16, 100, 64, kPageBytes - 64));
}

TEST_F(SlowTargetTest, MostBytesDecide) {
  // Rows 0 to 3 are slow: 1, 9, 17 and 25 bytes ahead.
  EXPECT_EQ(IsSlow(1, 7, kPageBytes, 8), HasSlowTargets());
  EXPECT_FALSE(IsSlow(1, 8, kPageBytes, 8));
}

TEST_F(SlowTargetTest, ScalarsAndEmptyBoxesAreRead) {
  const ShardMemory scalar{.data = page_.data() + 16};
  EXPECT_FALSE(IsSlowTarget(scalar, {}, {.box = {}, .offset = 0}));
  EXPECT_FALSE(IsSlow(16, 0, kPageBytes, 0));
}

}  // namespace
}  // namespace belay::slow_target_test
