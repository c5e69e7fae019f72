#include "core/list_exchange.h"

#include <iterator>

#include "absl/strings/str_format.h"
#include "core/status_macros.h"
#include "core/text.h"

namespace belay {
namespace {

// Entries [begin, begin + size) of the base, then the new entries `fresh`.
template <typename Text>
struct Step {
  uint32_t begin = 0;
  uint32_t size = 0;
  std::vector<Text> fresh;
};

template <typename Archive, typename Text>
void Fields(Archive& archive, Step<Text>& step) {
  archive(step.begin, step.size, step.fresh);
}

std::vector<Step<std::string_view>> FindSteps(const Hashes& base,
                                              const Entries& now) {
  absl::flat_hash_map<Hash128, uint32_t> places;
  for (size_t i = 0; i < base.size(); ++i) {
    places.try_emplace(base[i], static_cast<uint32_t>(i));
  }
  std::vector<Step<std::string_view>> steps(1);
  for (const std::string& entry : now) {
    const Hash128 hash = ComputeHash(entry);
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

}  // namespace

Hashes ComputeHashes(const Entries& entries) {
  Hashes hashes;
  hashes.reserve(entries.size());
  for (const std::string& entry : entries) hashes.push_back(ComputeHash(entry));
  return hashes;
}

Hash128 FingerprintList(const Hashes& hashes) {
  return ComputeHash({reinterpret_cast<const char*>(hashes.data()),
                      hashes.size() * sizeof(Hash128)});
}

void PutChanges(const Hashes& base, const Entries& now, WireWriter& out) {
  out(FindSteps(base, now));
}

StatusOr<Entries> GetChanged(const Entries& base, WireReader& in) {
  std::vector<Step<std::string>> steps;
  in(steps);
  if (!in.ok()) {
    return absl::InternalError("the changes of a list are cut off");
  }
  Entries entries;
  for (Step<std::string>& step : steps) {
    const size_t end = size_t{step.begin} + step.size;
    if (end > base.size()) {
      return absl::InternalError(
          Cat("the changes of a list are not those of its base (need at least ",
              end, " entries, found ", base.size(), ")"));
    }
    entries.insert(entries.end(), base.begin() + step.begin,
                   base.begin() + static_cast<std::ptrdiff_t>(end));
    std::move(step.fresh.begin(), step.fresh.end(),
              std::back_inserter(entries));
  }
  return entries;
}

// --- List exchange ---

namespace {

// Fingerprints of a list and of the list that the rank sent before it.
struct Announced {
  Hash128 now;
  Hash128 base;
};

// The base from which a rank must send a list, if any.
enum class Ask : char {
  kNothing = 0,
  kFromLast = 1,
  kFromReference = 2,
  kAll = 3,
};

// The first byte of an ask is 1 if the reference is needed. One byte per list
// follows.
Ask GetAsk(const std::string& ask, size_t list) { return Ask{ask[1 + list]}; }

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

// Asks the ranks for list number `list`: one sender for each distinct list that
// rank 0 does not know.
std::vector<Ask> AskForList(const std::vector<std::vector<Announced>>& ranks,
                            size_t list, const ListsByFingerprint& heard) {
  // Returns true if rank 0 still has the list that `rank` sent last.
  const auto knows_last = [&](size_t rank) {
    const auto base = heard.find(ranks[rank][list].base);
    return base != heard.end() && !base->second.empty();
  };
  absl::flat_hash_map<Hash128, size_t> senders;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const Hash128 now = ranks[rank][list].now;
    if (heard.contains(now)) continue;
    const auto [sender, fresh] = senders.try_emplace(now, rank);
    if (!fresh && !knows_last(sender->second) && knows_last(rank)) {
      sender->second = rank;
    }
  }
  std::vector<Ask> asks(ranks.size(), Ask::kNothing);
  for (const auto& [now, rank] : senders) {
    asks[rank] = knows_last(rank)        ? Ask::kFromLast
                 : list == 0 && rank > 0 ? Ask::kFromReference
                                         : Ask::kAll;
  }
  return asks;
}

}  // namespace

ListsToSend PrepareLists(std::vector<Entries> lists) {
  ListsToSend now{.lists = std::move(lists), .hashes = {}};
  for (const Entries& list : now.lists) {
    now.hashes.push_back(ComputeHashes(list));
  }
  return now;
}

std::string Announce(const ListsToSend& now, const SentLists& before) {
  WireWriter out;
  for (size_t i = 0; i < now.lists.size(); ++i) {
    out.Put(Announced{.now = FingerprintList(now.hashes[i]),
                      .base = FingerprintList(HashesBefore(before, i))});
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
    const std::vector<Ask> chosen = AskForList(ranks, list, before.heard);
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      needs_reference = needs_reference || chosen[rank] == Ask::kFromReference;
      asks[rank].push_back(static_cast<char>(chosen[rank]));
    }
  }
  for (std::string& ask : asks) ask[0] = needs_reference ? '\1' : '\0';
  return asks;
}

bool NeedsReference(const std::string& ask) { return ask[0] != '\0'; }

std::string MakeReference(const ListsToSend& root) {
  const Hashes& hashes = root.hashes[0];
  return {reinterpret_cast<const char*>(hashes.data()),
          hashes.size() * sizeof(Hash128)};
}

std::string Answer(const std::string& ask, const std::string& reference,
                   const ListsToSend& now, const SentLists& before) {
  WireWriter out;
  for (size_t i = 0; i < now.lists.size(); ++i) {
    const Ask how = GetAsk(ask, i);
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
      const Ask ask = GetAsk(asks[rank], i);
      if (ask == Ask::kNothing) continue;
      const Entries none;
      BELAY_ASSIGN_OR_RETURN(
          Entries entries,
          GetChanged(ask == Ask::kFromLast        ? before.heard.at(list.base)
                     : ask == Ask::kFromReference ? root.lists[0]
                                                  : none,
                     in));
      const Hash128 found = FingerprintList(ComputeHashes(entries));
      if (found != list.now) {
        return absl::InternalError(absl::StrFormat(
            "a list has another fingerprint than announced (need %016x%016x, "
            "found %016x%016x)",
            list.now.high, list.now.low, found.high, found.low));
      }
      heard.lists[list.now] = std::move(entries);
    }
  }
  return heard;
}

}  // namespace belay
