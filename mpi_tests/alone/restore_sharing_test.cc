// One rank reads for all that want the same: bytes, counts and errors.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "fault_points.h"
#include "plan/restore_planner.h"
#include "storage/index_file.h"
#include "storage/reader.h"
#include "values.h"

namespace belay {
namespace {

using testing::GatherStatus;
using ::testing::HasSubstr;
using testing::SumOverRanks;
using testing::Values;

const RestoreOptions kOnce = {.read_sharing = ReadSharing::kOnce};

// What the system counted as read by this process.
int64_t BytesRead() {
  std::ifstream file("/proc/self/io");
  std::string name;
  int64_t bytes = 0;
  file >> name >> bytes;  // rchar comes first
  return bytes;
}

class RestoreSharingTest : public testing::CheckpointTest {
 protected:
  void SaveValues(Values& values, int64_t step, SaveOptions options = {}) {
    values.Fill(step);
    options.durable = false;
    const auto saved = Save(comm_, run(), step, values.MakeState(), options);
    EXPECT_TRUE(saved.ok()) << saved.status();
  }

  RestoreResult RestoreValues(Values& values, int64_t step,
                              const RestoreOptions& options) {
    values.Spoil(step);
    const auto restored =
        Restore(comm_, run(), step, values.MakeState(), options);
    EXPECT_TRUE(restored.ok()) << restored.status();
    EXPECT_EQ(values.CountWrong(step), 0);
    return restored.ok() ? *restored : RestoreResult{};
  }

