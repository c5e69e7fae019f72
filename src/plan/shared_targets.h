// Distributes values to all ranks that want them, and to all shards that share
// memory.

#ifndef BELAY_PLAN_SHARED_TARGETS_H_
#define BELAY_PLAN_SHARED_TARGETS_H_

#include <span>

#include "belay/extend/shard.h"
#include "belay/status.h"
#include "plan/choose_ranks.h"

namespace belay {

// Streams: the values that a rank reads for other ranks are laid end to end.
// The rank passes this stream on in portions of equal size, one per round,
// through a slot in the shared memory of its node. Parts that ranks of another
// node want are sent to one rank there, the carrier, which puts them into one
// of its slots. Then every rank copies the values that it wants.

// Parts of a stream begin at multiples of this number of bytes, so that no
// border between portions cuts an element.
inline constexpr int64_t kStreamAlignment = 64;

struct Nodes {
  std::vector<std::vector<int32_t>> ranks;  // of each node, ascending
  std::vector<int32_t> node;                // of each rank: index into `ranks`
  std::vector<int32_t> place;               // of each rank: index in its node
};

// `numbers` has one number per rank, equal for ranks of the same node.
Nodes GroupByNode(std::span<const int32_t> numbers);

// Returns the rank of a node that receives the stream of `reader`: the reader
// itself if it is on that node.
int32_t Carrier(const Nodes& nodes, int32_t reader, int32_t node);

// Returns, for each reader, the slot that holds its stream on this node, among
// the slots of its carrier. Slot 0 holds a rank's own stream.
std::vector<int32_t> SlotsOnNode(const Nodes& nodes, int32_t node);

// Returns the maximum number of slots of a rank, on any node.
int32_t MostSlots(const Nodes& nodes);

// Returns the size of a portion in bytes: a few hundred KiB, which fit into a
// core's cache, or less if two portions per slot would exceed `most_bytes`.
int64_t PortionBytes(int32_t slots, int64_t most_bytes);

// Returns the transfers between nodes, per rank.
std::vector<RankTransits> PlanTransits(const RestorePlan& plan,
                                       const Nodes& nodes);

// Shards of different keys with the same memory, such as tied weights.

// A shard that is read into separate memory, because it shares its memory with
// a shard of another key.
struct SharedTarget {
  size_t shard = 0;  // its position in the list
  // Its original address, and the separate memory.
  std::byte* data = nullptr;
  std::vector<std::byte> read;
  size_t common_bytes = 0;  // leading bytes that it shares with `other`
  // The same for a string, which is shared as a whole.
  std::string* text = nullptr;
  std::string read_text;
  std::string other;  // the other shard's key
};

// Gives separate memory to each shard whose memory begins inside that of a
// shard of another key. Ignores shards with structs, ghost cells, or gaps
// between their elements, because the gaps may hold other shards.
// Errors: ResourceExhausted - out of memory.
StatusOr<std::vector<SharedTarget>> SetApart(std::vector<Shard>& shards);

// Copies the values that were read to the original memory, and points the
// shards to that memory again. `operation` is for messages.
// Errors: FailedPrecondition - different values are stored for one memory;
//   names both keys.
Status PutTogether(const std::vector<SharedTarget>& shared,
                   const std::string& operation, std::vector<Shard>& shards);

}  // namespace belay

#endif  // BELAY_PLAN_SHARED_TARGETS_H_
