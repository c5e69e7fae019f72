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
#include "plan/stored_values.h"
#include "safetensors/export_plan.h"
#include "safetensors/import_safetensors.h"

namespace belay::fuzz_plan_messages {
namespace {

constexpr int kRanks = 4;

// Of messages whose structs have no padding.
template <typename Encode, typename Decode>
void RoundTrip(std::string_view message, Encode encode, Decode decode) {
  const std::string bytes = encode(decode(message));
  Require(encode(decode(bytes)) == bytes, "a message comes back as it was");
}

bool AreSame(const std::vector<Transit>& a, const std::vector<Transit>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Transit& x, const Transit& y) {
                      return x.peer == y.peer && x.position == y.position &&
                             x.bytes == y.bytes;
                    });
}

void ReadTransits(std::string_view message) {
  const RankTransits read = DecodeRankTransits(message);
  const RankTransits again = DecodeRankTransits(EncodeRankTransits(read));
  Require(AreSame(read.sends, again.sends) &&
              AreSame(read.receives, again.receives),
          "transits come back as they were");
}

void ReadReads(std::string_view message) {
  RankReads reads = DecodeRankReads(message);
  const RankReads again = DecodeRankReads(EncodeRankReads(reads));
  Require(std::equal(reads.texts.begin(), reads.texts.end(),
                     again.texts.begin(), again.texts.end(),
                     [](const TextLength& x, const TextLength& y) {
                       return x.shard == y.shard && x.bytes == y.bytes;
                     }),
          "lengths of texts come back as they were");
  reads.texts.clear();
  RoundTrip(EncodeRankReads(reads), EncodeRankReads, DecodeRankReads);
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
  const StatusOr<ShardList> list = DecodeList(in.GetTexts());
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
  for (const Entries* entries : {&description.shared, &description.own}) {
    Require(DecodeList(*entries).ok(), "a description can be read");
  }
  Require(Describe(shards, kRanks, kRanks + 1).shared.size() <=
              shards.shards.size() + shards.values.size() + 1,
          "each shard and each value is told once");
}

void Run(std::string_view input) {
  FuzzInput in(input);
  const int kind = in.Number<uint8_t>() % 8;
  const std::string_view message = in.Rest();
  switch (kind) {
    case 0:
      return ReadReads(message);
    case 1:
      return RoundTrip(message, EncodeRankWrites, DecodeRankWrites);
    case 2:
      return ReadTransits(message);
    case 3:
      return RoundTrip(message, EncodeValues, DecodeValues);
    case 4:
      return RoundTrip(message, EncodeSums, DecodeSums);
    case 5:
      return ReadImport(message);
    case 6:
      return ReadExport(message);
    default:
      return ReadDescription(message);
  }
}

const RegisterFuzzTarget kTarget({"plan_messages", Run});

}  // namespace
}  // namespace belay::fuzz_plan_messages
