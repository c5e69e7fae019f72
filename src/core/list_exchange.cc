#include "core/list_exchange.h"

#include <cstddef>
#include <cstring>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_format.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "core/wire.h"

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

// --- List exchange ---

namespace {

// A list of entries, and the one that was told before it.
struct Announced {
  Hash128 now;
  Hash128 base;
};

// How a list is to be sent: not at all, or as it differs from what was told the
// last time, from the reference, or from nothing.
enum class Ask : char {
  kNothing = 0,
  kFromLast = 1,
  kFromReference = 2,
  kAll = 3,
};

// What an ask has for each list, behind whether the reference is needed.
Ask AskOf(const std::string& ask, size_t list) { return Ask{ask[1 + list]}; }

Hashes HashesBefore(const SentLists& before, size_t list) {
  return list < before.mine.size() ? before.mine[list] : Hashes();
}

std::vector<std::vector<Announced>> Decode(
    const std::vector<std::string>& announcements) {
  std::vector<std::vector<Announced>> ranks;
  for (const std::string& bytes : announcements) {
    WireReader in(bytes);
    std::vector<Announced>& lists = ranks.emplace_back();
    while (in.ok() && !in.done()) lists.push_back(in.Get<Announced>());
  }
  return ranks;
}

// Who is to send each unknown one of the lists with this number, and how.
class Senders {
 public:
  Senders(const std::vector<std::vector<Announced>>& ranks, size_t list,
          const ListsByFingerprint& heard)
      : ranks_(ranks), list_(list), heard_(heard) {
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      const Hash128 now = ranks[rank][list].now;
      if (heard.contains(now)) continue;
      const auto [sender, fresh] = senders_.try_emplace(now, rank);
      if (!fresh && !KnowsLast(sender->second) && KnowsLast(rank)) {
        sender->second = rank;
      }
    }
  }

  Ask AskOf(size_t rank) const {
    const auto sender = senders_.find(ranks_[rank][list_].now);
    if (sender == senders_.end() || sender->second != rank) {
      return Ask::kNothing;
    }
    if (KnowsLast(rank)) return Ask::kFromLast;
    return list_ == 0 && rank > 0 ? Ask::kFromReference : Ask::kAll;
  }

 private:
  // Whether the rank and rank 0 both know what the rank told the last time.
  bool KnowsLast(size_t rank) const {
    const auto base = heard_.find(ranks_[rank][list_].base);
    return base != heard_.end() && !base->second.empty();
  }

  const std::vector<std::vector<Announced>>& ranks_;
  const size_t list_;
  const ListsByFingerprint& heard_;
  absl::flat_hash_map<Hash128, size_t> senders_;
};

// Puts a list together of what a rank has sent.
StatusOr<Entries> TakeList(Ask ask, const Announced& announced,
                           const Entries& reference,
                           const ListsByFingerprint& before, WireReader& in) {
  const Entries none;
  const Entries& base = ask == Ask::kFromLast        ? before.at(announced.base)
                        : ask == Ask::kFromReference ? reference
                                                     : none;
  BELAY_ASSIGN_OR_RETURN(Entries entries, GetChanged(base, in));
  const Hash128 found = FingerprintOf(HashesOf(entries));
  if (found == announced.now) return entries;
  return absl::InternalError(absl::StrFormat(
      "a list has another fingerprint than announced (need %016x%016x, found "
      "%016x%016x)",
      announced.now.high, announced.now.low, found.high, found.low));
}

}  // namespace

ListsToSend ListsToSendOf(std::vector<Entries> lists) {
  ListsToSend now{.lists = std::move(lists), .hashes = {}};
  for (const Entries& list : now.lists) now.hashes.push_back(HashesOf(list));
  return now;
}

std::string Announce(const ListsToSend& now, const SentLists& before) {
  WireWriter out;
  for (size_t i = 0; i < now.lists.size(); ++i) {
    out.Put(Announced{.now = FingerprintOf(now.hashes[i]),
                      .base = FingerprintOf(HashesBefore(before, i))});
  }
  return out.Take();
}

std::vector<std::string> AskFor(const std::vector<std::string>& announcements,
                                const SentLists& before) {
  const std::vector<std::vector<Announced>> ranks = Decode(announcements);
  const size_t num_lists = ranks.empty() ? 0 : ranks[0].size();
  std::vector<std::string> asks(ranks.size(), std::string(1, '\0'));
  bool needs_reference = false;
  for (size_t list = 0; list < num_lists; ++list) {
    const Senders senders(ranks, list, before.heard);
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      const Ask ask = senders.AskOf(rank);
      needs_reference = needs_reference || ask == Ask::kFromReference;
      asks[rank].push_back(static_cast<char>(ask));
    }
  }
  for (std::string& ask : asks) ask[0] = needs_reference ? '\1' : '\0';
  return asks;
}

bool NeedsReference(const std::string& ask) { return ask[0] != '\0'; }

std::string ReferenceOf(const ListsToSend& root) {
  const Hashes& hashes = root.hashes[0];
  return {reinterpret_cast<const char*>(hashes.data()),
          hashes.size() * sizeof(Hash128)};
}

std::string Answer(const std::string& ask, const std::string& reference,
                   const ListsToSend& now, const SentLists& before) {
  WireWriter out;
  for (size_t i = 0; i < now.lists.size(); ++i) {
    const Ask how = AskOf(ask, i);
    if (how == Ask::kNothing) continue;
    Hashes base;
    if (how == Ask::kFromLast) base = HashesBefore(before, i);
    if (how == Ask::kFromReference && !reference.empty()) {
      base.resize(reference.size() / sizeof(Hash128));
      std::memcpy(base.data(), reference.data(), reference.size());
    }
    PutChanges(base, now.lists[i], out);
  }
  return out.Take();
}

StatusOr<Heard> Hear(const std::vector<std::string>& announcements,
                     const std::vector<std::string>& asks,
                     const std::vector<std::string>& answers,
                     const ListsToSend& root, const SentLists& before) {
  const std::vector<std::vector<Announced>> ranks = Decode(announcements);
  Heard heard;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    WireReader in(answers[rank]);
    std::vector<Hash128>& fingerprints = heard.ranks.emplace_back();
    for (size_t i = 0; i < ranks[rank].size(); ++i) {
      const Announced& list = ranks[rank][i];
      fingerprints.push_back(list.now);
      const auto known = before.heard.find(list.now);
      if (known != before.heard.end()) heard.lists.insert(*known);
      const Ask ask = AskOf(asks[rank], i);
      if (ask == Ask::kNothing) continue;
      BELAY_ASSIGN_OR_RETURN(
          heard.lists[list.now],
          TakeList(ask, list, root.lists[0], before.heard, in));
    }
  }
  return heard;
}

}  // namespace belay
