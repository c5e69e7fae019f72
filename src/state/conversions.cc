#include "state/conversions.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_format.h"
#include "core/element_conversion.h"
#include "core/status_macros.h"

namespace belay {
namespace {

// The form in which a shard is wanted after all that is allowed.
StoredForm AllowedForm(const ShardInfo& shard, const StoredArray& array,
                       Tolerance most) {
  StoredForm form{.dtype = shard.dtype, .shape = shard.global_shape};
  if (most.dtype && IsConvertible(array.dtype, shard.dtype)) {
    form.dtype = array.dtype;
  }
  if (most.lengths && array.shape.size() == shard.global_shape.size() &&
      (most.nothing || HaveSomeInCommon(array.shape, shard.global_shape))) {
    form.shape = array.shape;
  }
  return form;
}

// Another rank may want values of this key that do convert.
Status CheckConvertible(const std::string& key, const StoredForm& stored,
                        const StoredForm& wanted) {
  if (IsConvertible(stored.dtype, wanted.dtype) &&
      stored.shape.size() == wanted.shape.size()) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrFormat("convert \"%s\": not convertible (need %s, found %s)",
                      key, FormText(wanted), FormText(stored)));
}

Status CheckWantedBox(const ShardInfo& shard, size_t rank) {
  Status status = CheckedNumElements(shard.global_shape).status();
  if (status.ok()) status = CheckBox(shard.box, shard.global_shape);
  if (status.ok()) return status;
  return Status(status.code(),
                absl::StrFormat("plan \"%s\": rank %d: %s", shard.key, rank,
                                status.message()));
}

// What a conversion of one value may be is not what it may be of another.
Status CheckTolerated(const std::string& key, const StoredForm& stored,
                      const StoredForm& wanted, Tolerance tolerance) {
  if ((stored.dtype == wanted.dtype || tolerance.dtype) &&
      (stored.shape == wanted.shape || tolerance.lengths)) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrFormat("plan \"%s\": the stored dtype or shape differs, and its "
                      "arguments do not "
                      "allow that (need %s, found %s)",
                      key, FormText(wanted), FormText(stored)));
}

bool IsBefore(const Conversion& a, const Conversion& b) {
  return std::tie(a.key, a.dtype, a.shape) < std::tie(b.key, b.dtype, b.shape);
}

// Collects each difference once, however many ranks have it.
class Differences {
 public:
  void Add(const ShardInfo& shard, const StoredForm& form) {
    if (!seen_.emplace(shard.key, shard.dtype, shard.global_shape).second) {
      return;
    }
    found_.push_back({.key = shard.key,
                      .dtype = shard.dtype,
                      .shape = shard.global_shape,
                      .stored_dtype = form.dtype,
                      .stored_shape = form.shape});
  }

  std::vector<Conversion> Take() {
    std::sort(found_.begin(), found_.end(), IsBefore);
    return std::move(found_);
  }

 private:
  absl::flat_hash_set<std::tuple<std::string, DType, Shape>> seen_;
  std::vector<Conversion> found_;
};

}  // namespace

StatusOr<std::vector<Conversion>> WantAsStored(
    const SavedCheckpoint& saved, Tolerance most,
    std::vector<RankShards>& wanted) {
  absl::flat_hash_map<std::string_view, const StoredArray*> arrays;
  for (const StoredArray& array : saved.arrays) arrays[array.key] = &array;
  Differences differences;
  for (size_t rank = 0; rank < wanted.size(); ++rank) {
    for (ShardInfo& shard : wanted[rank].shards) {
      const auto array = arrays.find(shard.key);
      if (array == arrays.end()) continue;
      StoredForm form = AllowedForm(shard, *array->second, most);
      if (form == StoredForm{shard.dtype, shard.global_shape}) continue;
      BELAY_RETURN_IF_ERROR(CheckWantedBox(shard, rank));
      differences.Add(shard, form);
      shard.dtype = form.dtype;
      shard.box = StoredPart(shard.box, form.shape);
      shard.global_shape = std::move(form.shape);
    }
  }
  return differences.Take();
}

StatusOr<std::vector<StoredForm>> FormsOf(
    const std::vector<Shard>& shards, const std::vector<Tolerance>& tolerances,
    const std::vector<Conversion>& conversions) {
  std::vector<StoredForm> forms;
  if (conversions.empty()) return forms;
  absl::flat_hash_map<std::string_view, const Conversion*> by_key;
  for (const Conversion& one : conversions) by_key[one.key] = &one;
  for (size_t i = 0; i < shards.size(); ++i) {
    const Shard& shard = shards[i];
    forms.push_back({.dtype = shard.dtype, .shape = shard.global_shape});
    const auto found = by_key.find(shard.key);
    if (found == by_key.end()) continue;
    const StoredForm form{.dtype = found->second->stored_dtype,
                          .shape = found->second->stored_shape};
    if (!tolerances.empty()) {
      BELAY_RETURN_IF_ERROR(
          CheckTolerated(shard.key, form, forms.back(), tolerances[i]));
    }
    BELAY_RETURN_IF_ERROR(CheckConvertible(shard.key, form, forms.back()));
    forms.back() = form;
  }
  return forms;
}

}  // namespace belay
