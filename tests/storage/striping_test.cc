#include <gtest/gtest.h>

#include <string>

#include "storage/file_system.h"

namespace belay::striping_test {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

// A place that is no parallel file system: there the hints count.
constexpr char kLocal[] = "/proc/self/stat";

TEST(StripingTest, HintsCountWhereTheFileSystemTellsNothing) {
  const Striping none = FindStriping(kLocal, {});
  EXPECT_EQ(none.stripe_bytes, 0);
  EXPECT_FALSE(none.is_hinted);
  const Striping both = FindStriping(
      kLocal, {{"striping_unit", "1048576"}, {"striping_factor", "8"}});
  EXPECT_EQ(both.stripe_bytes, kMiB);
  EXPECT_EQ(both.servers, 8);
  EXPECT_TRUE(both.is_hinted);
  const Striping unit = FindStriping(kLocal, {{"striping_unit", "65536"}});
  EXPECT_EQ(unit.stripe_bytes, 65536);
  EXPECT_EQ(unit.servers, 0);
  EXPECT_EQ(FindStriping(kLocal, {{"striping_factor", "8"}}).servers, 0);
}

TEST(StripingTest, HintsThatMakeNoSenseDoNotCount) {
  for (const char* unit : {"", "0", "-1048576", "1", "5000", "1m", "1048576 ",
                           "0x100000", "8589934592", "99999999999999999999"}) {
    const Striping striping = FindStriping(kLocal, {{"striping_unit", unit}});
    EXPECT_EQ(striping.stripe_bytes, 0) << unit;
    EXPECT_FALSE(striping.is_hinted) << unit;
  }
  for (const char* factor : {"", "0", "-1", "x", "4097"}) {
    const Striping striping = FindStriping(
        kLocal, {{"striping_unit", "1048576"}, {"striping_factor", factor}});
    EXPECT_EQ(striping.stripe_bytes, kMiB) << factor;
    EXPECT_EQ(striping.servers, 0) << factor;
  }
}

TEST(StripingTest, AStripingSurvivesAMessage) {
  const Striping sent = {FileSystem::kBeeGfs, true, 3 * kMiB, 17};
  const Striping striping = Decode<Striping>(Encode(sent)).value();
  EXPECT_EQ(striping.file_system, FileSystem::kBeeGfs);
  EXPECT_TRUE(striping.is_hinted);
  EXPECT_EQ(striping.stripe_bytes, 3 * kMiB);
  EXPECT_EQ(striping.servers, 17);
}

}  // namespace
}  // namespace belay::striping_test
