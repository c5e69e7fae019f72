// Fed: a byte that says which message between ranks follows, and the message. A
// message of any bytes is read with no more memory than it is long, times a
// constant; what was read is sent and read again as it was.
#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "core/wire.h"
#include "fuzz_input.h"
#include "fuzz_target.h"
#include "plan/listed_ranks.h"
#include "plan/plan.h"
#include "plan/replica_check.h"
#include "plan/stored_arrays.h"
#include "plan/stored_values.h"
#include "safetensors/export_plan.h"
#include "safetensors/import_safetensors.h"

namespace belay::fuzz_plan_messages {
namespace {

constexpr int kRanks = 4;

template <typename Message>
void RoundTrip(std::string_view bytes) {
  WireReader in(bytes);
  Message message;
  in(message);
  const std::string sent = Encode(message);
  Require(Encode(Decode<Message>(sent).value()) == sent,
          "a message comes back as it was");
}

void ReadImport(std::string_view message) {
  safetensors::RankImport read, again;
  WireReader{message}(read);
  WireReader{Encode(read)}(again);
  Require(read.shards == again.shards && read.places == again.places,
          "an import comes back as it was");
}

void ReadExport(std::string_view message) {
  safetensors::RankExport read, again;
  WireReader{message}(read);
  WireReader{Encode(read)}(again);
  Require(read.shards == again.shards && read.windows == again.windows,
          "an export comes back as it was");
}

// What a rank lists, an entry each.
void ReadDescription(std::string_view message) {
  WireReader in(message);
  std::vector<std::string> entries;
  in(entries);
  const StatusOr<ShardList> list = DecodeList(entries);
  if (!list.ok()) return;
  RankShards shards{
      .node = list->node, .values = list->values, .job = list->job};
  for (const ListedShard& listed : list->shards) {
    // A rank has been told by itself what it holds: all else is another rank's.
    if (listed.place == Place::kLayout &&
        (listed.layout == nullptr ||
         !listed.layout->LocalBox(listed.info.global_shape, 0).ok())) {
      continue;
    }
    shards.shards.push_back(OnRank(listed, 0));
  }
  const Description description = Describe(shards, 0, kRanks);
  for (const Entries* told : {&description.shared, &description.own}) {
    Require(DecodeList(*told).ok(), "a description can be read");
  }
  Require(Describe(shards, kRanks, kRanks + 1).shared.size() <=
              shards.shards.size() + shards.values.size() + 1,
          "each shard and each value is told once");
}

void Run(std::string_view input) {
  FuzzInput in(input);
  const int kind = in.Number<uint8_t>() % 9;
  const std::string_view message = in.Rest();
  switch (kind) {
    case 0:
      return RoundTrip<RankReads>(message);
    case 1:
      return RoundTrip<std::vector<RankWrites>>(message);
    case 2:
      return RoundTrip<RankTransits>(message);
    case 3:
      return RoundTrip<std::vector<StoredValue>>(message);
    case 4:
      return RoundTrip<std::vector<ReplicaSum>>(message);
    case 5:
      return ReadImport(message);
    case 6:
      return ReadExport(message);
    case 7:
      return RoundTrip<std::vector<StackedArray>>(message);
    default:
      return ReadDescription(message);
  }
}

const RegisterFuzzTarget kTarget({"plan_messages", Run});

}  // namespace
}  // namespace belay::fuzz_plan_messages
