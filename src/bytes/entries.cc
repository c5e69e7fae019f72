#include "bytes/entries.h"

#include <cstddef>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "base/text.h"
#include "bytes/fingerprint.h"

namespace belay {
namespace {

// Entries [begin, begin + size) of the base, then `fresh` new ones.
struct Step {
  uint32_t begin = 0;
  uint32_t size = 0;
  std::vector<std::string_view> fresh;
};

std::vector<Step> StepsTo(const Hashes& base, const Entries& now) {
  absl::flat_hash_map<Hash128, uint32_t> places;
  for (size_t i = 0; i < base.size(); ++i) {
    places.try_emplace(base[i], static_cast<uint32_t>(i));
  }
  std::vector<Step> steps(1);
  for (const std::string& entry : now) {
    const Hash128 hash = HashOf(entry);
    const size_t next = size_t{steps.back().begin} + steps.back().size;
    const bool continues = steps.back().fresh.empty() &&
                           steps.back().size > 0 && next < base.size() &&
                           base[next] == hash;
    const auto place = places.find(hash);
    if (continues) {
      ++steps.back().size;
    } else if (place != places.end()) {
      steps.push_back({.begin = place->second, .size = 1, .fresh = {}});
    } else {
      steps.back().fresh.push_back(entry);
    }
  }
  return steps;
}

Status NotOfThisBase(size_t need, size_t found) {
  return absl::InternalError(
      Cat("the changes of a list are not those of its base (need at least ",
          need, " entries, found ", found, ")"));
}

}  // namespace

Hashes HashesOf(const Entries& entries) {
  Hashes hashes;
  hashes.reserve(entries.size());
  for (const std::string& entry : entries) hashes.push_back(HashOf(entry));
  return hashes;
}

Hash128 FingerprintOf(const Hashes& hashes) {
  return HashOf({reinterpret_cast<const char*>(hashes.data()),
                 hashes.size() * sizeof(Hash128)});
}

void PutChanges(const Hashes& base, const Entries& now, WireWriter& out) {
  const std::vector<Step> steps = StepsTo(base, now);
  out.Put<uint64_t>(steps.size());
  for (const Step& step : steps) {
    out.Put(step.begin);
    out.Put(step.size);
    out.Put<uint64_t>(step.fresh.size());
    for (const std::string_view entry : step.fresh) out.PutText(entry);
  }
}

StatusOr<Entries> GetChanged(const Entries& base, WireReader& in) {
  Entries entries;
  const auto num_steps = in.Get<uint64_t>();
  for (uint64_t i = 0; i < num_steps && in.ok(); ++i) {
    const auto begin = in.Get<uint32_t>();
    const size_t end = size_t{begin} + in.Get<uint32_t>();
    if (end > base.size()) return NotOfThisBase(end, base.size());
    entries.insert(entries.end(), base.begin() + begin,
                   base.begin() + static_cast<std::ptrdiff_t>(end));
    for (std::string& fresh : in.GetTexts()) {
      entries.push_back(std::move(fresh));
    }
  }
  if (in.ok()) return entries;
  return absl::InternalError("the changes of a list are cut off");
}

}  // namespace belay
