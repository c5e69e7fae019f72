// Lists that a process sends again and again: only what has changed travels.

#ifndef BELAY_CORE_LIST_EXCHANGE_H_
#define BELAY_CORE_LIST_EXCHANGE_H_

#include "absl/container/flat_hash_map.h"
#include "core/wire.h"

namespace belay {

// Changes of a list of byte strings, from which a process that has an earlier
// list, the base, makes the present one. The sender needs only the hashes of
// the base.

using Entries = std::vector<std::string>;
using Hashes = std::vector<Hash128>;

// Hashes stand for entries and lists: nothing else is compared.
Hashes ComputeHashes(const Entries& entries);
Hash128 FingerprintList(const Hashes& hashes);

// Appends the changes from a list with these hashes to `now`: runs of entries
// that stay, 16 bytes each, and between them new entries. An empty base gives
// all entries.
void PutChanges(const Hashes& base, const Entries& now, WireWriter& out);

// Errors: Internal - the changes do not fit this base.
StatusOr<Entries> GetChanged(const Entries& base, WireReader& in);

// How rank 0 learns the lists of all ranks: the messages, without MPI.
//
//   announcement  every rank -> rank 0: fingerprints of its lists, now and when
//                 it last sent them
//   ask           rank 0 -> every rank: how it is to send each of them
//   reference     rank 0 -> all: hashes of its own first list, if ranks without
//                 a better base have to send theirs
//   answer        every rank -> rank 0: changes to lists that rank 0 does not
//                 know, each list from one rank
//
// Lists are named by their contents: a rank may have lost the lists that it
// sent, or have sent them to another rank 0.

using ListsByFingerprint = absl::flat_hash_map<Hash128, Entries>;

// The lists of the last exchange. The empty list is always known.
struct SentLists {
  std::vector<Hashes> mine;  // of this rank's lists
  // Rank 0 only: the lists of all ranks.
  ListsByFingerprint heard = {{FingerprintList({}), {}}};
};

// The lists of this rank. Their number is equal on all ranks; the first ones of
// all ranks are rather alike.
struct ListsToSend {
  std::vector<Entries> lists;
  std::vector<Hashes> hashes;
};
ListsToSend PrepareLists(std::vector<Entries> lists);

std::string Announce(const ListsToSend& now, const SentLists& before);

// Rank 0: asks each rank. Of ranks with equal lists one sends them, preferably
// one with a base.
std::vector<std::string> AskFor(const std::vector<std::string>& announcements,
                                const SentLists& before);

// Equal on all ranks that were asked together.
bool NeedsReference(const std::string& ask);
std::string MakeReference(const ListsToSend& root);

// `reference` may be empty if it is not needed.
std::string Answer(const std::string& ask, const std::string& reference,
                   const ListsToSend& now, const SentLists& before);

// Rank 0: the lists of all ranks.
struct Heard {
  std::vector<std::vector<Hash128>> ranks;  // fingerprints, by rank and list
  ListsByFingerprint lists = {{FingerprintList({}), {}}};
};

// `root` has the lists of rank 0 itself.
// Errors: Internal - an answer does not fit its ask.
StatusOr<Heard> Hear(const std::vector<std::string>& announcements,
                     const std::vector<std::string>& asks,
                     const std::vector<std::string>& answers,
                     const ListsToSend& root, const SentLists& before);

}  // namespace belay

#endif  // BELAY_CORE_LIST_EXCHANGE_H_
