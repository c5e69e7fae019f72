#include "pipeline/listing.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "belay/extend/state.h"
#include "belay/state.h"

namespace belay::listing_test {
namespace {

TEST(ListingTest, ReplicatedValuesGetTheRankAsReplica) {
  State state;
  float lr = 0.5f, piece[6] = {};
  std::string name = "seven b";
  state.Add("lr", lr);
  state.Add("name", name);
  state.AddPiece("w", {4, 3}, {{2, 0}, {2, 3}}, piece);
  AddShard(state, {.key = "x", .replica = 9, .data = piece});
  std::vector<Shard> shards = ListShards(state.shards(), 5);
  ASSERT_EQ(MapToDevices(shards, {}, 5), absl::OkStatus());
  ASSERT_EQ(shards.size(), 4);
  EXPECT_EQ(shards[0].replica, 5);
  EXPECT_EQ(shards[1].replica, 5);
  EXPECT_EQ(shards[2].replica, 0);
  EXPECT_EQ(shards[3].replica, 9);
  for (const Shard& shard : shards) {
    EXPECT_EQ(shard.device, RankDevice("belay", 0, 5)) << shard.key;
  }
  EXPECT_EQ(shards[0].data, &lr);
  EXPECT_EQ(shards[1].text, &name);
  // The state itself stays as it was.
  EXPECT_EQ(state.shards()[0].replica, State::kReplicaIsRank);
}

TEST(ListingTest, DevicesAreOfTheJobUnlessTheProgramNamesThem) {
  const auto layout =
      Layout::Create(Mesh::Create({{"x", 2}, {"y", 3}}).value(), {{"x"}});
  State state;
  float piece[6] = {};
  state.AddLaidOut("w", *layout, {4}, 5, piece);
  AddShard(state, {.key = "x", .device = ParseDevice("/gpu:1").value()});
  std::vector<Shard> shards = ListShards(state.shards(), 5);
  EXPECT_EQ(FindJobName({}), "belay");
  ASSERT_EQ(MapToDevices(shards, {.job_name = "a/b"}, 5), absl::OkStatus());
  EXPECT_EQ(FindJobName(shards), "a_b");
  EXPECT_EQ(DeviceText(shards[0].device),
            "/job:a_b/replica:2/task:5/device:CPU:0");
  EXPECT_EQ(DeviceText(shards[1].device),
            "/job:a_b/replica:0/task:5/device:GPU:1");
  // Only what does not follow from the rank and the layout travels.
  const std::vector<ShardInfo> infos = DescribeShards(shards);
  EXPECT_EQ(infos[0].device, "");
  EXPECT_EQ(infos[1].device, "/device:GPU:1");
  shards[0].device.task = 4;
  EXPECT_TRUE(absl::IsInvalidArgument(MapToDevices(shards, {}, 5)));
}

// A policy may look at the device, so a plan holds for the same ones only.
TEST(ListingTest, TheStructureHasTheDevice) {
  const auto structure = [](const char* device, const char* job) {
    std::vector<Shard> shards = {
        {.key = "x", .device = ParseDevice(device).value()}};
    EXPECT_EQ(MapToDevices(shards, {.job_name = job}, 0), absl::OkStatus());
    WireWriter out;
    PutStructure(shards, out);
    return out.Take();
  };
  EXPECT_EQ(structure("", "a"), structure("/cpu:0", "a"));
  EXPECT_NE(structure("", "a"), structure("", "b"));
  EXPECT_NE(structure("", "a"), structure("/cpu:1", "a"));
  EXPECT_NE(structure("", "a"), structure("/gpu:0", "a"));
  EXPECT_NE(structure("", "a"), structure("/replica:1", "a"));
}

TEST(ListingTest, ADescriptionHasEverythingButBytes) {
  State state;
  float piece[6] = {};
  std::string name = "seven b", empty;
  state.Add("name", name);
  state.Add("empty", empty);
  state.AddPiece("w", {4, 3}, {{2, 0}, {2, 3}}, piece);
  const std::vector<ShardInfo> infos =
      DescribeShards(ListShards(state.shards(), 2));
  ASSERT_EQ(infos.size(), 3);
  EXPECT_EQ(infos[0], (ShardInfo{.key = "name",
                                 .dtype = DType::kString,
                                 .replica = 2,
                                 .string_bytes = 7}));
  EXPECT_EQ(infos[1],
            (ShardInfo{.key = "empty", .dtype = DType::kString, .replica = 2}));
  EXPECT_EQ(infos[2], (ShardInfo{.key = "w",
                                 .dtype = DType::kF32,
                                 .global_shape = {4, 3},
                                 .box = {{2, 0}, {2, 3}}}));
}

TEST(ListingTest, NothingIsListedForAnEmptyState) {
  EXPECT_TRUE(ListShards({}, 0).empty());
  EXPECT_TRUE(DescribeShards({}).empty());
}

}  // namespace
}  // namespace belay::listing_test
