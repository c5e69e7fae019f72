// How far the ranks of a node are with a save, in memory that they share: so
// that one of them can sync a file once all have written it, without a message,
// and so that a rank that waits for the others sees that they go on.

#ifndef BELAY_ASYNC_NODE_PROGRESS_H_
#define BELAY_ASYNC_NODE_PROGRESS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "belay/status.h"
#include "mpi/collective.h"

namespace belay {

// May be used by any thread, once it is made.
class NodeProgress {
 public:
  // Of all ranks of the node, or of this rank alone where the system gives them
  // no memory to share. Collective; agreed, and so is which of the two.
  // Errors: those of messages.
  static StatusOr<NodeProgress> Create(CommContext& context);

  // One for each of so many ranks that are threads of this process. Local.
  static std::vector<NodeProgress> OfThreads(int32_t ranks);

  // Whether it is of this rank alone, though there may be others. Equal on all
  // ranks. Local.
  bool is_alone() const { return is_alone_; }

  // Tells that this rank has written its part of the save with this number, or,
  // of a negative one, that it has failed to. Numbers ascend from 1. Local.
  void Tell(int64_t number);

  // Tells that this rank goes on. Local.
  void Tick();

  // Whether all ranks of the node have written theirs. Local.
  bool AllReached(int64_t number) const;

  // Whether any of them has failed to. Local.
  bool AnyFailed(int64_t number) const;

  // How often any rank of the node has told that it goes on. Local.
  int64_t ticks() const;

 private:
  // Ranks are processes, so only what needs no lock can be shared.
  struct Cell {
    std::atomic<int64_t> number{0};
    std::atomic<int64_t> ticks{0};
  };
  static_assert(std::atomic<int64_t>::is_always_lock_free);

  NodeProgress(std::shared_ptr<void> memory, char* first, int64_t bytes_apart)
      : memory_(std::move(memory)), first_(first), bytes_apart_(bytes_apart) {}
  static NodeProgress Alone();
  Cell& CellOf(int32_t place) const;

  std::shared_ptr<void> memory_;  // of the cells
  char* first_;
  int64_t bytes_apart_;
  int32_t place_ = 0;
  int32_t ranks_ = 1;
  bool is_alone_ = false;
};

}  // namespace belay

#endif  // BELAY_ASYNC_NODE_PROGRESS_H_
