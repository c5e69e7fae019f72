// The memory that the preview of a restore takes for each array and rank, as
// the allocations of this process count it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "absl/strings/str_format.h"
#include "belay/values/restore_preview.h"
#include "counted_memory.h"
#include "create_index.h"
#include "directory_fixture.h"
#include "h5_testing.h"
#include "storage/index_file.h"

namespace belay {
namespace {

using PreviewMemoryTest = DirectoryTest;

// One more than fills a vector that doubles its capacity.
constexpr int kArrays = (1 << 13) + 1;

TEST_F(PreviewMemoryTest, ArraysOnManyRanksTakeSoMuchEach) {
  const Shape shape = {8, 8};
  const int64_t bytes = NumElements(shape) * 4;
  SavedCheckpoint saved{
      .step = 1, .files = {{.name = "data.h5", .bytes = kArrays * bytes}}};
  for (int i = 0; i < kArrays; ++i) {
    saved.arrays.push_back(
        {absl::StrFormat("block/weight%05d", i), DType::kF32, shape});
    saved.datasets.push_back(
        {.array = i, .box = WholeBox(shape), .offset = i * bytes});
  }
  const std::string index = Path("index.h5");
  h5::Ok(FinishIndex(index, h5::Value(CreateIndex(index, saved)), 1, 0, {},
                     false));
  const auto most_bytes = [&](int num_ranks, bool cut) {
    counted_memory.most_live_bytes = counted_memory.live_bytes;
    const int64_t before = counted_memory.live_bytes;
    const auto layout = [&](const ArrayInfo&) {
      const Mesh mesh = *Mesh::Create({{"x", num_ranks}});
      return cut ? *Layout::Create(mesh, {{"x"}, {}})
                 : Layout::Replicated(mesh, 2);
    };
    h5::Ok(PreviewRestore(dir_, num_ranks, layout).status());
    return counted_memory.most_live_bytes - before;
  };
  for (const bool cut : {false, true}) {
    const int64_t of_four = most_bytes(4, cut);
    const double of_each =
        static_cast<double>(most_bytes(8, cut) - of_four) / (4 * kArrays);
    std::printf("%s: %.0f bytes\n", cut ? "rows" : "replicas", of_each);
    EXPECT_LE(of_each, 850);  // SECURITY.md promises 1 KiB
  }
}

}  // namespace
}  // namespace belay
