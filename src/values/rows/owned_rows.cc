#include "values/rows/owned_rows.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/catch_exceptions.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "belay/rows.h"
#include "values/array_access.h"
#include "values/rows/rank_rows.h"
#include "values/rows/row_copier.h"
#include "values/rows/row_message.h"

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
    const StatusOr<int> owner =
        CatchExceptions([&] { return shard.rows->owner(row); });
    if (!owner.ok()) {
      return Status(owner.status().code(),
                    Cat("restore \"", shard.key, "\": the function `owner`: ",
                        owner.status().message()));
    }
    owners[i] = *owner;
    if (owners[i] >= 0 && owners[i] < num_ranks) continue;
    return absl::InvalidArgumentError(absl::StrFormat(
        "restore \"%s\": the owner of row %d is not a rank (need 0 to %d, "
        "found "
        "%d)",
        shard.key, shard.box.offset[0] + static_cast<int64_t>(i), num_ranks - 1,
        owners[i]));
  }
  return owners;
}

// Appends the rows of a shard to what their owners get.
Status Pack(const Shard& shard, Messages& to) {
  BELAY_ASSIGN_OR_RETURN(const std::vector<int32_t> owners,
                         OwnersOf(shard, static_cast<int>(to.size())));
  const int64_t bytes = RowBytes(shard);
  std::vector<RowGroupRoom> next =
      AppendRowGroups(shard, owners, RowParts::kRows, to);
  const auto* row = static_cast<const char*>(shard.data);
  const int64_t in_memory = RowBytesInMemory(shard);
  WithProgramCopier(shard, true, [&](auto pack) {
    for (const int32_t owner : owners) {
      std::byte*& stored = next[static_cast<size_t>(owner)].rows;
      pack(row, stored);
      stored += bytes;
      row += in_memory;
    }
  });
  return absl::OkStatus();
}

// What came, by the key of the rows, in the order of the ranks.
std::map<std::string_view, std::vector<RowGroup>> Unpack(
    const std::vector<std::span<std::byte>>& from) {
  std::map<std::string_view, std::vector<RowGroup>> arrived;
  for (std::span<std::byte> rest : from) {
    while (!rest.empty()) {
      const RowGroup group = TakeRowGroup(rest);
      arrived[group.key].push_back(group);
    }
  }
  return arrived;
}

Status TakeRows(const std::vector<RowGroup>& arrived, Shard& shard) {
  int64_t count = 0;
  for (const RowGroup& one : arrived) {
    count += one.count;
    if (HasFormOf(one, shard)) continue;
    return absl::FailedPreconditionError(absl::StrFormat(
        "restore \"%s\": ranks have rows of other types (need %s in %d bytes, "
        "found %s in %d)",
        shard.key, DTypeName(shard.dtype), RowBytes(shard),
        DTypeName(one.dtype), one.row_bytes));
  }
  // Another key may have given its range another length.
  BELAY_RETURN_IF_ERROR(FindElements(shard));
  if (count != shard.box.shape[0] || HasNewRows(shard)) {
    if (!CanResize(shard)) {
      return absl::FailedPreconditionError(
          absl::StrFormat("restore \"%s\": the range of this rank does not fit "
                          "the number of rows that it owns (need %d, found %d)",
                          shard.key, count, shard.box.shape[0]));
    }
    shard.object_elements = -1;
    BELAY_RETURN_IF_ERROR(ResizeRows(count, shard));
  }
  auto* row = static_cast<char*>(shard.data);
  const int64_t in_memory = RowBytesInMemory(shard);
  WithProgramCopier(shard, false, [&](auto unpack) {
    for (const RowGroup& one : arrived) {
      const std::byte* stored = one.rows;
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

Status PackByOwner(const std::vector<Shard>& shards, Messages& to) {
  std::set<std::string> ids;
  for (const Shard& shard : shards) {
    if (!HasOwner(shard)) continue;
    if (!ids.insert(RowsId(shard)).second) {
      return absl::InvalidArgumentError(
          Cat("restore \"", shard.key,
              "\": it is added twice, but each row goes to ",
              "one place at its owner: add the key once"));
    }
    BELAY_RETURN_IF_ERROR(Pack(shard, to));
  }
  return absl::OkStatus();
}

Status TakeOwned(const std::vector<std::span<std::byte>>& from,
                 std::vector<Shard>& shards) {
  auto arrived = Unpack(from);
  const std::vector<RowGroup> none;
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
