// Lists that a process sends repeatedly: only changes are sent.

#ifndef BELAY_CORE_LIST_EXCHANGE_H_
#define BELAY_CORE_LIST_EXCHANGE_H_

#include "absl/container/flat_hash_map.h"
#include "core/wire.h"

namespace belay {

// A list of byte strings is sent as its changes from an earlier list, the base,
// that the receiver has. The sender needs only the hashes of the base.

using Entries = std::vector<std::string>;
using Hashes = std::vector<Hash128>;

// Entries and lists are compared by their hashes only.
Hashes ComputeHashes(const Entries& entries);
Hash128 FingerprintList(const Hashes& hashes);

// Appends the changes from the base with these hashes to `now`: runs of
// unchanged entries, 16 bytes each, and between them new entries. With an empty
// base, all entries are new.
void PutChanges(const Hashes& base, const Entries& now, WireWriter& out);

// Errors: Internal - the changes do not fit this base.
StatusOr<Entries> GetChanged(const Entries& base, WireReader& in);

// How rank 0 collects the lists of all ranks. These functions make the messages
// and do not call MPI.
//
//   announcement  every rank -> rank 0: fingerprints of its lists, now and when
//                 it last sent them
//   ask           rank 0 -> every rank: how to send each list
//   reference     rank 0 -> all: hashes of rank 0's own first list, if ranks
//                 without a better base must send their first list
//   answer        every rank -> rank 0: changes to lists that rank 0 does not
//                 know; each list comes from one rank
//
// Lists are identified by their contents: a rank may have lost the lists that
// it sent, or may have sent them to another rank 0.

using ListsByFingerprint = absl::flat_hash_map<Hash128, Entries>;

// The lists of the last exchange. The empty list is always known.
struct SentLists {
  std::vector<Hashes> mine;  // of this rank's lists
  // Rank 0 only: the lists of all ranks.
  ListsByFingerprint heard = {{FingerprintList({}), {}}};
};

// The lists of this rank. All ranks have the same number of lists, and their
// first lists are usually similar.
struct ListsToSend {
  std::vector<Entries> lists;
  std::vector<Hashes> hashes;
};
ListsToSend PrepareLists(std::vector<Entries> lists);

std::string Announce(const ListsToSend& now, const SentLists& before);

// Rank 0: makes a request to each rank. Among ranks with equal lists, one sends
// them, preferably one with a base.
std::vector<std::string> AskFor(const std::vector<std::string>& announcements,
                                const SentLists& before);

// Returns the same on all ranks that were asked together.
bool NeedsReference(const std::string& ask);
std::string MakeReference(const ListsToSend& root);

// `reference` may be empty if NeedsReference returns false.
std::string Answer(const std::string& ask, const std::string& reference,
                   const ListsToSend& now, const SentLists& before);

// Rank 0: the lists of all ranks.
struct Heard {
  std::vector<std::vector<Hash128>> ranks;  // fingerprints per rank and list
  ListsByFingerprint lists = {{FingerprintList({}), {}}};
};

// `root` has rank 0's own lists.
// Errors: Internal - an answer does not fit its ask.
StatusOr<Heard> Hear(const std::vector<std::string>& announcements,
                     const std::vector<std::string>& asks,
                     const std::vector<std::string>& answers,
                     const ListsToSend& root, const SentLists& before);

}  // namespace belay

#endif  // BELAY_CORE_LIST_EXCHANGE_H_
