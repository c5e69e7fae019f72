#include "save/node_progress.h"

#include <atomic>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "core/agreed.h"
#include "core/status_macros.h"
#include "core/wire.h"
#include "mpi/collective.h"
#include "mpi/shared_memory.h"

namespace belay {

bool StallWatch::IsStuck(Time now, int64_t progress, double limit) {
  constexpr std::chrono::seconds kSecondLook{1};
  if (progress_ != progress) {
    progress_ = progress;
    changed_at_ = now;
    suspected_at_.reset();
    return false;
  }
  const std::chrono::duration<double> still = now - changed_at_;
  if (limit <= 0 || still.count() < limit) return false;
  if (!suspected_at_) suspected_at_ = now;
  return now - *suspected_at_ >= kSecondLook;
}

// --- Node progress ---

NodeProgress NodeProgress::Alone() {
  auto cell = std::make_shared<Cell>();
  char* const first = reinterpret_cast<char*>(cell.get());
  NodeProgress progress(std::move(cell), first, sizeof(Cell));
  progress.is_alone_ = true;
  return progress;
}

std::vector<NodeProgress> NodeProgress::OfThreads(int32_t ranks) {
  const auto cells = std::make_shared<std::vector<Cell>>(ranks);
  std::vector<NodeProgress> all;
  for (int32_t place = 0; place < ranks; ++place) {
    all.push_back(NodeProgress(cells, reinterpret_cast<char*>(cells->data()),
                               sizeof(Cell)));
    all.back().place_ = place;
    all.back().ranks_ = ranks;
  }
  return all;
}

NodeProgress::Cell& NodeProgress::CellOf(int32_t place) const {
  return *reinterpret_cast<Cell*>(first_ + place * bytes_apart_);
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

namespace {

// Finds this rank's place among the ranks of its node. Collective; agreed.
Agreed<NodePlace> PlaceOnNode(CommContext& context) {
  BELAY_ASSIGN_OR_RETURN_AGREED(const int32_t node, NodeOfRank(context));
  BELAY_ASSIGN_OR_RETURN_AGREED(const std::vector<std::string> nodes,
                                AllGather(context, Encode(node)));
  NodePlace place{.first = node, .place = 0, .ranks = 0};
  for (int rank = 0; rank < context.size(); ++rank) {
    if (WireReader(nodes[rank]).Get<int32_t>() != node) continue;
    if (rank == context.rank()) place.place = place.ranks;
    ++place.ranks;
  }
  return place;
}

}  // namespace

Agreed<NodeProgress> NodeProgress::Create(CommContext& context) {
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
  // No rank may report before all cells exist.
  BELAY_RETURN_IF_AGREED(Agree(context, absl::OkStatus()));
  return progress;
}

}  // namespace belay
