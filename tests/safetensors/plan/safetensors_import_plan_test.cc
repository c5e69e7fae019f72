#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "safetensors/import_safetensors.h"

namespace belay::safetensors::safetensors_import_plan_test {
namespace {

TEST(ImportPlanTest, EveryByteIsTakenOnce) {
  const std::vector<SourceTensors> files = {
      {.data_offset = 100,
       .tensors = {{"a", DType::kF32, "", {7, 5}, 0, 140},
                   {"none", DType::kF64, "", {0, 3}, 140, 140},
                   {"b", DType::kU8, "", {}, 140, 141}}},
      {.data_offset = 8, .tensors = {}},
      // What is left out leaves a gap.
      {.data_offset = 57,
       .tensors = {{"c", DType::kBF16, "", {3, 1, 4}, 10, 34}}}};
  for (const int ranks : {1, 2, 3, 5, 20}) {
    const std::vector<RankImport> parts = PlanImport(files, ranks);
    ASSERT_EQ(parts.size(), ranks);
    std::map<std::string, int64_t> taken;
    std::map<std::string, FilePlace> next = {
        {"a", {0, 100}}, {"none", {0, 240}}, {"b", {0, 240}}, {"c", {2, 67}}};
    for (const RankImport& part : parts) {
      ASSERT_EQ(part.shards.size(), part.places.size());
      for (size_t i = 0; i < part.shards.size(); ++i) {
        const ShardInfo& shard = part.shards[i];
        EXPECT_TRUE(CheckBox(shard.box, shard.global_shape).ok());
        EXPECT_EQ(part.places[i], next[shard.key]) << shard.key;
        const int64_t bytes =
            NumElements(shard.box.shape) * DTypeSize(shard.dtype);
        next[shard.key].offset += bytes;
        taken[shard.key] += bytes;
      }
      const RankImport copy = Decode<RankImport>(Encode(part)).value();
      EXPECT_EQ(copy.shards, part.shards);
      EXPECT_EQ(copy.places, part.places);
    }
    EXPECT_EQ(taken, (std::map<std::string, int64_t>{
                         {"a", 140}, {"none", 0}, {"b", 1}, {"c", 24}}));
  }
}

}  // namespace
}  // namespace belay::safetensors::safetensors_import_plan_test
