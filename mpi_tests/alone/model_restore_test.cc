// States of a real model, scaled down, saved by ranks that cut them in one way
// and restored by ranks that cut them in another: bit for bit, and with each
// byte read once, as counted here and by the system.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "values.h"
#include "workload_testing.h"

namespace belay {
namespace {

using testing::Ok;
using testing::Values;

constexpr uint64_t kSeed = 5;
constexpr int64_t kDivisor = 8;
// Of a rank: what MPI, HDF5 and the index read besides.
constexpr int64_t kOtherBytes = int64_t{512} << 10;

// Bytes that this process has read by system calls, pages of mapped files
// aside.
int64_t ReadBytes() {
  std::ifstream io("/proc/self/io");
  std::string name;
  int64_t bytes = -1;
  io >> name >> bytes;
  EXPECT_EQ(name, "rchar:");
  return bytes;
}

int64_t SumOverRanks(int64_t mine) {
  int64_t sum = 0;
  MPI_Allreduce(&mine, &sum, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
  return sum;
}

class ModelRestoreTest : public testing::CheckpointTest {
 protected:
  // What this rank holds; nothing, if there are fewer ranks in `cut`.
  Values Held(const std::string& cut, bool all_copies) const {
    const std::vector<RankShards> states =
        TestStates(Divided(TestModel("gpt2-small.hf"), kDivisor), cut,
                   {.all_copies = all_copies});
    Values values;
    if (rank_ >= std::ssize(states)) return values;
    for (const ShardInfo& shard : states[rank_].shards) {
      values.Add(shard.key, shard.dtype, shard.global_shape, shard.box,
                 shard.replica);
    }
    return values;
  }

  void ExpectMove(const std::string& from, const std::string& to) {
    SCOPED_TRACE(from + " to " + to);
    Values saved = Held(from, false);
    saved.Fill(kSeed);
    const SaveResult save = Ok(Save(comm_, run(), 1, saved.MakeState(),
                                    {.overwrite = true, .durable = false}));
    Values wanted = Held(to, true);
    wanted.Spoil(kSeed);
    MPI_Barrier(MPI_COMM_WORLD);
    const int64_t before = ReadBytes();
    const RestoreResult result =
        Ok(Restore(comm_, run(), 1, wanted.MakeState(), {}));
    const int64_t read = SumOverRanks(ReadBytes() - before);
    EXPECT_EQ(wanted.CountWrong(kSeed), 0);
    // All that is stored is wanted by some rank.
    const auto needed = static_cast<double>(save.counters.bytes);
    EXPECT_LE(static_cast<double>(result.counters.bytes), 1.05 * needed);
    EXPECT_GE(result.counters.bytes, save.counters.bytes);
    EXPECT_LE(static_cast<double>(read),
              1.05 * needed + static_cast<double>(kOtherBytes * size_));
  }
};

TEST_F(ModelRestoreTest, EachByteIsReadOnce) {
  if (size_ < 4) GTEST_SKIP() << "needs four ranks";
  const std::pair<const char*, const char*> moves[] = {
      {"fsdp=4", "tp=2,dp=2"},      {"tp=4", "fsdp=4"},
      {"fsdp=4", "tp=2"},           {"tp=2,pp=2", "fsdp=4"},
      {"dp=4,zero=1", "tp=2,dp=2"}, {"tp=2,dp=2", "dp=4,zero=1"}};
  for (const auto& [from, to] : moves) ExpectMove(from, to);
}

TEST_F(ModelRestoreTest, OnEightRanks) {
  if (size_ < 8) GTEST_SKIP() << "needs eight ranks";
  const std::pair<const char*, const char*> moves[] = {
      {"tp=4", "fsdp=8"}, {"fsdp=8", "tp=2"}, {"tp=4,dp=2,zero=1", "fsdp=8"}};
  for (const auto& [from, to] : moves) ExpectMove(from, to);
}

}  // namespace
}  // namespace belay
