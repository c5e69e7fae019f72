// Plans in which one rank reads for others, against an oracle that counts
// elements one by one.

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <set>
#include <tuple>

#include "model_testing.h"
#include "plan/restore_planner.h"
#include "plan/save_planner.h"
#include "plan/shared_targets.h"
#include "plan_text.h"

namespace belay::restore_sharing_test {
namespace {

// Calls visit(index of the element in the array) for the elements of a box in
// row-major order. Written without runs.
template <typename Visit>
void ForEachElement(const Box& box, const Shape& array, Visit visit) {
  const int64_t count = NumElements(box.shape);
  for (int64_t i = 0; i < count; ++i) {
    int64_t left = i, index = 0, scale = 1;
    for (size_t axis = array.size(); axis-- > 0;) {
      index += (box.offset[axis] + left % box.shape[axis]) * scale;
      left /= box.shape[axis];
      scale *= array[axis];
    }
    visit(index);
  }
}

// How often each element of a shard arrives, or of an array is read.
using Counts = std::map<int64_t, int>;

struct World {
  const SavedCheckpoint& index;
  const std::vector<RankShards>& wanted;
  const RestorePlan& plan;

  StoredArray ArrayOf(size_t rank, int32_t shard) const {
    const ShardInfo& info = wanted[rank].shards[shard];
    return {info.key, info.dtype, info.global_shape, info.string_bytes};
  }
};

// The elements that one shard gets, and what is read of each array in all.
struct Found {
  std::vector<std::vector<Counts>> arrived;
  std::map<std::string, Counts> read;
};

Found CountAll(const World& world) {
  Found found;
  for (size_t rank = 0; rank < world.wanted.size(); ++rank) {
    found.arrived.emplace_back(world.wanted[rank].shards.size());
    for (const ReadOrder& order : world.plan.ranks[rank].orders) {
      const StoredArray array = world.ArrayOf(rank, order.shard);
      ForEachElement(order.box, IoShape(array), [&](int64_t index) {
        ++found.read[array.key][index];
        if (order.position < 0) ++found.arrived[rank][order.shard][index];
      });
    }
    for (const Delivery& delivery : world.plan.ranks[rank].deliveries) {
      const StoredArray array = world.ArrayOf(rank, delivery.shard);
      std::set<int64_t> inside;
      ForEachElement(IoBox(world.wanted[rank].shards[delivery.shard]),
                     IoShape(array),
                     [&](int64_t index) { inside.insert(index); });
      ForEachElement(delivery.box, IoShape(array), [&](int64_t index) {
        if (!inside.contains(index)) return;
        ++found.arrived[rank][delivery.shard][index];
      });
    }
  }
  return found;
}

// Each delivery is what its reader has at that place of its stream.
void ExpectStreams(const World& world) {
  std::map<std::pair<int32_t, int64_t>, Box> streams;
  for (size_t rank = 0; rank < world.wanted.size(); ++rank) {
    int64_t end = 0;
    for (const ReadOrder& order : world.plan.ranks[rank].orders) {
      if (order.position < 0) continue;
      ASSERT_GE(order.position, end);
      ASSERT_EQ(order.position % kStreamAlignment, 0);
      end = order.position +
            NumElements(order.box.shape) *
                IoElementSize(world.ArrayOf(rank, order.shard).dtype);
      streams[{static_cast<int32_t>(rank), order.position}] = order.box;
    }
    ASSERT_LE(end, world.plan.stream_bytes);
  }
  for (size_t rank = 0; rank < world.wanted.size(); ++rank) {
    for (const Delivery& delivery : world.plan.ranks[rank].deliveries) {
      const auto stream = streams.find({delivery.reader, delivery.position});
      ASSERT_NE(stream, streams.end());
      ASSERT_EQ(stream->second, delivery.box);
      ASSERT_EQ(delivery.bytes,
                NumElements(delivery.box.shape) *
                    IoElementSize(world.ArrayOf(rank, delivery.shard).dtype));
    }
  }
}

// What a rank of another node wants goes there, once.
void ExpectTransits(const World& world, const std::vector<int32_t>& numbers) {
  const Nodes nodes = GroupByNode(numbers);
  const std::vector<RankTransits> transits = PlanTransits(world.plan, nodes);
  using Place = std::tuple<int32_t, int32_t, int64_t, int64_t>;
  std::multiset<Place> sent, received;
  for (size_t rank = 0; rank < transits.size(); ++rank) {
    const auto self = static_cast<int32_t>(rank);
    for (const Transit& t : transits[rank].sends) {
      sent.insert({self, t.peer, t.position, t.bytes});
    }
    for (const Transit& t : transits[rank].receives) {
      received.insert({t.peer, self, t.position, t.bytes});
    }
  }
  ASSERT_EQ(sent, received);
  ASSERT_EQ(sent.size(), std::set<Place>(sent.begin(), sent.end()).size());
  std::set<Place> needed;
  for (size_t rank = 0; rank < world.wanted.size(); ++rank) {
    for (const Delivery& delivery : world.plan.ranks[rank].deliveries) {
      if (numbers[delivery.reader] == numbers[rank]) continue;
      const int32_t carrier = Carrier(nodes, delivery.reader, nodes.node[rank]);
      ASSERT_EQ(numbers[carrier], numbers[rank]);
      needed.insert(
          {delivery.reader, carrier, delivery.position, delivery.bytes});
    }
  }
  ASSERT_EQ(needed, std::set<Place>(sent.begin(), sent.end()));
}

void ExpectReadOnce(const SavedCheckpoint& index,
                    const std::vector<RankShards>& wanted) {
  const RestorePlan plan =
      PlanRestore(index, wanted, {.sharing = ReadSharing::kOnce}).value();
  SCOPED_TRACE(ToString(plan, 1000));
  const World world{index, wanted, plan};
  const Found found = CountAll(world);
  std::map<std::string, Counts> needed;
  int64_t bytes = 0, wanted_bytes = 0;
  for (size_t rank = 0; rank < wanted.size(); ++rank) {
    for (size_t i = 0; i < wanted[rank].shards.size(); ++i) {
      const StoredArray array = world.ArrayOf(rank, static_cast<int32_t>(i));
      Counts once;
      ForEachElement(IoBox(wanted[rank].shards[i]), IoShape(array),
                     [&](int64_t element) {
                       once[element] = 1;
                       needed[array.key][element] = 1;
                       wanted_bytes += IoElementSize(array.dtype);
                     });
      ASSERT_EQ(found.arrived[rank][i], once) << array.key;
    }
  }
  ASSERT_EQ(found.read, needed);
  for (const StoredArray& array : index.arrays) {
    bytes += static_cast<int64_t>(needed[array.key].size()) *
             IoElementSize(array.dtype);
  }
  ASSERT_EQ(plan.bytes, bytes);
  ASSERT_LE(plan.delivered_bytes, wanted_bytes);  // rows are read for others
  ExpectStreams(world);
  std::vector<int32_t> numbers;
  for (size_t rank = 0; rank < wanted.size(); ++rank) {
    numbers.push_back(static_cast<int32_t>(rank * rank % 5));
  }
  ExpectTransits(world, numbers);
}

TEST(ReadOnceTest, EveryElementIsReadOnceAndArrivesOnceWhereItIsWanted) {
  Random random(31);
  for (int i = 0; i < 80; ++i) {
    const std::vector<StoredArray> arrays = RandomArrays(random);
    const std::vector<RankShards> ranks =
        RandomCut(arrays, static_cast<int>(Uniform(1, 9, random)), random);
    const SavePlan plan = PlanSave(ranks, {}).value();
    const SimulatedFiles files = SimulateSave(plan, ranks);
    const int readers = static_cast<int>(Uniform(1, 16, random));
    ASSERT_NO_FATAL_FAILURE(
        ExpectReadOnce(files.index, RandomCut(arrays, readers, random)));
    ASSERT_NO_FATAL_FAILURE(
        ExpectReadOnce(files.index, RandomWants(arrays, readers, random)));
  }
}

// One array in one file, wanted whole by so many ranks.
SavedCheckpoint OneArray(Shape shape, DType dtype = DType::kF32) {
  const Box whole = WholeBox(shape);
  return {.arrays = {{"w", dtype, std::move(shape), 0}},
          .datasets = {{.array = 0, .box = whole, .offset = 100}},
          .files = {{"f"}}};
}

std::vector<RankShards> Replicas(const SavedCheckpoint& saved, int ranks) {
  std::vector<RankShards> wanted(ranks);
  for (const StoredArray& array : saved.arrays) {
    for (int rank = 0; rank < ranks; ++rank) {
      wanted[rank].shards.push_back(InfoOf(array, WholeBox(array.shape), rank));
    }
  }
  return wanted;
}

TEST(ReadOnceTest, EightReplicasReadAnEighthEach) {
  const SavedCheckpoint saved = OneArray({8192, 1024});
  const RestorePlan plan =
      PlanRestore(saved, Replicas(saved, 8), {.sharing = ReadSharing::kOnce})
          .value();
  for (const RankReads& reads : plan.ranks) {
    ASSERT_EQ(reads.orders.size(), 1u);
    EXPECT_EQ(reads.orders[0].box.shape, Shape({1024, 1024}));
    EXPECT_EQ(reads.deliveries.size(), 8u);
  }
  EXPECT_EQ(plan.bytes, 32 << 20);
  EXPECT_EQ(plan.delivered_bytes, 7 * (32 << 20));
  EXPECT_EQ(plan.stream_bytes, 4 << 20);
}

TEST(ReadOnceTest, ATextIsReadOnce) {
  const SavedCheckpoint saved{
      .arrays = {{"t", DType::kString, {}, 50000}},
      .datasets = {{.array = 0, .box = {{0}, {50000}}, .offset = 8}},
      .files = {{"f"}}};
  std::vector<RankShards> wanted(8);
  for (RankShards& rank : wanted) {
    rank.shards.push_back({.key = "t", .dtype = DType::kString});
  }
  const RestorePlan plan =
      PlanRestore(saved, wanted, {.sharing = ReadSharing::kOnce}).value();
  EXPECT_EQ(plan.bytes, 50000);
  EXPECT_EQ(plan.delivered_bytes, 7 * 50000);
}

TEST(ReadSharingRuleTest, AutoSharesWhereItSavesEnough) {
  const ReadRules rules{.sharing = ReadSharing::kAuto};
  const SavedCheckpoint large = OneArray({1 << 20}, DType::kF64);
  RestorePlan plan = PlanRestore(large, Replicas(large, 8), rules).value();
  EXPECT_EQ(plan.sharing, ReadSharing::kOnce);
  EXPECT_EQ(plan.note,
            "each byte is read once, 58720256 of 67108864 are saved");
  const SavedCheckpoint small = OneArray({100});
  plan = PlanRestore(small, Replicas(small, 8), rules).value();
  EXPECT_EQ(plan.sharing, ReadSharing::kEachRank);
  EXPECT_EQ(plan.note,
            "each rank reads: sharing would save too little (need 8388608 "
            "bytes, found 2800)");
  EXPECT_EQ(plan.bytes, 3200);
  plan = PlanRestore(large, Replicas(large, 1), rules).value();
  EXPECT_EQ(plan.sharing, ReadSharing::kEachRank);
  EXPECT_EQ(plan.note, "no byte is wanted twice");
  // Small portions make many rounds.
  plan =
      PlanRestore(large, Replicas(large, 8),
                  {.sharing = ReadSharing::kAuto, .max_bytes_in_flight = 4096})
          .value();
  EXPECT_EQ(plan.sharing, ReadSharing::kEachRank);
}

TEST(PrimaryReplicaTest, OnlyItsShardsRead) {
  const SavedCheckpoint saved = OneArray({4096, 256});
  std::vector<RankShards> wanted(8);
  for (int rank = 0; rank < 8; ++rank) {  // a mesh of 2 replicas x 4 parts
    wanted[rank].shards.push_back(InfoOf(
        saved.arrays[0], {{1024 * (rank % 4), 0}, {1024, 256}}, rank / 4));
  }
  for (int64_t primary : {0, 1}) {
    const RestorePlan plan =
        PlanRestore(saved, wanted, {.primary_replica = primary})
            .value_or(RestorePlan{});
    EXPECT_TRUE(plan.ranks.empty() || plan.bytes == 8 << 20);
    const RestorePlan once =
        PlanRestore(saved, wanted,
                    {.sharing = ReadSharing::kAuto, .primary_replica = primary})
            .value();
    EXPECT_EQ(once.bytes, 4 << 20);
    for (int rank = 0; rank < 8; ++rank) {
      EXPECT_EQ(once.ranks[rank].orders.size(), rank / 4 == primary ? 1u : 0u);
      EXPECT_EQ(once.ranks[rank].deliveries.size(), 1u);
    }
  }
}

TEST(PrimaryReplicaTest, Errors) {
  const SavedCheckpoint saved = OneArray({10});
  std::vector<RankShards> wanted(3);
  wanted[0].shards.push_back(InfoOf(saved.arrays[0], {{0}, {6}}, 0));
  wanted[1].shards.push_back(InfoOf(saved.arrays[0], {{0}, {6}}, 1));
  wanted[2].shards.push_back(InfoOf(saved.arrays[0], {{4}, {5}}, 1));
  const auto plan = [&](int64_t primary) {
    return PlanRestore(
               saved, wanted,
               {.sharing = ReadSharing::kOnce, .primary_replica = primary})
        .status();
  };
  EXPECT_EQ(plan(1), absl::OkStatus());
  EXPECT_EQ(plan(0),
            absl::InvalidArgumentError(
                "plan \"w\": box \"6,3\", wanted by rank 2 as replica 1, is in "
                "no shard of the primary replica 0, which has to read it"));
  EXPECT_EQ(plan(5), absl::InvalidArgumentError(
                         "plan \"w\": no shard has the number of the primary "
                         "replica (need 5, found 0 to 1)"));
  EXPECT_EQ(plan(-1).code(), absl::StatusCode::kInvalidArgument);
}

TEST(NodesTest, CarriersAndSlots) {
  const Nodes nodes = GroupByNode(std::vector<int32_t>{7, 7, 7, 2, 9, 9});
  EXPECT_EQ(nodes.ranks.size(), 3u);
  EXPECT_EQ(Carrier(nodes, 1, 0), 1);
  EXPECT_EQ(Carrier(nodes, 2, 1), 3);
  EXPECT_EQ(Carrier(nodes, 1, 2), 5);
  EXPECT_EQ(Carrier(nodes, 2, 2), 4);
  // Rank 3 is alone and takes in all five streams of others.
  EXPECT_EQ(SlotsOnNode(nodes, 1), (std::vector<int32_t>{1, 2, 3, 0, 4, 5}));
  EXPECT_EQ(SlotsOnNode(nodes, 0), (std::vector<int32_t>{0, 0, 0, 1, 2, 1}));
  EXPECT_EQ(MostSlots(nodes), 6);
  EXPECT_EQ(PortionBytes(6, 4096), 320);
  EXPECT_EQ(PortionBytes(1, 1 << 30), 512 << 10);
  EXPECT_EQ(PortionBytes(5000, 4096), kStreamAlignment);
}

// 64 replicas of arrays cut in 8, and as many small ones that all have.
TEST(ReadOnceTest, ManyRanksAndArrays) {
  SavedCheckpoint saved{.files = {{"f"}}};
  std::vector<RankShards> wanted(512);
  for (int32_t i = 0; i < 1000; ++i) {
    const bool is_large = i % 2 == 0;
    const Shape shape = is_large ? Shape{1024, 512} : Shape{300};
    saved.arrays.push_back({"w" + std::to_string(i), DType::kF32, shape, 0});
    saved.datasets.push_back(
        {.array = i, .box = WholeBox(shape), .offset = int64_t{i} * (2 << 20)});
    for (int rank = 0; rank < 512; ++rank) {
      Box box = WholeBox(shape);
      if (is_large) box = {{rank % 8 * 128, 0}, {128, 512}};
      wanted[rank].shards.push_back(InfoOf(saved.arrays.back(), box, rank / 8));
    }
  }
  const auto start = std::chrono::steady_clock::now();
  const RestorePlan plan =
      PlanRestore(saved, wanted, {.sharing = ReadSharing::kOnce}).value();
  const std::chrono::duration<double> seconds =
      std::chrono::steady_clock::now() - start;
  RecordProperty("milliseconds", static_cast<int>(seconds.count() * 1e3));
  EXPECT_EQ(plan.bytes, 500 * ((int64_t{2} << 20) + 1200));
  // Near-linear: no more deliveries than are listed, but for those that are
  // cut, each for 64 or 512 ranks.
  size_t deliveries = 0, orders = 0;
  int64_t most = 0;
  for (const RankReads& reads : plan.ranks) {
    deliveries += reads.deliveries.size();
    orders += reads.orders.size();
    int64_t bytes = 0;
    for (const ReadOrder& order : reads.orders) {
      bytes += NumElements(order.box.shape) * 4;
    }
    most = std::max(most, bytes);
  }
  EXPECT_LE(deliveries, size_t{512} * 1000 + 512 * 64);
  EXPECT_LE(orders, size_t{4500 + 3 * 512});
  EXPECT_LE(most, plan.bytes / 512 * 105 / 100);
}

}  // namespace
}  // namespace belay::restore_sharing_test
