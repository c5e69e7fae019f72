// What a save has listed, kept for the next save of the same State.

#ifndef BELAY_SAVE_SAVE_LIST_H_
#define BELAY_SAVE_SAVE_LIST_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "belay/arrays/shard.h"
#include "state/state.h"
#include "state/type_handlers.h"
#include "state/value_listing.h"

namespace belay {

// All that decides what a save lists, but for the lengths of containers and
// texts.
struct ListingOrigin {
  StateVersion state;
  std::shared_ptr<const HandlerTable> handlers;
  uint64_t setting = 0;  // fingerprint of the options, the ranks and the job

  bool operator==(const ListingOrigin&) const = default;
};

// A shard whose elements an object holds, which may move them or have another
// length by the next save.
struct MovingShard {
  size_t shard = 0;
  size_t text_bytes = 0;  // of a text
};

struct KeptListing {
  ListingOrigin origin;
  std::vector<Shard> shards;
  std::vector<bool> on_all_ranks;  // as of ListedSave
  std::vector<ListedValue> values;
  std::vector<MovingShard> moving;
};

// Returns what to keep of a listing besides its shards and values; nullopt if
// handlers or rows have a part in it that list anew in each save.
std::optional<std::vector<MovingShard>> FindMoving(
    const HandlerListing& listing, const std::vector<Shard>& shards);

// Finds all elements anew. Returns whether the shards are otherwise what they
// were; if not, some may have changed already.
bool FindMovedElements(KeptListing& kept);

}  // namespace belay

#endif  // BELAY_SAVE_SAVE_LIST_H_
