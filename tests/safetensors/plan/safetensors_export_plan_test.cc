#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "safetensors/export_plan.h"

namespace belay::safetensors::safetensors_export_plan_test {
namespace {

// Checks that the windows of all ranks make up the data of all files, and that
// the shards of each window are what it consists of.
void ExpectWhole(const FilePlan& plan, int ranks, int64_t max_bytes) {
  const std::vector<RankExport> parts =
      PlanExport(plan, ranks, max_bytes).value();
  ASSERT_EQ(parts.size(), ranks);
  std::vector<int64_t> written;
  for (const PlannedFile& file : plan.files) {
    written.push_back(std::ssize(file.head));
  }
  for (const RankExport& part : parts) {
    int32_t shard = 0;
    for (const Window& window : part.windows) {
      EXPECT_LE(window.bytes, max_bytes);
      EXPECT_GT(window.bytes, 0);
      EXPECT_EQ(window.begin_shard, shard);
      EXPECT_EQ(window.offset, written[window.file]);
      int64_t bytes = 0;
      for (; shard < window.end_shard; ++shard) {
        const ShardInfo& info = part.shards[shard];
        bytes += NumElements(info.box.shape) * DTypeSize(info.dtype);
      }
      EXPECT_EQ(bytes, window.bytes);
      written[window.file] += bytes;
    }
    EXPECT_EQ(shard, part.shards.size());
    const RankExport copy = Decode<RankExport>(Encode(part)).value();
    EXPECT_EQ(copy.windows, part.windows);
    EXPECT_EQ(copy.shards, part.shards);
  }
  for (size_t i = 0; i < written.size(); ++i) {
    EXPECT_EQ(written[i], plan.files[i].bytes);
  }
}

std::vector<FileTensor> RandomTensors(std::mt19937& random) {
  const DType dtypes[] = {DType::kBool, DType::kF16, DType::kI32, DType::kC64};
  std::vector<FileTensor> tensors;
  for (uint32_t i = random() % 9; i > 0; --i) {
    FileTensor tensor = {.name = absl::StrCat("t", i),
                         .dtype = dtypes[random() % 4]};
    for (uint32_t axes = random() % 4; axes > 0; --axes) {
      tensor.shape.push_back(random() % 60);
    }
    tensor.end = NumElements(tensor.shape) * DTypeSize(tensor.dtype);
    tensors.push_back(tensor);
  }
  return tensors;
}

TEST(ExportPlanTest, WindowsFillAllFiles) {
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    const int64_t most = round % 2 == 0 ? 0 : 20000;
    const StatusOr<FilePlan> plan =
        PlanFiles(RandomTensors(random), {}, "model", most);
    ASSERT_TRUE(plan.ok()) << plan.status();
    for (const int ranks : {1, 2, 3, 8}) {
      ExpectWhole(*plan, ranks, 4096);
      ExpectWhole(*plan, ranks, int64_t{1} << 24);
    }
  }
}

// Small tensors travel together, and large ones in whole rows.
TEST(ExportPlanTest, WindowsAreFew) {
  std::vector<FileTensor> tensors;
  for (int i = 0; i < 1000; ++i) {
    tensors.push_back({.name = absl::StrCat("small", i),
                       .dtype = DType::kF32,
                       .shape = {768},
                       .begin = 0,
                       .end = 768 * 4});
  }
  const int64_t rows = 50257;
  tensors.push_back({.name = "large",
                     .dtype = DType::kF32,
                     .shape = {rows, 768},
                     .begin = 0,
                     .end = rows * 768 * 4});
  const FilePlan plan = PlanFiles(tensors, {}, "model", 0).value();
  const int64_t most = int64_t{16} << 20;
  const RankExport part = PlanExport(plan, 1, most).value()[0];
  EXPECT_LE(part.windows.size(), plan.files[0].bytes / most + 2);
  EXPECT_LE(part.shards.size(), 1000 + part.windows.size());
}

// 2^60 bytes in windows of 4 KiB would fill any memory.
TEST(ExportPlanTest, TooManyWindowsAreRefused) {
  const int64_t bytes = int64_t{1} << 60;
  const FilePlan plan = PlanFiles({{.name = "large",
                                    .dtype = DType::kU8,
                                    .shape = {bytes},
                                    .begin = 0,
                                    .end = bytes}},
                                  {}, "model", 0)
                            .value();
  const int64_t all = plan.files[0].bytes;
  EXPECT_EQ(
      PlanExport(plan, 4, 4096).status(),
      absl::InvalidArgumentError(absl::StrCat(
          "max_bytes_in_flight is too small for an export of ", all,
          " bytes (need at least ", all / kMaxWindows + 1, ", found 4096)")));
}

// The smallest windows that are named as the least are taken.
TEST(ExportPlanTest, TheLeastBytesInFlightAreEnough) {
  FilePlan plan;
  plan.files.push_back({.bytes = 4 * kMaxWindows + 1});
  EXPECT_FALSE(PlanExport(plan, 1, 3).ok());
  EXPECT_TRUE(PlanExport(plan, 1, 5).ok());
}

}  // namespace
}  // namespace belay::safetensors::safetensors_export_plan_test
