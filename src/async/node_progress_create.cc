// What of the progress of a node needs messages.
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "async/node_progress.h"
#include "base/status_macros.h"
#include "bytes/wire.h"
#include "mpi/all_gather.h"
#include "mpi/node.h"
#include "mpi/shared_memory.h"

namespace belay {
namespace {

// Where this rank stands among those of its node. Collective; agreed.
StatusOr<NodePlace> PlaceOnNode(CommContext& context) {
  BELAY_ASSIGN_OR_RETURN_AGREED(const int32_t node, NodeOfRank(context));
  WireWriter mine;
  mine.Put(node);
  BELAY_ASSIGN_OR_RETURN_AGREED(const std::vector<std::string> nodes,
                                AllGather(context, mine.Take()));
  NodePlace place{.first = node, .place = 0, .ranks = 0};
  for (int rank = 0; rank < context.size(); ++rank) {
    if (WireReader(nodes[rank]).Get<int32_t>() != node) continue;
    if (rank == context.rank()) place.place = place.ranks;
    ++place.ranks;
  }
  return place;
}

}  // namespace

StatusOr<NodeProgress> NodeProgress::Create(CommContext& context) {
  BELAY_ASSIGN_OR_RETURN_AGREED(const NodePlace place, PlaceOnNode(context));
  StatusOr<SharedMemory> shared =
      SharedMemory::Create(context, place, sizeof(Cell));
  if (!shared.ok()) return Alone();
  auto memory = std::make_shared<SharedMemory>(*std::move(shared));
  NodeProgress progress(memory, memory->Part(0),
                        memory->Part(1) - memory->Part(0));
  progress.place_ = place.place;
  progress.ranks_ = place.ranks;
  new (memory->Part(place.place)) Cell();
  // Nobody may tell before all cells are there.
  BELAY_RETURN_IF_AGREED(Agree(context, absl::OkStatus()));
  return progress;
}

}  // namespace belay
