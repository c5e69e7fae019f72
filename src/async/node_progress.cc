#include "async/node_progress.h"

#include <atomic>

namespace belay {

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

}  // namespace belay
