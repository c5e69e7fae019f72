#include <gtest/gtest.h>

#include <optional>
#include <utility>
#include <vector>

#include "plan/shards.h"

namespace belay::find_one_run_test {
namespace {

using Segment = std::pair<int64_t, std::pair<int64_t, int64_t>>;

// Of a box in memory that holds `held` of an array, and in the extent.
struct Case {
  Shape array;
  Box held, box, extent;
};

// FindOneRun says the same as the segments and runs that it stands for.
void ExpectRun(const Case& one, bool is_run) {
  std::vector<char> bytes(4096);
  const ShardMemory memory{.data = bytes.data(),
                           .element_size = 4,
                           .box = one.held,
                           .array = one.array};
  const Extent extent{one.extent, 1000};
  const std::optional<OneRun> run = FindOneRun(memory, one.box, extent);
  ASSERT_EQ(run.has_value(), is_run);
  if (!run) return;
  std::vector<Segment> segments;
  ForEachSegment(memory, one.box, extent,
                 [&](char* data, int64_t offset, int64_t length) {
                   segments.push_back({data - bytes.data(), {offset, length}});
                 });
  EXPECT_EQ(segments, (std::vector<Segment>{{run->data - bytes.data(),
                                             {run->file_offset, run->bytes}}}));
  EXPECT_EQ(run->array_offset,
            FileOffset(one.box, {WholeBox(one.array), 0}, 4));
}

TEST(FindOneRunTest, APartOfAVectorIsOneRun) {
  ExpectRun({{100}, {{10}, {50}}, {{20}, {30}}, {{0}, {100}}}, true);
  ExpectRun({{100}, {{10}, {50}}, {{10}, {50}}, {{8}, {64}}}, true);
  ExpectRun({{100}, {{0}, {100}}, {{99}, {1}}, {{96}, {8}}}, true);
  ExpectRun({{100}, {{10}, {50}}, {{20}, {0}}, {{0}, {100}}}, false);
}

TEST(FindOneRunTest, RowsAreOneRunAndColumnsAreNot) {
  const Box whole = WholeBox({8, 4});
  ExpectRun({{8, 4}, whole, {{2, 0}, {3, 4}}, whole}, true);
  ExpectRun({{8, 4}, {{2, 0}, {3, 4}}, {{4, 0}, {1, 4}}, whole}, true);
  ExpectRun({{8, 4}, whole, {{2, 1}, {1, 2}}, whole}, true);
  ExpectRun({{8, 4}, whole, {{2, 1}, {2, 2}}, whole}, false);
  // One run in memory and in the extent, and not in the array.
  const Box column = {{0, 1}, {8, 1}};
  ExpectRun({{8, 4}, column, column, column}, false);
}

TEST(FindOneRunTest, AScalarIsOneRun) { ExpectRun({{}, {}, {}, {}}, true); }

}  // namespace
}  // namespace belay::find_one_run_test
