#include "model/telling.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "base/wire.h"

namespace belay {
namespace {

constexpr size_t kKinds = 2;  // shared and own entries

// A list of entries, and the one that was told before it.
struct Announced {
  uint64_t now = 0;
  uint64_t base = 0;
};

struct Announcement {
  int32_t node = 0;
  std::array<Announced, kKinds> lists;
};

// What rank 0 wants of a list.
enum class Ask : char { kNothing = 0, kChanges = 1, kAll = 2 };

std::vector<Announcement> DecodeAll(const std::vector<std::string>& bytes) {
  std::vector<Announcement> announcements;
  for (const std::string& of_rank : bytes) {
    WireReader in(of_rank);
    Announcement& announcement = announcements.emplace_back();
    announcement.node = in.Get<int32_t>();
    for (Announced& list : announcement.lists) list = in.Get<Announced>();
  }
  return announcements;
}

const Entries& ListOf(const Description& description, size_t kind) {
  return kind == 0 ? description.shared : description.own;
}

// Puts a list together of what a rank has sent.
StatusOr<Entries> TakeList(Ask ask, const Announced& announced,
                           const ListsByFingerprint& before, WireReader& in) {
  const Entries none;
  const bool changes = ask == Ask::kChanges;
  BELAY_ASSIGN_OR_RETURN(
      Entries entries,
      GetChanged(changes ? before.at(announced.base) : none, in));
  const uint64_t found = FingerprintOf(HashesOf(entries));
  if (found == announced.now) return entries;
  return absl::InternalError(absl::StrFormat(
      "a list of shards has another fingerprint than announced (need %#018x, "
      "found %#018x)",
      announced.now, found));
}

// The table of all lists.
StatusOr<ListedRanks> MakeTable(const std::vector<Announcement>& ranks,
                                const ListsByFingerprint& lists) {
  ListedRanks listed;
  absl::flat_hash_map<uint64_t, int32_t> rows;
  for (const Announcement& rank : ranks) {
    for (const Announced& list : rank.lists) {
      const auto row = static_cast<int32_t>(rows.size());
      if (!rows.try_emplace(list.now, row).second) continue;
      BELAY_ASSIGN_OR_RETURN(listed.lists.emplace_back(),
                             DecodeList(lists.at(list.now)));
    }
    listed.ranks.push_back({.node = rank.node,
                            .shared = rows[rank.lists[0].now],
                            .own = rows[rank.lists[1].now]});
  }
  return listed;
}

}  // namespace

Telling TellingOf(const RankShards& mine, int rank) {
  Telling now{.node = mine.node,
              .description = Describe(mine.shards, mine.values, rank),
              .hashes = {}};
  for (size_t kind = 0; kind < kKinds; ++kind) {
    now.hashes[kind] = HashesOf(ListOf(now.description, kind));
  }
  return now;
}

std::string Announce(const Telling& now, const Told& before) {
  WireWriter out;
  out.Put(now.node);
  for (size_t kind = 0; kind < kKinds; ++kind) {
    out.Put(Announced{.now = FingerprintOf(now.hashes[kind]),
                      .base = FingerprintOf(before.mine[kind])});
  }
  return out.Take();
}

std::string Answer(const std::string& ask, const Telling& now,
                   const Told& before) {
  WireWriter out;
  for (size_t kind = 0; kind < kKinds; ++kind) {
    const Entries& list = ListOf(now.description, kind);
    if (Ask{ask[kind]} == Ask::kChanges) {
      PutChanges(before.mine[kind], list, out);
    } else if (Ask{ask[kind]} == Ask::kAll) {
      PutChanges({}, list, out);
    }
  }
  return out.Take();
}

std::vector<std::string> AskFor(const std::vector<std::string>& announcements,
                                const Told& before) {
  const std::vector<Announcement> ranks = DecodeAll(announcements);
  std::vector<std::string> asks(ranks.size(), std::string(kKinds, '\0'));
  for (size_t kind = 0; kind < kKinds; ++kind) {
    // Whether this list is told in few words.
    const auto is_short = [&](size_t rank) {
      const auto base = before.heard.find(ranks[rank].lists[kind].base);
      return base != before.heard.end() && !base->second.empty();
    };
    absl::flat_hash_map<uint64_t, size_t> senders;
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      const uint64_t now = ranks[rank].lists[kind].now;
      if (before.heard.contains(now)) continue;
      const auto [sender, fresh] = senders.try_emplace(now, rank);
      if (!fresh && !is_short(sender->second) && is_short(rank)) {
        sender->second = rank;
      }
    }
    for (const auto& [now, rank] : senders) {
      const Ask ask = is_short(rank) ? Ask::kChanges : Ask::kAll;
      asks[rank][kind] = static_cast<char>(ask);
    }
  }
  return asks;
}

StatusOr<Heard> Hear(const std::vector<std::string>& announcements,
                     const std::vector<std::string>& asks,
                     const std::vector<std::string>& answers,
                     const Told& before) {
  const std::vector<Announcement> ranks = DecodeAll(announcements);
  Heard heard;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    WireReader in(answers[rank]);
    for (size_t kind = 0; kind < kKinds; ++kind) {
      const Announced& list = ranks[rank].lists[kind];
      const auto known = before.heard.find(list.now);
      if (known != before.heard.end()) heard.lists.insert(*known);
      if (Ask{asks[rank][kind]} == Ask::kNothing) continue;
      BELAY_ASSIGN_OR_RETURN(
          heard.lists[list.now],
          TakeList(Ask{asks[rank][kind]}, list, before.heard, in));
    }
  }
  BELAY_ASSIGN_OR_RETURN(heard.listed, MakeTable(ranks, heard.lists));
  return heard;
}

}  // namespace belay