  // All ranks have the same error.
  void ExpectError(Values& values, const RestoreOptions& options,
                   absl::StatusCode code, const std::string& text) {
    const Status status =
        Restore(comm_, run(), 1, values.MakeState(), options).status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
    const std::vector<std::string> all = GatherStatus(status);
    for (const std::string& other : all) EXPECT_EQ(other, all[0]);
  }
};

// Values of all kinds that every rank holds.
void AddReplicas(Values& values) {
  values.AddWhole("large", DType::kF32, {1 << 20, 3});
  values.AddWhole("complex", DType::kC128, {77, 13});
  values.AddWhole("bytes", DType::kU8, {100003});
  values.AddWhole("flag", DType::kBool, {});
  values.AddText("text", 70001);
}

TEST_F(RestoreSharingTest, ReplicasAreReadOnce) {
  Values values;
  AddReplicas(values);
  SaveValues(values, 1);
  const int64_t unique = values.num_bytes();
  for (const RestoreOptions& options :
       {RestoreOptions{}, kOnce,
        RestoreOptions{.read_sharing = ReadSharing::kAuto,
        .primary_replica = size_ - 1},
        RestoreOptions{.read_sharing = ReadSharing::kOnce,
        .max_bytes_in_flight = 100000},
        RestoreOptions{.checksums = false,
        .read_sharing = ReadSharing::kOnce}}) {
    const int64_t before = BytesRead();
    const RestoreResult result = RestoreValues(values, 1, options);
    const int64_t mine = BytesRead() - before;
    const int64_t all = SumOverRanks(mine);
    // The index, and what the system is asked about nodes, are read too.
    EXPECT_LE(all, unique * 105 / 100) << "bytes " << unique;
    EXPECT_GE(all, unique);
    EXPECT_EQ(result.counters.bytes, unique);
    EXPECT_EQ(result.counters.delivered_bytes, unique * (size_ - 1));
    EXPECT_EQ(result.blocks_partial, 0);
    EXPECT_EQ(result.blocks_verified > 0, options.checksums);
    if (size_ > 1) {
      EXPECT_EQ(result.read_sharing, ReadSharing::kOnce);
      EXPECT_THAT(result.sharing_note, HasSubstr("each byte is read once"));
    }
    if (options.primary_replica) {
      EXPECT_EQ(mine >= unique, rank_ == size_ - 1);
    }
  }
  const RestoreResult each =
      RestoreValues(values, 1, {.read_sharing = ReadSharing::kEachRank});
  EXPECT_EQ(each.counters.bytes, unique * size_);
  EXPECT_EQ(each.counters.delivered_bytes, 0);
  EXPECT_EQ(each.read_sharing, ReadSharing::kEachRank);
}

TEST_F(RestoreSharingTest, ReplicasOfPartsOnAMesh) {
  if (size_ % 2 != 0) GTEST_SKIP() << "needs an even number of ranks";
  for (const char* replica_axis : {"outer", "inner"}) {
    const std::string part_axis =
        replica_axis == std::string("outer") ? "inner" : "outer";
    const Mesh mesh =
        Mesh::Create({{"outer", 2}, {"inner", size_ / 2}}).value();
    const Layout rows = Layout::Create(mesh, {{part_axis}, {}}).value();
    const Layout columns = Layout::Create(mesh, {{}, {part_axis}}).value();
    Values values;
    values.AddLaidOut("rows", DType::kF64, {512, 100}, rows, rank_);
    values.AddLaidOut("columns", DType::kBF16, {300, 256}, columns, rank_);
    SaveValues(values, 1, {.overwrite = true});
    const int64_t unique = 512 * 100 * 8 + 300 * 256 * 2;
    const int64_t replicas =
        replica_axis == std::string("outer") ? 2 : size_ / 2;
    for (int64_t primary : {int64_t{0}, replicas - 1}) {
      const RestoreResult result =
          RestoreValues(values, 1, {.primary_replica = primary});
      EXPECT_EQ(result.counters.bytes, unique);
      EXPECT_EQ(result.counters.delivered_bytes, unique * (replicas - 1));
    }
    ExpectError(values, {.primary_replica = replicas},
                absl::StatusCode::kInvalidArgument,
                absl::StrCat("no shard has the number of the primary replica "
                             "(need ",
                             replicas, ", found 0 to ", replicas - 1, ")"));
  }
}

TEST_F(RestoreSharingTest, SmallPortionsAndOverlaps) {
  Values saved;
  saved.AddCut("m", DType::kF32, {400, 90}, 0, rank_, size_);
  saved.AddCut("v", DType::kC128, {5000}, 0, rank_, size_);
  SaveValues(saved, 1);
  Values wanted;
  const int64_t first = 300 * rank_ / size_;
  wanted.Add("m", DType::kF32, {400, 90}, {{first, 10}, {100, 50}});
  wanted.Add("m", DType::kF32, {400, 90}, {{0, 0}, {400, 3}});
  wanted.AddWhole("v", DType::kC128, {5000});
  wanted.Add("v", DType::kC128, {5000},
             {{
                  17,
              },
              {rank_ * 100}});
  for (int64_t bytes : {4096, 5000, 70000}) {
    const RestoreResult result = RestoreValues(
        wanted, 1,
        {.read_sharing = ReadSharing::kOnce, .max_bytes_in_flight = bytes});
    EXPECT_LE(result.counters.bytes, 400 * 90 * 4 + 5000 * 16);
  }
}

// Bits that a sum or a conversion would change.
TEST_F(RestoreSharingTest, EveryBitArrives) {
  const std::vector<uint32_t> bits = {0x80000000u, 0x7fc12345u, 0xffa00001u,
                                      0x7f800001u, 0x00000001u, 0xff800000u};
  std::vector<uint32_t> values = bits;
  State state;
  state.AddReplicated("bits", {6},
                      AtAddress(reinterpret_cast<float*>(values.data())));
  ASSERT_TRUE(Save(comm_, run(), 1, state, {.durable = false}).ok());
  std::fill(values.begin(), values.end(), 7);
  ASSERT_TRUE(Restore(comm_, run(), 1, state, kOnce).ok());
  EXPECT_EQ(values, bits);
}

TEST_F(RestoreSharingTest, ValuesAreConvertedWhereTheyArrive) {
  std::vector<float> saved(100000);
  for (size_t i = 0; i < saved.size(); ++i) {
    saved[i] = 0.37f * static_cast<float>(i % 1009) - 50;
  }
  State state;
  state.AddReplicated("x", {1000, 100}, AtAddress(saved.data()));
  ASSERT_TRUE(Save(comm_, run(), 1, state, {.durable = false}).ok());
  // Rank 0 wants other numbers than the rest, all want another shape.
  const bool is_first = rank_ == 0;
  std::vector<std::vector<double>> doubles;
  std::vector<std::vector<int16_t>> integers;
  for (ReadSharing sharing : {ReadSharing::kEachRank, ReadSharing::kOnce}) {
    doubles.emplace_back(1100 * 90, -7.0);
    integers.emplace_back(1100 * 90, -7);
    State wanted;
    if (is_first) {
      wanted.AddReplicated("x", {1100, 90}, AtAddress(doubles.back().data()));
    } else {
      wanted.AddReplicated("x", {1100, 90}, AtAddress(integers.back().data()));
    }
    const auto restored = Restore(comm_, run(), 1, wanted,
                                  {.allow_dtype_cast = true,
                                   .allow_shape_mismatch = true,
                                   .read_sharing = sharing,
                                   .max_bytes_in_flight = 65536});
    EXPECT_TRUE(restored.ok()) << restored.status();
  }
  EXPECT_EQ(doubles[1], doubles[0]);
  EXPECT_EQ(integers[1], integers[0]);
  EXPECT_EQ(doubles[1][89] != -7.0, is_first);
  EXPECT_EQ(integers[1][91] != -7, !is_first);
}

TEST_F(RestoreSharingTest, BadOptions) {
  Values values;
  values.AddCut("cut", DType::kU8, {64}, 0, rank_, size_);
  values.AddWhole("whole", DType::kU8, {64});
  SaveValues(values, 1);
  const auto code = absl::StatusCode::kInvalidArgument;
  ExpectError(values, {.max_bytes_in_flight = 4095}, code,
              "max_bytes_in_flight is out of range (need 4096 to 1073741824, "
              "found 4095)");
  ExpectError(values, {.read_sharing = static_cast<ReadSharing>(9)}, code,
              "read_sharing is out of range (need 0 to 2, found 9)");
  ExpectError(values,
              {.read_sharing = ReadSharing::kEachRank, .primary_replica = 0},
              code, "primary_replica says that others do not read");
  ExpectError(values, {.primary_replica = size_}, code,
              absl::StrCat("(need ", size_, ", found 0 to ", size_ - 1, ")"));
  if (size_ == 1) return;
  // Nobody has a second replica of what is cut.
  ExpectError(values, {.primary_replica = 1}, code,
              "is in no shard of the primary replica 1");
  RestoreOptions options = kOnce;
  if (rank_ == size_ - 1) options.read_sharing = ReadSharing::kEachRank;
  ExpectError(values, options, code, "the option read_sharing differs");
}

TEST_F(RestoreSharingTest, ADamagedFileIsEverybodysError) {
  Values values;
  values.AddWhole("w", DType::kF32, {300000});
  SaveValues(values, 1);
  const std::string file = StepFile(1, "data_00000_of_00001.h5");
  const std::string whole = testing::FileBytes(file);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank_ == 0) {
    std::string damaged = whole;
    damaged[damaged.size() - 1000] ^= 4;
    testing::PutFile(file, damaged);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  ExpectError(values, kOnce, absl::StatusCode::kDataLoss,
              "checksum of key \"w\"");
  if (rank_ == 0) std::filesystem::remove(file);
  MPI_Barrier(MPI_COMM_WORLD);
  ExpectError(values, kOnce, absl::StatusCode::kDataLoss, "data_00000");
}

// Every fault point of every rank: the same error everywhere, and no hang.
TEST_F(RestoreSharingTest, EveryFaultIsAgreed) {
  Values values;
  values.AddWhole("w", DType::kF32, {700, 3});
  values.AddText("t", 5000);
  values.AddCut("c", DType::kU8, {9000}, 0, rank_, size_);
  SaveValues(values, 1);
  const State state = values.MakeState();
  const auto restore = [&] {
    return Restore(comm_, run(), 1, state,
                   {.read_sharing = ReadSharing::kOnce,
                    .max_bytes_in_flight = 4096,
                    .deadline_seconds = 30})
        .status();
  };
  fault::Arm(0);
  EXPECT_EQ(restore(), absl::OkStatus());
  const std::vector<int64_t> counts = testing::CountOfEachRank(fault::Count());
  fault::Disarm();
  for (int rank = 0; rank < size_; ++rank) {
    for (int64_t n :
         testing::PointsToTake(counts[rank], testing::StrideOr(1))) {
      SCOPED_TRACE(absl::StrCat("point ", n, " of rank ", rank));
      const Status status = testing::WithFault(rank, n, restore);
      EXPECT_FALSE(status.ok());
      testing::ExpectAgreed(status, rank);
      if (!testing::OnAllRanks(!HasFailure())) return;
    }
  }
  RestoreValues(values, 1, kOnce);
}

// What the rank of that number wants, in a world of several nodes.
RankShards WantsOf(int rank, int size) {
  const Shape m = {300, 40};
  RankShards wanted;
  wanted.shards = {{.key = "m",
                    .dtype = DType::kF32,
                    .global_shape = m,
                    .box = WholeBox(m),
                    .replica = rank},
                   {.key = "m",
                    .dtype = DType::kF32,
                    .global_shape = m,
                    .box = {{200 * rank / size, 5}, {100, 30}}},
                   {.key = "t", .dtype = DType::kString, .replica = rank}};
  if (rank % 2 == 0) {
    wanted.shards.push_back({.key = "v",
                             .dtype = DType::kC128,
                             .global_shape = {999},
                             .box = {{3}, {900}}});
  }
  return wanted;
}

Values ValuesOf(const RankShards& wanted) {
  Values values;
  for (const ShardInfo& info : wanted.shards) {
    if (info.dtype == DType::kString) {
      values.AddText("t", 6000);
    } else {
      values.Add(info.key, info.dtype, info.global_shape, info.box);
    }
  }
  return values;
}

TEST_F(RestoreSharingTest, RanksOfSeveralNodes) {
  Values saved;
  saved.AddCut("m", DType::kF32, {300, 40}, 1, rank_, size_);
  saved.AddCut("v", DType::kC128, {999}, 0, rank_, size_);
  saved.AddText("t", 6000);
  SaveValues(saved, 1);
  const SavedCheckpoint index = ReadIndex(StepFile(1, "")).value();
  std::vector<RankShards> wanted;
  for (int rank = 0; rank < size_; ++rank) {
    wanted.push_back(WantsOf(rank, size_));
  }
  const RestorePlan plan =
      PlanRestore(index, wanted, {.sharing = ReadSharing::kOnce}).value();
  std::vector<std::string> file_names;
  for (const StoredFile& file : index.files) file_names.push_back(file.name);
  for (int per_node : {1, 2, 3}) {
    for (int64_t portion : {64, 640, 65536}) {
      SCOPED_TRACE(absl::StrCat(per_node, " ranks per node, ", portion));
      Values values = ValuesOf(wanted[rank_]);
      values.Spoil(1);
      const State state = values.MakeState();
      std::vector<int32_t> numbers;
      for (int rank = 0; rank < size_; ++rank) {
        numbers.push_back(rank / per_node);
      }
      const Nodes nodes = GroupByNode(numbers);
      const ReadJob job{.shards = state.shards(),
                        .reads = plan.ranks[rank_],
                        .directory = StepFile(1, ""),
                        .file_names = file_names,
                        .registers = {},
                        .covered = {}};
      ReadCounts counts;
      const Status mine = ReadAll(job, counts);
      CommContext context{.comm = comm_,
                          .deadline = Deadline(comm_, 60, "test")};
      const RankTransits transits = PlanTransits(plan, nodes)[rank_];
      const SharedMemory memory =
          MakeDeliveryMemory(context, nodes, portion).value();
      EXPECT_EQ(DeliverAll(context, mine,
                           {.reading = job,
                            .transits = transits,
                            .nodes = nodes,
                            .memory = memory,
                            .portion_bytes = portion,
                            .stream_bytes = plan.stream_bytes},
                           counts),
                absl::OkStatus());
      EXPECT_EQ(values.CountWrong(1), 0);
      EXPECT_EQ(SumOverRanks(counts.bytes), plan.bytes);
      EXPECT_EQ(SumOverRanks(counts.delivered_bytes), plan.delivered_bytes);
    }
  }
}

}  // namespace
}  // namespace belay
