// Fingerprints: whether bytes in different processes are the same.

#ifndef BELAY_BYTES_FINGERPRINT_H_
#define BELAY_BYTES_FINGERPRINT_H_

#include <compare>
#include <cstdint>
#include <string_view>
#include <utility>

namespace belay {

// Returns 64 bits that are the same in every process for the same bytes. Never
// written to disk. Local.
uint64_t Fingerprint(std::string_view bytes);
// Another number for each seed. Local.
uint64_t Fingerprint(std::string_view bytes, uint64_t seed);

// 128 bits: of so many that two are never the same by chance, however many
// byte strings there are.
struct Hash128 {
  uint64_t low = 0;
  uint64_t high = 0;

  friend auto operator<=>(const Hash128&, const Hash128&) = default;
  template <typename Hash>
  friend Hash AbslHashValue(Hash state, const Hash128& hash) {
    return Hash::combine(std::move(state), hash.low, hash.high);
  }
};

// Returns the hash that stands for the bytes where they are not compared
// themselves, the same in every process. Never written to disk. Local.
Hash128 HashOf(std::string_view bytes);

}  // namespace belay

#endif  // BELAY_BYTES_FINGERPRINT_H_
