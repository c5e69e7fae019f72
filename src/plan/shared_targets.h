// How values reach all ranks, and all shards with the same memory, that want
// them.

#ifndef BELAY_PLAN_SHARED_TARGETS_H_
#define BELAY_PLAN_SHARED_TARGETS_H_

#include <span>

#include "belay/extend/shard.h"
#include "belay/status.h"
#include "plan/choose_ranks.h"

namespace belay {

// Streams: every rank lays the values that it reads for others end to end. It
// hands over its stream in portions of equal size, one per round, by a slot of
// the shared memory of its node. The parts that ranks of another node want go
// to one rank there, the carrier, which puts them into a slot of its own. Then
// every rank copies what it wants.

// Parts of a stream begin at multiples of this, so that no border between
// portions cuts an element.
inline constexpr int64_t kStreamAlignment = 64;

struct Nodes {
  std::vector<std::vector<int32_t>> ranks;  // of each node, ascending
  std::vector<int32_t> node;                // of each rank, as position there
  std::vector<int32_t> place;               // of each rank in its node
};

// Ranks of one node have equal numbers.
Nodes GroupByNode(std::span<const int32_t> numbers);

// Returns the rank of a node that receives the stream of `reader`: the reader
// itself if it is there.
int32_t Carrier(const Nodes& nodes, int32_t reader, int32_t node);

// Returns by reader the slot of its carrier on this node that holds its stream;
// 0 is the own slot of a rank.
std::vector<int32_t> SlotsOnNode(const Nodes& nodes, int32_t node);

// Returns the most slots of a rank, on any node.
int32_t MostSlots(const Nodes& nodes);

// Returns the bytes of a portion: a few hundred KiB, which stay in the cache of
// a core, less if two portions for each slot exceed `most_bytes`.
int64_t PortionBytes(int32_t slots, int64_t most_bytes);

// Returns the transfers between nodes, by rank.
std::vector<RankTransits> PlanTransits(const RestorePlan& plan,
                                       const Nodes& nodes);

// Shards of different keys with the same memory, such as tied weights.

// A shard that is read into separate memory, because one of another key has its
// memory.
struct SharedTarget {
  size_t shard = 0;  // its place in the list
  // Its address, and the separate memory.
  std::byte* data = nullptr;
  std::vector<std::byte> read;
  size_t common_bytes = 0;  // so many of its first ones are those of `other`
  // The same for a text, which is shared as a whole.
  std::string* text = nullptr;
  std::string read_text;
  std::string other;  // a key
};

// Gives separate memory to each shard whose memory begins in that of a shard of
// another key. Ignores structs, ghost cells, and shards with gaps between their
// elements: others may lie in these.
// Errors: ResourceExhausted - out of memory.
StatusOr<std::vector<SharedTarget>> SetApart(std::vector<Shard>& shards);

// Copies the values that were read into place, and gives the shards their
// memory back. `operation` is for messages.
// Errors: FailedPrecondition - different values are stored for one memory;
//   names both keys.
Status PutTogether(const std::vector<SharedTarget>& shared,
                   const std::string& operation, std::vector<Shard>& shards);

}  // namespace belay

#endif  // BELAY_PLAN_SHARED_TARGETS_H_
