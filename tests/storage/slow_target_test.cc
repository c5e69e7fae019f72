#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <string>

#include "storage/file_system.h"

namespace belay::slow_target_test {
namespace {

constexpr int64_t kOffset = 3 * kPlaces + 100;

// Whether rows of so many bytes are slow to read, the first of which lies
// `ahead` bytes further in its page than in that of the file.
bool IsSlow(int64_t ahead, int64_t rows, int64_t bytes) {
  // Never read nor written.
  alignas(kPlaces) static std::array<char, kPlaces> page;
  const Box box = WholeBox({rows, bytes});
  const ShardMemory memory{
      .data = page.data() + (kOffset + ahead + kPlaces) % kPlaces,
      .box = box,
      .array = box.shape};
  return IsSlowTarget(memory, box, {.box = box, .offset = kOffset});
}

TEST(SlowTargetTest, SlowIsALittleFurtherInThePage) {
  for (const int64_t ahead : {1, 8, 16, 31}) {
    EXPECT_TRUE(IsSlow(ahead, 1, kPlaces)) << ahead;
    EXPECT_TRUE(IsSlow(ahead, 70, kPlaces)) << ahead;
  }
  for (const int64_t ahead : {-1, -31, 0, 32, 64, 2048, 4064, 4095}) {
    EXPECT_FALSE(IsSlow(ahead, 1, 100 * kPlaces)) << ahead;
  }
}

TEST(SlowTargetTest, LessThanAPageIsNotSlow) {
  EXPECT_FALSE(IsSlow(16, 1, kPlaces - 1));
  EXPECT_TRUE(IsSlow(16, 1, kPlaces));
}

TEST(SlowTargetTest, TheFirstRunStandsForAll) {
  alignas(kPlaces) std::array<char, 2 * kPlaces> pages;
  // Columns from 200 on of rows of a page and 400 bytes; of the file likewise,
  // but 100 bytes on.
  const Box all = WholeBox({2, kPlaces + 400});
  const Box part = {{0, 200}, {2, kPlaces}};
  for (const int64_t ahead : {0, 5, 40}) {
    const ShardMemory memory{
        .data = pages.data() + 300 + ahead, .box = part, .array = all.shape};
    EXPECT_EQ(IsSlowTarget(memory, part, {.box = all, .offset = kOffset}),
              ahead == 5);
  }
}

TEST(SlowTargetTest, TheProcessorIsTheOneThatIsNamed) {
  std::ifstream info("/proc/cpuinfo");
  std::string line;
  bool is_amd = false, is_family = false, is_fast = false;
  while (std::getline(info, line)) {
    line += ' ';
    is_amd |= line.starts_with("vendor_id") &&
              line.find(" AuthenticAMD ") != std::string::npos;
    is_family |= line.starts_with("cpu family") &&
                 line.find(" 25 ") != std::string::npos;
    is_fast |=
        line.starts_with("flags") && line.find(" fsrm ") != std::string::npos;
  }
#ifdef __x86_64__
  if (__builtin_cpu_is("amd") != is_amd) GTEST_SKIP() << "is emulated";
#endif
  EXPECT_EQ(HasSlowTargets(), is_amd && is_family && is_fast);
}

}  // namespace
}  // namespace belay::slow_target_test
