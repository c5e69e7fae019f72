#include "async/node_progress.h"

#include <atomic>
#include <new>
#include <string>
#include <vector>

#include "base/status_macros.h"
#include "bytes/wire.h"
#include "mpi/all_gather.h"
#include "mpi/node.h"

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
  NodeProgress progress;
  StatusOr<SharedMemory> memory =
      SharedMemory::Create(context, place, sizeof(Cell));
  if (!memory.ok()) return progress;
  progress.memory_ = *std::move(memory);
  progress.place_ = place.place;
  progress.ranks_ = place.ranks;
  new (progress.memory_->Part(place.place)) Cell();
  // Nobody may tell before all cells are there.
  BELAY_RETURN_IF_AGREED(Agree(context, absl::OkStatus()));
  return progress;
}

NodeProgress::Cell& NodeProgress::CellOf(int32_t place) const {
  return memory_ ? *reinterpret_cast<Cell*>(memory_->Part(place)) : *own_;
}

void NodeProgress::Tell(int64_t number) {
  CellOf(place_).number.store(number, std::memory_order_release);
}

void NodeProgress::Tick() {
  CellOf(place_).ticks.fetch_add(1, std::memory_order_relaxed);
}

bool NodeProgress::AllReached(int64_t number) const {
  for (int32_t place = 0; place < ranks_; ++place) {
    if (CellOf(place).number.load(std::memory_order_acquire) < number) {
      return false;
    }
  }
  return true;
}

bool NodeProgress::AnyFailed(int64_t number) const {
  for (int32_t place = 0; place < ranks_; ++place) {
    if (CellOf(place).number.load(std::memory_order_acquire) == -number) {
      return true;
    }
  }
  return false;
}

int64_t NodeProgress::ticks() const {
  int64_t sum = 0;
  for (int32_t place = 0; place < ranks_; ++place) {
    sum += CellOf(place).ticks.load(std::memory_order_relaxed);
  }
  return sum;
}

}  // namespace belay
