// Lists that a process sends again and again: only what has changed travels.

#ifndef BELAY_CORE_LIST_EXCHANGE_H_
#define BELAY_CORE_LIST_EXCHANGE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "belay/status.h"
#include "core/wire.h"

namespace belay {

// Lists of short byte strings that a process tells another one again and again:
// only what has changed is sent.
//
// In:  the list as it is now, and hashes of the one that the other side has
//      (its base). Out: changes, from which the other side makes the list.

using Entries = std::vector<std::string>;
using Hashes = std::vector<Hash128>;

// One hash per entry, and for a list of them one more. Equal in every process
// for equal entries, and for no others: nothing else is compared. Never written
// to disk.
Hashes HashesOf(const Entries& entries);
Hash128 FingerprintOf(const Hashes& hashes);

// Appends what leads from a list with these hashes to `now`: runs of entries
// that stay, 16 bytes each, and between them those that are new. What has gone
// takes no place. An empty base gives all entries.
void PutChanges(const Hashes& base, const Entries& now, WireWriter& out);

// Makes the list from its base.
// Errors: Internal - the changes are not those of this base.
StatusOr<Entries> GetChanged(const Entries& base, WireReader& in);

// How lists that every rank has become known to rank 0: the messages, without
// MPI.
//
//   announcement  every rank -> rank 0: fingerprints of its lists, now and when
//                 it last told them
//   ask           rank 0 -> every rank: how it is to send each of them
//   reference     rank 0 -> all: hashes of its own first list, if others have
//                 to send theirs and know no better list to compare with
//   answer        every rank -> rank 0: lists that rank 0 does not know, each
//                 from one rank: what differs
//
// Lists are named by their contents: a rank may have lost what it told, or have
// told it to another rank 0.

// An empty list is always there: nobody has to tell it.
using ListsByFingerprint = absl::flat_hash_map<Hash128, Entries>;

// What was told the last time.
struct SentLists {
  std::vector<Hashes> mine;  // of this rank's lists
  // Rank 0 only: the lists of all ranks.
  ListsByFingerprint heard = {{FingerprintOf({}), {}}};
};

// What a rank has to tell now. The number of lists is equal on all ranks; the
// first ones of all ranks are rather alike.
struct ListsToSend {
  std::vector<Entries> lists;
  std::vector<Hashes> hashes;
};
ListsToSend ListsToSendOf(std::vector<Entries> lists);

std::string Announce(const ListsToSend& now, const SentLists& before);

// Rank 0: what each rank is to send. Of ranks with equal lists one does, rather
// one that can tell it in few words.
std::vector<std::string> AskFor(const std::vector<std::string>& announcements,
                                const SentLists& before);

// Whether the reference is needed: equal for all that were asked together.
bool NeedsReference(const std::string& ask);
std::string ReferenceOf(const ListsToSend& root);

// `reference` may be empty if it is not needed.
std::string Answer(const std::string& ask, const std::string& reference,
                   const ListsToSend& now, const SentLists& before);

// Rank 0: what it knows then.
struct Heard {
  std::vector<std::vector<Hash128>> ranks;  // fingerprints of the lists of each
  ListsByFingerprint lists = {{FingerprintOf({}), {}}};
};

// `root` is what rank 0 has to tell itself.
// Errors: Internal - an answer is not to what was asked.
StatusOr<Heard> Hear(const std::vector<std::string>& announcements,
                     const std::vector<std::string>& asks,
                     const std::vector<std::string>& answers,
                     const ListsToSend& root, const SentLists& before);

}  // namespace belay

#endif  // BELAY_CORE_LIST_EXCHANGE_H_
