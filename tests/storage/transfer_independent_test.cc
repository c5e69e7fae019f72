#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "directory_fixture.h"
#include "storage/reader.h"
#include "storage/transfer.h"
#include "store_testing.h"

namespace belay::transfer_independent_test {
namespace {

// Writes and reads one file, "data".
class TransferTest : public DirectoryTest {
 protected:
  // The whole array is one shard; `values` holds its bytes.
  static Shard WholeShard(std::vector<char>& values, Shape shape, DType dtype) {
    return {.key = "w",
            .dtype = dtype,
            .global_shape = shape,
            .box = WholeBox(shape),
            .data = values.data()};
  }

  Status Write(const std::vector<Shard>& shards, const RankWrites& writes,
               std::span<uint32_t> registers = {}) {
    counts_ = {};
    const WriteJob job{.shards = shards,
                       .writes = writes,
                       .path = Path("data"),
                       .registers = registers,
                       .durable = durable_};
    return WriteIndependently(job, counts_);
  }

  Status Compare(const std::vector<Shard>& shards, const RankWrites& writes) {
    return ReadBack({.shards = shards, .writes = writes, .path = Path("data")});
  }

  WriteCounts counts_;
  bool durable_ = true;
};

std::vector<char> Numbers(int count) {
  std::vector<char> values(count);
  for (int i = 0; i < count; ++i) values[i] = static_cast<char>('A' + i);
  return values;
}

WriteOrder Order(Box box, Extent extent, int32_t shard = 0) {
  return {.shard = shard, .box = std::move(box), .extent = std::move(extent)};
}

TEST_F(TransferTest, BytesLieWhereTheOrdersSay) {
  std::vector<char> values = Numbers(12);  // [3, 4]
  const std::vector<Shard> shards = {WholeShard(values, {3, 4}, DType::kU8)};
  const RankWrites writes{
      .bytes = 7,
      .orders = {Order({{0, 0}, {1, 3}}, {WholeBox({3, 4}), 2}),
                 Order({{1, 2}, {2, 2}}, {{{1, 2}, {2, 3}}, 20})}};
  Put("data", std::string(28, '.'));
  EXPECT_EQ(Write(shards, writes), absl::OkStatus());
  EXPECT_EQ(Content("data"), "..ABC...............GH.KL...");
  EXPECT_EQ(counts_.bytes, 7);
  EXPECT_EQ(counts_.io_calls, 3);
  EXPECT_EQ(counts_.collective_io, 0);
}

TEST_F(TransferTest, RunsThatFollowEachOtherAreOneWrite) {
  std::vector<char> values = Numbers(24);
  const std::vector<Shard> shards = {WholeShard(values, {3, 4}, DType::kU16)};
  const RankWrites writes{
      .bytes = 24, .orders = {Order(WholeBox({3, 4}), {WholeBox({3, 4}), 0})}};
  Put("data", std::string(24, '.'));
  EXPECT_EQ(Write(shards, writes), absl::OkStatus());
  EXPECT_EQ(Content("data"), std::string(values.begin(), values.end()));
  EXPECT_EQ(counts_.io_calls, 1);
}

TEST_F(TransferTest, TextsAndScalars) {
  std::string text = "text";
  int16_t number = 0x4241;
  const std::vector<Shard> shards = {
      {.key = "t", .dtype = DType::kString, .text = &text},
      {.key = "s", .dtype = DType::kI16, .data = &number}};
  const RankWrites writes{.bytes = 6,
                          .orders = {Order(WholeBox({4}), {WholeBox({4}), 1}),
                                     Order({}, {{}, 7}, 1)}};
  Put("data", "..........");
  EXPECT_EQ(Write(shards, writes), absl::OkStatus());
  EXPECT_EQ(Content("data"), ".text..AB.");
}

TEST_F(TransferTest, ARankWithoutOrdersDoesNotOpenTheFile) {
  EXPECT_EQ(Write({}, {}), absl::OkStatus());
  EXPECT_EQ(Compare({}, {}), absl::OkStatus());
  EXPECT_FALSE(std::filesystem::exists(Path("data")));
}

TEST_F(TransferTest, WorkInTheMeanwhileRunsAndMayFail) {
  int calls = 0;
  const RankWrites none;
  const std::vector<Shard> shards;
  const WriteJob job{.shards = shards,
                     .writes = none,
                     .path = Path("data"),
                     .meanwhile = [&]() -> Status {
                       return ++calls == 1 ? absl::OkStatus()
                                           : absl::DataLossError("no");
                     }};
  EXPECT_EQ(WriteIndependently(job, counts_), absl::OkStatus());
  EXPECT_EQ(WriteIndependently(job, counts_), absl::DataLossError("no"));
  EXPECT_EQ(calls, 2);
}

TEST_F(TransferTest, AFileThatIsMissingIsNotCreated) {
  std::vector<char> values = Numbers(4);
  const std::vector<Shard> shards = {WholeShard(values, {4}, DType::kU8)};
  const RankWrites writes{.bytes = 4,
                          .orders = {Order(WholeBox({4}), {WholeBox({4}), 0})}};
  EXPECT_EQ(Write(shards, writes).code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(std::filesystem::exists(Path("data")));
}

TEST_F(TransferTest, EveryFaultIsReported) {
  std::vector<char> values = Numbers(12);
  const std::vector<Shard> shards = {WholeShard(values, {3, 4}, DType::kU8)};
  const RankWrites writes{
      .bytes = 6, .orders = {Order({{0, 0}, {3, 2}}, {WholeBox({3, 4}), 0})}};
  Put("data", std::string(12, '.'));
  const char* const sites[] = {"open", "write", "write", "write", "close"};
  for (int64_t point = 1; point <= 5; ++point) {
    fault::Arm(point);
    const Status status = Write(shards, writes);
    EXPECT_EQ(status, absl::InternalError(std::string(sites[point - 1]) +
                                          ": injected fault"))
        << point;
    fault::Disarm();
  }
  fault::Arm(6);
  EXPECT_EQ(Write(shards, writes), absl::OkStatus());
  EXPECT_EQ(fault::Count(), 5);
}

TEST_F(TransferTest, ReadBackFindsTheFirstDifference) {
  std::vector<char> values = Numbers(12);
  const std::vector<Shard> shards = {WholeShard(values, {3, 4}, DType::kU8)};
  const RankWrites writes{
      .bytes = 6, .orders = {Order({{0, 0}, {3, 2}}, {WholeBox({3, 4}), 5})}};
  Put("data", std::string(17, '.'));
  ASSERT_EQ(Write(shards, writes), absl::OkStatus());
  EXPECT_EQ(Compare(shards, writes), absl::OkStatus());
  std::string bytes = Content("data");
  bytes[7] = '#';  // between two runs
  Put("data", bytes);
  EXPECT_EQ(Compare(shards, writes), absl::OkStatus());
  bytes[10] = bytes[14] = '#';
  Put("data", bytes);
  EXPECT_EQ(Compare(shards, writes),
            absl::DataLossError("read back \"" + Path("data") +
                                "\": 2 bytes at offset 9 are not what was "
                                "written"));
  Put("data", bytes.substr(0, 14));
  bytes[10] = values[5];
  Put("data", bytes.substr(0, 14));
  EXPECT_EQ(Compare(shards, writes).code(), absl::StatusCode::kDataLoss);
}

// The memory of a rank: one string per shard.
struct RankMemory {
  std::vector<std::string> bytes;
  std::vector<Shard> shards;
};

RankMemory MemoryFor(const RankShards& rank,
                     const std::vector<StoredArray>& arrays, bool filled) {
  RankMemory memory;
  memory.bytes.resize(rank.shards.size());
  for (size_t i = 0; i < rank.shards.size(); ++i) {
    const ShardInfo& info = rank.shards[i];
    const auto array =
        std::find_if(arrays.begin(), arrays.end(),
                     [&](const StoredArray& a) { return a.key == info.key; });
    memory.bytes[i] = PieceOf(*array, IoBox(info));
    if (!filled) memory.bytes[i].assign(memory.bytes[i].size(), '\0');
    const bool is_text = info.dtype == DType::kString;
    memory.shards.push_back({.key = info.key,
                             .dtype = info.dtype,
                             .global_shape = info.global_shape,
                             .box = info.box,
                             .data = is_text ? nullptr : memory.bytes[i].data(),
                             .text = is_text ? &memory.bytes[i] : nullptr});
  }
  return memory;
}

// A plan whose orders point to where the simulated files have the datasets.
SavePlan Placed(SavePlan plan, const SavedCheckpoint& index) {
  for (RankWrites& writes : plan.ranks) {
    for (WriteOrder& order : writes.orders) {
      order.extent.offset += index.datasets[order.dataset].offset;
    }
  }
  return plan;
}

TEST_F(TransferTest, RandomPlansMakeTheFilesOfTheSimulation) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    Random random(seed);
    const std::vector<StoredArray> arrays = RandomArrays(random);
    const std::vector<RankShards> ranks =
        RandomCut(arrays, static_cast<int>(Uniform(1, 5, random)), random);
    const auto layout = static_cast<FileLayout>(Uniform(0, 2, random));
    const ShardingPolicy policy = Uniform(0, 1, random) == 0
                                      ? ShardByTask()
                                      : MaxShardSize(Uniform(50, 2000, random));
    SavePlan plan =
        PlanSave(ranks, {.file_layout = layout, .sharding_policy = policy})
            .value();
    const SimulatedFiles files = SimulateSave(plan, ranks);
    plan = Placed(std::move(plan), files.index);
    for (size_t i = 0; i < files.bytes.size(); ++i) {
      std::string empty = files.bytes[i];
      for (size_t at = 0; at < empty.size(); ++at) {
        if (files.writes[i][at] != 0) empty[at] = '\0';
      }
      Put("data" + std::to_string(i), empty);
    }
    std::vector<uint32_t> registers(plan.num_blocks, 0);
    durable_ = seed % 2 == 0;
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      RankMemory memory = MemoryFor(ranks[rank], arrays, true);
      const int64_t bytes = plan.ranks[rank].bytes;
      int32_t file = FindTeamFiles(plan, plan.teams[rank]).first;
      WriteCounts counts;
      for (const RankWrites& writes :
           TakeWritesByFile(plan, static_cast<int32_t>(rank))) {
        const WriteJob job{.shards = memory.shards,
                           .writes = writes,
                           .path = Path("data" + std::to_string(file++)),
                           .registers = registers,
                           .durable = durable_};
        ASSERT_EQ(WriteIndependently(job, counts), absl::OkStatus()) << seed;
        EXPECT_EQ(ReadBack(job), absl::OkStatus()) << seed;
      }
      EXPECT_EQ(counts.bytes, bytes) << seed;
    }
    for (size_t i = 0; i < files.bytes.size(); ++i) {
      EXPECT_TRUE(Content("data" + std::to_string(i)) == files.bytes[i])
          << seed;
    }
    size_t block = 0;
    for (const StoredArray& array : plan.arrays) {
      for (uint32_t need : ChecksumsOf(array)) {
        EXPECT_EQ(StandardCrc(registers.at(block++), ArrayBytes(array)), need)
            << seed;
      }
    }
    EXPECT_EQ(block, registers.size());
    ASSERT_FALSE(HasFailure()) << seed;
  }
}

}  // namespace
}  // namespace belay::transfer_independent_test
