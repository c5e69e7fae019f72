#include "plan/save/keys_of_some_ranks.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "plan/stored/form_key.h"
#include "plan/stored/stored_values.h"

namespace belay {
namespace {

using SortedKeys = std::vector<std::string_view>;

// The keys of a list that are to be on all ranks, ascending.
SortedKeys KeysOf(const ShardList& list) {
  SortedKeys keys;
  for (const ListedShard& shard : list.shards) {
    if (shard.info.on_all_ranks) keys.push_back(shard.info.key);
  }
  // Others have arrays, which tell.
  for (const ListedValue& value : list.values) {
    const bool is_plain = value.parts.empty() && !IsFormKey(value.key) &&
                          IsStandardTypestr(value.typestr);
    if (is_plain) keys.push_back(value.key);
  }
  std::ranges::sort(keys);
  return keys;
}

SortedKeys KeysNotIn(const SortedKeys& keys, const SortedKeys& others) {
  SortedKeys rest;
  std::ranges::set_difference(keys, others, std::back_inserter(rest));
  return rest;
}

// How the keys of a rank differ from those of rank 0; empty if they do not.
std::string DifferenceOf(size_t rank, const SortedKeys& mine,
                         const SortedKeys& of_root) {
  const SortedKeys lacks = KeysNotIn(of_root, mine);
  const SortedKeys more = KeysNotIn(mine, of_root);
  if (lacks.empty() && more.empty()) return "";
  std::string text = lacks.empty() ? Cat("rank ", rank, " has \"", more.front(),
                                         "\", which rank 0 lacks")
                                   : Cat("rank ", rank, " lacks \"",
                                         lacks.front(), "\", which rank 0 has");
  const size_t others = lacks.size() + more.size() - 1;
  if (others > 0) text += Cat(", and so for ", others, " other keys");
  return text;
}

}  // namespace

std::string FindKeysOfSomeRanks(const ListedRanks& listed) {
  const int32_t first = listed.ranks.empty() ? 0 : listed.ranks[0].shared;
  SortedKeys of_root;
  std::vector<bool> is_known(listed.lists.size());
  for (size_t rank = 0; rank < listed.ranks.size(); ++rank) {
    // These name no rank, so ranks with the same values have told the same.
    const int32_t list = listed.ranks[rank].shared;
    if (list == first || is_known[list]) continue;
    is_known[list] = true;
    if (of_root.empty()) of_root = KeysOf(listed.lists[first]);
    std::string text = DifferenceOf(rank, KeysOf(listed.lists[list]), of_root);
    if (!text.empty()) return text;
  }
  return "";
}

}  // namespace belay
