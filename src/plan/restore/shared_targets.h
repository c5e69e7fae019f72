// Shards of different keys that a restore writes to the same memory, such as
// the tied weights of a model. Pure.

#ifndef BELAY_PLAN_RESTORE_SHARED_TARGETS_H_
#define BELAY_PLAN_RESTORE_SHARED_TARGETS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "belay/arrays/shard.h"
#include "belay/status.h"

namespace belay {

// A shard that is read into memory of its own, because one of another key has
// its memory.
struct SharedTarget {
  size_t shard = 0;  // its place in the list
  // Where it belongs, and what is read instead.
  std::byte* data = nullptr;
  std::vector<std::byte> read;
  size_t common_bytes = 0;  // so many of its first ones are those of `other`
  // The same of a text, which is shared as a whole.
  std::string* text = nullptr;
  std::string read_text;
  std::string other;  // a key
};

// Lets each shard whose memory begins in that of a shard of another key be read
// into memory of its own. Leaves alone structs, ghost cells, and shards with
// gaps between their elements: others may lie in these. Local.
// Errors: ResourceExhausted - there is no memory for that.
StatusOr<std::vector<SharedTarget>> SetApart(std::vector<Shard>& shards);

// Once all is read: puts the values into place, and gives the shards their
// memory back. `operation` is for messages. Local.
// Errors: FailedPrecondition - different values are stored for one memory;
//   names both keys.
Status PutTogether(const std::vector<SharedTarget>& shared,
                   const std::string& operation, std::vector<Shard>& shards);

}  // namespace belay

#endif  // BELAY_PLAN_RESTORE_SHARED_TARGETS_H_
