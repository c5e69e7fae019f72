#include "types/owned_rows.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/guarded.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "base/wire.h"
#include "belay/rows.h"
#include "types/array_access.h"
#include "types/id_holders.h"
#include "types/rank_rows.h"
#include "types/row_copier.h"
#include "types/struct_layout.h"

namespace belay {
namespace {

bool HasOwner(const Shard& shard) {
  return shard.rows != nullptr && shard.rows->owner != nullptr;
}

// The owner of each row of a shard.
StatusOr<std::vector<int32_t>> OwnersOf(const Shard& shard, int num_ranks) {
  const auto* row = static_cast<const char*>(shard.data);
  std::vector<int32_t> owners(static_cast<size_t>(shard.box.shape[0]));
  for (size_t i = 0; i < owners.size(); ++i, row += RowBytesInMemory(shard)) {
    BELAY_ASSIGN_OR_RETURN(owners[i],
                           Guarded([&] { return shard.rows->owner(row); }));
    if (owners[i] >= 0 && owners[i] < num_ranks) continue;
    return absl::InvalidArgumentError(absl::StrFormat(
        "restore \"%s\": the owner of row %d is no rank (need 0 to %d, found "
        "%d)",
        shard.key, shard.box.offset[0] + static_cast<int64_t>(i), num_ranks - 1,
        owners[i]));
  }
  return owners;
}

// Appends the rows of a shard to what their owners get.
Status Pack(const Shard& shard, std::vector<std::string>& to) {
  BELAY_ASSIGN_OR_RETURN(const std::vector<int32_t> owners,
                         OwnersOf(shard, static_cast<int>(to.size())));
  const std::vector<int64_t> counts =
      CountByRank(owners, static_cast<int>(to.size()));
  const int64_t bytes = RowBytes(shard);
  std::vector<char*> next(to.size());
  for (size_t rank = 0; rank < to.size(); ++rank) {
    if (counts[rank] == 0) continue;
    WireWriter head;
    head.PutText(RowsId(shard));
    head.Put(counts[rank]);
    head.Put(shard.dtype);
    head.Put(bytes);
    head.PutText(FieldsTextOf(shard));
    to[rank] += head.bytes();
    const size_t begin = to[rank].size();
    to[rank].resize(begin + static_cast<size_t>(counts[rank] * bytes));
    next[rank] = to[rank].data() + begin;
  }
  const auto* row = static_cast<const char*>(shard.data);
  const int64_t in_memory = RowBytesInMemory(shard);
  WithProgramCopier(shard, true, [&](auto pack) {
    for (const int32_t owner : owners) {
      pack(row, next[static_cast<size_t>(owner)]);
      next[static_cast<size_t>(owner)] += bytes;
      row += in_memory;
    }
  });
  return absl::OkStatus();
}

// Rows of one id that came from one rank.
struct Arrived {
  int64_t count = 0;
  DType dtype = DType::kU8;
  int64_t row_bytes = 0;
  std::string fields;
  std::string_view bytes;
};

// What came, by the id of the rows, in the order of the ranks.
std::map<std::string, std::vector<Arrived>, std::less<>> Unpack(
    const std::vector<std::span<std::byte>>& from) {
  std::map<std::string, std::vector<Arrived>, std::less<>> arrived;
  for (const std::span<std::byte> bytes : from) {
    std::string_view rest(reinterpret_cast<const char*>(bytes.data()),
                          bytes.size());
    while (!rest.empty()) {
      WireReader in(rest);
      const std::string id(in.GetText());
      Arrived one{.count = in.Get<int64_t>()};
      one.dtype = in.Get<DType>();
      one.row_bytes = in.Get<int64_t>();
      one.fields = in.GetText();
      rest = in.Rest();
      one.bytes =
          rest.substr(0, static_cast<size_t>(one.count * one.row_bytes));
      rest.remove_prefix(one.bytes.size());
      arrived[id].push_back(one);
    }
  }
  return arrived;
}

Status TakeRows(const std::vector<Arrived>& arrived, Shard& shard) {
  int64_t count = 0;
  for (const Arrived& one : arrived) {
    count += one.count;
    if (one.dtype == shard.dtype && one.row_bytes == RowBytes(shard) &&
        one.fields == FieldsTextOf(shard)) {
      continue;
    }
    return absl::FailedPreconditionError(absl::StrFormat(
        "restore \"%s\": ranks have rows of other types (need %s in %d bytes, "
        "found %s in %d)",
        shard.key, DTypeName(shard.dtype), RowBytes(shard),
        DTypeName(one.dtype), one.row_bytes));
  }
  // Another key may have given its range another length.
  BELAY_ASSIGN_OR_RETURN(shard, FindElements(std::move(shard)));
  if (count != shard.box.shape[0]) {
    if (shard.access == nullptr) {
      return absl::FailedPreconditionError(absl::StrFormat(
          "restore \"%s\": this rank owns another number of rows than it has "
          "room for (need %d, found %d)",
          shard.key, count, shard.box.shape[0]));
    }
    shard.object_elements = -1;
    BELAY_RETURN_IF_ERROR(Resize(count * NumElements(shard.rows->row), shard));
  }
  auto* row = static_cast<char*>(shard.data);
  const int64_t in_memory = RowBytesInMemory(shard);
  WithProgramCopier(shard, false, [&](auto unpack) {
    for (const Arrived& one : arrived) {
      const char* stored = one.bytes.data();
      for (int64_t i = 0; i < one.count; ++i) {
        unpack(stored, row);
        stored += one.row_bytes;
        row += in_memory;
      }
    }
  });
  return absl::OkStatus();
}

}  // namespace

bool HasOwners(const std::vector<Shard>& shards) {
  return std::any_of(shards.begin(), shards.end(), HasOwner);
}

StatusOr<std::vector<std::string>> PackByOwner(const std::vector<Shard>& shards,
                                               int num_ranks) {
  std::vector<std::string> to(static_cast<size_t>(num_ranks));
  std::set<std::string> ids;
  for (const Shard& shard : shards) {
    if (!HasOwner(shard)) continue;
    if (!ids.insert(RowsId(shard)).second) {
      return absl::InvalidArgumentError(Cat(
          "restore \"", shard.key, "\": it is added twice, and a row has one ",
          "place at its owner"));
    }
    BELAY_RETURN_IF_ERROR(Pack(shard, to));
  }
  return to;
}

Status TakeOwned(const std::vector<std::span<std::byte>>& from,
                 std::vector<Shard>& shards) {
  auto arrived = Unpack(from);
  const std::vector<Arrived> none;
  for (Shard& shard : shards) {
    if (!HasOwner(shard)) continue;
    auto found = arrived.extract(RowsId(shard));
    BELAY_RETURN_IF_ERROR(
        TakeRows(found.empty() ? none : found.mapped(), shard));
  }
  if (arrived.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      Cat("restore \"", StoredKeyOfId(arrived.begin()->first),
          "\": this rank owns rows of it, and does not restore it"));
}

}  // namespace belay
