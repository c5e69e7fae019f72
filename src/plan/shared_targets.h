// How values that several ranks or values want reach all of them.

#ifndef BELAY_PLAN_SHARED_TARGETS_H_
#define BELAY_PLAN_SHARED_TARGETS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "belay/arrays/shard.h"
#include "belay/status.h"
#include "plan/choose_ranks.h"
#include "plan/plan.h"

namespace belay {

// Streams: how what one rank reads reaches the others that want it.
//
// Every rank lays what it reads for others end to end: its stream. A stream is
// handed over in portions of equal size, one per round. In each round a rank
// puts a portion into its slot of the memory that its node shares; what ranks
// of another node want of it goes to one rank there, the carrier, which puts
// it into a slot of its own. Then every rank copies what it wants.

// Parts of a stream begin at multiples of this, so that no element lies on both
// sides of a border between portions.
inline constexpr int64_t kStreamAlignment = 64;

// Gives those reads of a plan that others want too a place in a stream, and
// adds the deliveries. Requires that no two reads of an array overlap, that
// reads are in their final order, and that arrays[i] is the plan's i-th.
void AddDeliveries(const std::vector<WantedArray>& arrays, RestorePlan& plan);

// The ranks by node.
struct Nodes {
  std::vector<std::vector<int32_t>> ranks;  // of each node, ascending
  std::vector<int32_t> node;                // of each rank, as position there
  std::vector<int32_t> place;               // of each rank in its node
};

// `numbers` is equal for ranks of one node.
Nodes GroupByNode(std::span<const int32_t> numbers);

// The rank of a node that takes in the stream of `reader` for that node: the
// reader itself if it is there.
int32_t Carrier(const Nodes& nodes, int32_t reader, int32_t node);

// For each reader, which slot of its carrier on this node holds its stream;
// 0 is a rank's own.
std::vector<int32_t> SlotsOnNode(const Nodes& nodes, int32_t node);

// The most slots that a rank has, on any node.
int32_t MostSlots(const Nodes& nodes);

// The bytes of a portion: a few hundred KiB, which stay in a core's cache, and
// less if two portions for each slot are more than `most_bytes`.
int64_t PortionBytes(int32_t slots, int64_t most_bytes);

// What goes from node to node, for each rank.
std::vector<RankTransits> PlanTransits(const RestorePlan& plan,
                                       const Nodes& nodes);

// Shards of different keys that a restore writes to the same memory, such as
// the tied weights of a model.

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
// gaps between their elements: others may lie in these.
// Errors: ResourceExhausted - there is no memory for that.
StatusOr<std::vector<SharedTarget>> SetApart(std::vector<Shard>& shards);

// Once all is read: puts the values into place, and gives the shards their
// memory back. `operation` is for messages.
// Errors: FailedPrecondition - different values are stored for one memory;
//   names both keys.
Status PutTogether(const std::vector<SharedTarget>& shared,
                   const std::string& operation, std::vector<Shard>& shards);

}  // namespace belay

#endif  // BELAY_PLAN_SHARED_TARGETS_H_
