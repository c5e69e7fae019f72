// How what all ranks list becomes known to rank 0: the messages, without MPI.
//
//   announcement  every rank -> rank 0   fingerprints of its two lists, now and
//                                        when it last told them
//   ask           rank 0 -> every rank   what it is to send of each
//   answer        every rank -> rank 0   lists that rank 0 does not know, each
//                                        from one rank: what has changed, or
//                                        all
//
// A rank may have lost what it told, or have told it to another rank 0: lists
// are named by their contents.

#ifndef BELAY_MODEL_TELLING_H_
#define BELAY_MODEL_TELLING_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/entries.h"
#include "belay/status.h"
#include "model/description.h"
#include "model/listed_ranks.h"

namespace belay {

// An empty list is always there: nobody has to tell it.
using ListsByFingerprint = absl::flat_hash_map<uint64_t, Entries>;

// What was told the last time.
struct Told {
  // Hashes of this rank's shared and own entries.
  std::array<std::vector<uint64_t>, 2> mine;
  // Rank 0 only: the lists of all ranks.
  ListsByFingerprint heard = {{FingerprintOf({}), {}}};
};

// What a rank has to tell now.
struct Telling {
  int32_t node = 0;
  Description description;
  std::array<std::vector<uint64_t>, 2> hashes;
};
Telling TellingOf(const RankShards& mine, int rank);

// The messages of a rank.
std::string Announce(const Telling& now, const Told& before);
std::string Answer(const std::string& ask, const Telling& now,
                   const Told& before);

// Rank 0: what each rank is to send. Of ranks with equal lists one does, rather
// one that can tell it in few words.
std::vector<std::string> AskFor(const std::vector<std::string>& announcements,
                                const Told& before);

// Rank 0: what it knows then.
struct Heard {
  ListedRanks listed;
  ListsByFingerprint lists = {{FingerprintOf({}), {}}};
};

// Errors: Internal - an answer is not to what was asked.
StatusOr<Heard> Hear(const std::vector<std::string>& announcements,
                     const std::vector<std::string>& asks,
                     const std::vector<std::string>& answers,
                     const Told& before);

}  // namespace belay

#endif  // BELAY_MODEL_TELLING_H_
