#include "plan/description.h"

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "core/wire.h"
#include "plan/stored_objects.h"

namespace belay {
namespace {

// What an entry begins with: the place of a shard, perhaps with these bits if
// the shard is to be on all ranks, has a device of its own, is structs, or is
// saved from rank 0, or one of the others.
constexpr uint8_t kOnAllRanks = 8;
constexpr uint8_t kHasDevice = 16;
constexpr uint8_t kHasFields = 32;
constexpr uint8_t kFromRank0 = 64;
constexpr uint8_t kJob = 253;
constexpr uint8_t kNode = 254;
constexpr uint8_t kValue = 255;

using Layouts = absl::flat_hash_map<std::string, std::shared_ptr<const Layout>>;

// The layout of that text, or null: a text that a caller has made up.
std::shared_ptr<const Layout> LayoutOf(const std::string& text,
                                       Layouts& known) {
  const auto [found, is_new] = known.try_emplace(text);
  if (is_new) {
    StatusOr<Layout> layout = Layout::Parse(text);
    if (layout.ok()) {
      found->second = std::make_shared<const Layout>(*std::move(layout));
    }
  }
  return found->second;
}

bool LiesAsLaidOut(const ShardInfo& shard, int rank, Layouts& layouts) {
  if (shard.layout.empty()) return false;
  const std::shared_ptr<const Layout> layout = LayoutOf(shard.layout, layouts);
  if (layout == nullptr) return false;
  const StatusOr<Box> box = layout->LocalBox(shard.global_shape, rank);
  return box.ok() && *box == shard.box &&
         layout->Replica(rank) == shard.replica;
}

// The rows of a rank if so many have them evenly. Requires an axis.
Box EvenRows(const Shape& shape, int rank, int num_ranks) {
  Box box = WholeBox(shape);
  box.offset[0] = FirstOfEven(shape[0], rank, num_ranks);
  box.shape[0] = FirstOfEven(shape[0], rank + 1, num_ranks) - box.offset[0];
  return box;
}

Place PlaceOf(const ShardInfo& shard, int rank, int num_ranks,
              Layouts& layouts) {
  if (LiesAsLaidOut(shard, rank, layouts)) return Place::kLayout;
  const Shape& shape = shard.global_shape;
  if (shard.replica == rank && shard.box == WholeBox(shape)) {
    return Place::kWhole;
  }
  const bool has_rows = shard.replica == 0 && !shape.empty() &&
                        shard.box == EvenRows(shape, rank, num_ranks);
  return has_rows ? Place::kRows : Place::kBox;
}

WireWriter BeginEntry(const ShardInfo& shard, Place place) {
  WireWriter out;
  const bool has_device = !shard.device.empty();
  const bool has_fields = !shard.fields.empty();
  out.Put<uint8_t>(static_cast<uint8_t>(place) | (has_device ? kHasDevice : 0) |
                   (has_fields ? kHasFields : 0) |
                   (shard.on_all_ranks ? kOnAllRanks : 0) |
                   (shard.from_rank0 ? kFromRank0 : 0));
  out(shard.key, shard.dtype, shard.global_shape, shard.string_bytes,
      shard.layout);
  if (has_device) out.PutText(shard.device);
  if (has_fields) out.PutText(shard.fields);
  return out;
}

std::string OwnEntry(const ShardInfo& shard, uint64_t skipped) {
  WireWriter out = BeginEntry(shard, Place::kBox);
  // The planner checks the box, whose offset and shape may differ in length.
  out(skipped, shard.box.offset, shard.box.shape, shard.replica);
  return out.Take();
}

template <typename T>
std::string EncodeEntry(uint8_t kind, const T& value) {
  WireWriter out;
  out(kind, value);
  return out.Take();
}

ListedShard GetShard(Place place, uint8_t begin, WireReader& in,
                     Layouts& layouts) {
  ListedShard shard{.place = place};
  in(shard.info.key, shard.info.dtype, shard.info.global_shape,
     shard.info.string_bytes, shard.info.layout);
  if ((begin & kHasDevice) != 0) shard.info.device = in.GetText();
  if ((begin & kHasFields) != 0) shard.info.fields = in.GetText();
  shard.info.from_rank0 = (begin & kFromRank0) != 0;
  shard.info.on_all_ranks = (begin & kOnAllRanks) != 0;
  if (place == Place::kLayout) {
    shard.layout = LayoutOf(shard.info.layout, layouts);
  } else if (place == Place::kRows) {
    shard.num_ranks = in.Get<int32_t>();
  }
  return shard;
}

bool IsSound(const ListedShard& shard) {
  if (shard.place == Place::kLayout) return shard.layout != nullptr;
  return shard.place != Place::kRows ||
         (shard.num_ranks > 0 && !shard.info.global_shape.empty());
}

// Adds one entry; returns whether it was one.
bool AddEntry(std::string_view entry, Layouts& layouts, ShardList& list) {
  WireReader in(entry);
  const auto begin = in.Get<uint8_t>();
  if (begin == kValue) in(list.values.emplace_back());
  if (begin == kNode) in(list.node);
  if (begin == kJob) in(list.job);
  if (begin >= kJob) return in.ok() && in.done();
  const uint8_t place =
      begin & ~(kOnAllRanks | kHasDevice | kHasFields | kFromRank0);
  if (place > static_cast<uint8_t>(Place::kRows)) return false;
  ListedShard shard = GetShard(Place{place}, begin, in, layouts);
  if (!IsSound(shard)) return false;
  if (shard.place == Place::kBox) {
    const int64_t last = list.before.empty() ? 0 : list.before.back();
    const auto skipped = in.Get<int64_t>();
    if (skipped < 0 || skipped > INT64_MAX - last) return false;
    list.before.push_back(last + skipped);
    in(shard.info.box.offset, shard.info.box.shape, shard.info.replica);
  }
  list.shards.push_back(std::move(shard));
  return in.ok() && in.done();
}

}  // namespace

Description Describe(const RankShards& mine, int rank, int num_ranks) {
  Description description;
  Layouts layouts;
  uint64_t skipped = 0;  // shared ones since the last own one
  for (const ShardInfo& shard : mine.shards) {
    const Place place = PlaceOf(shard, rank, num_ranks, layouts);
    if (place == Place::kBox) {
      description.own.push_back(OwnEntry(shard, std::exchange(skipped, 0)));
      continue;
    }
    WireWriter entry = BeginEntry(shard, place);
    if (place == Place::kRows) entry.Put<int32_t>(num_ranks);
    description.shared.push_back(entry.Take());
    ++skipped;
  }
  if (mine.node != 0) description.own.push_back(EncodeEntry(kNode, mine.node));
  if (mine.job != kDefaultJob)
    description.shared.push_back(EncodeEntry(kJob, mine.job));
  for (const ListedValue& value : mine.values) {
    description.shared.push_back(EncodeEntry(kValue, value));
  }
  return description;
}

StatusOr<ShardList> DecodeList(const Entries& entries) {
  ShardList list;
  Layouts layouts;
  list.shards.reserve(entries.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    if (AddEntry(entries[i], layouts, list)) continue;
    return absl::InternalError(
        Cat("entry ", i, " of ", entries.size(), " describes nothing"));
  }
  return list;
}

Box BoxOnRank(const ListedShard& listed, int rank) {
  switch (listed.place) {
    case Place::kLayout:
      return *listed.layout->LocalBox(listed.info.global_shape, rank);
    case Place::kWhole:
      return WholeBox(listed.info.global_shape);
    case Place::kRows:
      return EvenRows(listed.info.global_shape, rank, listed.num_ranks);
    case Place::kBox:
      break;
  }
  return listed.info.box;
}

ShardInfo OnRank(const ListedShard& listed, int rank) {
  ShardInfo info = listed.info;
  info.box = BoxOnRank(listed, rank);
  if (listed.place == Place::kLayout) {
    info.replica = listed.layout->Replica(rank);
  } else if (listed.place == Place::kWhole) {
    info.replica = rank;
  }
  return info;
}

}  // namespace belay
