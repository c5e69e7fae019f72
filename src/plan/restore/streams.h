// Streams: how what one rank reads reaches the others that want it.
//
// Every rank lays what it reads for others end to end: its stream. A stream is
// handed over in portions of equal size, one per round. In each round a rank
// puts a portion into its slot of the memory that its node shares; what ranks
// of another node want of it goes to one rank there, the carrier, which puts
// it into a slot of its own. Then every rank copies what it wants.

#ifndef BELAY_PLAN_RESTORE_STREAMS_H_
#define BELAY_PLAN_RESTORE_STREAMS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "plan/plan.h"
#include "plan/restore/parts_to_read.h"

namespace belay {

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

}  // namespace belay

#endif  // BELAY_PLAN_RESTORE_STREAMS_H_
