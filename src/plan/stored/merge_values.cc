#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "base/status_macros.h"
#include "base/text.h"
#include "plan/plan.h"
#include "plan/stored/stored_values.h"

namespace belay {
namespace {

// A value of the union, and the rank that first had it.
struct Merged {
  std::string typestr;
  size_t rank = 0;
  const std::vector<std::string>* entries = nullptr;  // on that rank
  std::set<std::string> parts;
};

// Entries that one rank alone has are no entries of a value that all hold.
Status CheckEntries(const ListedValue& value, size_t rank,
                    const Merged& merged) {
  if (value.entries == *merged.entries) return absl::OkStatus();
  std::vector<std::string> others;
  std::set_symmetric_difference(value.entries.begin(), value.entries.end(),
                                merged.entries->begin(), merged.entries->end(),
                                std::back_inserter(others));
  const bool is_here =
      std::binary_search(value.entries.begin(), value.entries.end(), others[0]);
  return absl::InvalidArgumentError(Cat(
      "replicas of \"", value.key, "\": ranks hold different entries (need ",
      merged.entries->size(), " as on rank ", merged.rank, ", found ",
      value.entries.size(), " on rank ", rank, "): \"", others[0],
      "\" is on rank ", is_here ? rank : merged.rank,
      " only; a container is stored once for all ranks"));
}

Status MergeValue(const ListedValue& value, size_t rank, bool compares,
                  std::map<std::string, Merged>& all) {
  const auto [found, is_new] =
      all.emplace(value.key, Merged{value.typestr, rank, &value.entries, {}});
  if (!is_new && found->second.typestr != value.typestr) {
    return absl::InvalidArgumentError(Cat(
        "plan \"", value.key, "\": ranks store it with different handlers (",
        "need \"", found->second.typestr, "\" as on rank ", found->second.rank,
        ", found \"", value.typestr, "\" on rank ", rank, ")"));
  }
  if (compares) {
    BELAY_RETURN_IF_ERROR(CheckEntries(value, rank, found->second));
  }
  found->second.parts.insert(value.parts.begin(), value.parts.end());
  return absl::OkStatus();
}

// An array under the key of a value is its part "", or another rank's.
Status CheckNoOtherArray(const std::string& key, const Merged& value,
                         const std::vector<StoredArray>& arrays) {
  const size_t row = FirstFrom(arrays, key);
  const bool is_array = row < arrays.size() && arrays[row].key == key;
  if (!is_array || value.parts.count("") > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(Cat(
      "plan \"", key, "\": rank ", value.rank, " stores it with the handler ",
      "\"", value.typestr, "\", another rank as an array"));
}

}  // namespace

StatusOr<StoredValues> MergeValues(
    const std::vector<std::vector<ListedValue>>& ranks,
    const std::vector<StoredArray>& arrays, bool compares) {
  std::map<std::string, Merged> all;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    std::set<std::string_view> keys;
    for (const ListedValue& value : ranks[rank]) {
      if (!keys.insert(value.key).second) {
        return absl::InvalidArgumentError(Cat("plan \"", value.key, "\": rank ",
                                              rank,
                                              " has two values with this key"));
      }
      BELAY_RETURN_IF_ERROR(MergeValue(value, rank, compares, all));
    }
  }
  StoredValues out;
  for (const auto& [key, value] : all) {
    BELAY_RETURN_IF_ERROR(CheckNoOtherArray(key, value, arrays));
    for (const std::string& part : value.parts) {
      const std::string array = PartKey(key, part);
      const size_t row = FirstFrom(arrays, array);
      if (row == arrays.size() || arrays[row].key != array) {
        return absl::InternalError(
            Cat("plan \"", array, "\": the save has no such array"));
      }
      out.part_value.push_back(static_cast<uint32_t>(out.key.size()));
      out.part_name.push_back(part);
      out.part_array.push_back(static_cast<uint32_t>(row));
    }
    out.key.push_back(key);
    out.typestr.push_back(value.typestr);
    out.node.push_back(-1);
    out.name.emplace_back();
  }
  return out;
}

}  // namespace belay
