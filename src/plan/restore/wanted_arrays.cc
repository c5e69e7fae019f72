#include "plan/restore/wanted_arrays.h"

#include <string>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_format.h"
#include "base/close_keys.h"
#include "base/status_macros.h"
#include "plan/stored/stored_form.h"

namespace belay {
namespace {

using Arrays = absl::flat_hash_map<std::string_view, int32_t>;

Status MissingKeys(const std::vector<RankShards>& wanted, const Arrays& arrays,
                   size_t stored) {
  absl::flat_hash_set<std::string_view> missing;
  std::string first, hint;
  for (size_t rank = 0; rank < wanted.size(); ++rank) {
    for (const ShardInfo& shard : wanted[rank].shards) {
      if (arrays.contains(shard.key)) continue;
      if (missing.empty()) {
        first = absl::StrFormat(
            "plan \"%s\": key is not in the checkpoint "
            "(wanted by rank %d",
            shard.key, rank);
        CloseKeys close(shard.key);
        for (const auto& [key, row] : arrays) close.Offer(key);
        hint = close.Hint();
      }
      missing.insert(shard.key);
    }
  }
  if (missing.empty()) return absl::OkStatus();
  return absl::NotFoundError(absl::StrFormat(
      "%s; %d wanted %s absent, the checkpoint has %d)%s; set "
      "RestoreOptions.missing if values may keep what they have",
      first, missing.size(), missing.size() == 1 ? "key is" : "keys are",
      stored, hint));
}

// Whether options make up for the differences: a hint at one that leaves
// another difference would not help.
bool CanFit(const ShardInfo& wanted, const StoredArray& array) {
  return Fits(StoredForm{array.dtype, array.shape},
              StoredForm{wanted.dtype, wanted.global_shape},
              {.dtype = true, .lengths = true});
}

Status CheckWant(const ShardInfo& wanted, const StoredArray& array,
                 int32_t rank) {
  if (wanted.dtype != array.dtype) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "plan \"%s\": the stored dtype differs (need %s, found %s; wanted by "
        "rank %d)%s",
        array.key, DTypeName(wanted.dtype), DTypeName(array.dtype), rank,
        CanFit(wanted, array) ? "; allow_dtype_cast converts it" : ""));
  }
  if (wanted.global_shape != array.shape) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "plan \"%s\": the stored shape differs (need %s, found %s; wanted by "
        "rank %d)%s",
        array.key, ShapeText(wanted.global_shape), ShapeText(array.shape), rank,
        CanFit(wanted, array)
            ? "; allow_shape_mismatch restores what both have in common"
            : ""));
  }
  const Status status = CheckBox(wanted.box, array.shape);
  if (status.ok()) return status;
  return Status(status.code(),
                absl::StrFormat("plan \"%s\": rank %d: %s", array.key, rank,
                                status.message()));
}

// The array of each shard of each rank, as number in the index.
using ShardArrays = std::vector<std::vector<int32_t>>;

// Checks what is wanted, and finds the arrays.
StatusOr<ShardArrays> FindArrays(const SavedCheckpoint& saved,
                                 const std::vector<RankShards>& wanted) {
  Arrays arrays;
  for (size_t i = 0; i < saved.arrays.size(); ++i) {
    arrays[saved.arrays[i].key] = static_cast<int32_t>(i);
  }
  ShardArrays found(wanted.size());
  // Ranks mostly want the same keys in the same order.
  const auto find = [&](const std::string& key, size_t rank, size_t i) {
    if (rank > 0 && i < found[rank - 1].size()) {
      const int32_t of_last = found[rank - 1][i];
      if (saved.arrays[of_last].key == key) return of_last;
    }
    const auto it = arrays.find(key);
    return it == arrays.end() ? -1 : it->second;
  };
  Status status;
  for (size_t rank = 0; rank < wanted.size(); ++rank) {
    found[rank].reserve(wanted[rank].shards.size());
    for (const ShardInfo& shard : wanted[rank].shards) {
      const int32_t array = find(shard.key, rank, found[rank].size());
      if (array < 0) return MissingKeys(wanted, arrays, saved.arrays.size());
      found[rank].push_back(array);
      if (!status.ok()) continue;  // a key may be missing
      status =
          CheckWant(shard, saved.arrays[array], static_cast<int32_t>(rank));
    }
  }
  if (!status.ok()) return status;
  return found;
}

}  // namespace

StatusOr<std::vector<WantedArray>> CollectWants(
    const SavedCheckpoint& saved, const std::vector<RankShards>& wanted,
    std::vector<RankReads>& ranks) {
  BELAY_ASSIGN_OR_RETURN(const ShardArrays arrays, FindArrays(saved, wanted));
  std::vector<size_t> counts(saved.arrays.size(), 0);
  for (const std::vector<int32_t>& numbers : arrays) {
    for (int32_t number : numbers) ++counts[number];
  }
  std::vector<std::vector<Want>> wants(saved.arrays.size());
  for (size_t i = 0; i < wants.size(); ++i) wants[i].reserve(counts[i]);
  for (size_t rank = 0; rank < wanted.size(); ++rank) {
    const std::vector<ShardInfo>& shards = wanted[rank].shards;
    for (size_t i = 0; i < shards.size(); ++i) {
      const int32_t index = arrays[rank][i];
      const StoredArray& array = saved.arrays[index];
      const bool is_text = array.dtype == DType::kString;
      if (is_text) {
        ranks[rank].texts.push_back(
            {static_cast<int32_t>(i), array.string_bytes});
      }
      if (is_text ? array.string_bytes == 0 : IsEmpty(shards[i].box)) continue;
      wants[index].push_back(
          {static_cast<int32_t>(rank), static_cast<int32_t>(i),
           shards[i].replica,
           is_text ? WholeBox(IoShape(array)) : shards[i].box});
    }
  }
  std::vector<WantedArray> result;
  for (size_t i = 0; i < wants.size(); ++i) {
    if (wants[i].empty()) continue;
    const StoredArray& array = saved.arrays[i];
    result.push_back({.array = static_cast<int32_t>(i),
                      .key = array.key,
                      .element_size = IoElementSize(array.dtype),
                      .can_split = array.dtype != DType::kString,
                      .can_share = CanShare(wants[i]),
                      .wants = std::move(wants[i])});
  }
  return result;
}

}  // namespace belay
