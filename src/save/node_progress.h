// What the ranks of a node have written, and whether a thread is stuck.

#ifndef BELAY_SAVE_NODE_PROGRESS_H_
#define BELAY_SAVE_NODE_PROGRESS_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "belay/status.h"
#include "core/agreed.h"
#include "mpi/collective.h"

namespace belay {

// Tells a thread that is stuck from one that is slow.

class StallWatch {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Looks at what changes while the thread goes on. Returns whether it has not
  // changed for `limit` seconds (0: no limit) and not since the look before
  // either, a second ago: a process that was suspended looks stuck at first.
  bool IsStuck(Time now, int64_t progress, double limit);

 private:
  std::optional<int64_t> progress_;
  Time changed_at_;
  std::optional<Time> suspected_at_;
};

// How far the ranks of a node are with a save, in memory that they share: so
// that one of them can sync a file once all have written it, without a message,
// and so that a rank that waits for the others sees that they go on.

// May be used by any thread, once it is made.
class NodeProgress {
 public:
  // Of all ranks of the node, or of this rank alone where the system gives them
  // no memory to share. Collective; agreed, and so is which of the two.
  // Errors: those of messages.
  static Agreed<NodeProgress> Create(CommContext& context);

  // One for each of so many ranks that are threads of this process.
  static std::vector<NodeProgress> OfThreads(int32_t ranks);

  // Whether it is of this rank alone, though there may be others. Equal on all
  // ranks.
  bool is_alone() const { return is_alone_; }

  // Tells that this rank has written its part of the save with this number, or,
  // of a negative one, that it has failed to. Numbers ascend from 1.
  void Tell(int64_t number);

  // Tells that this rank goes on.
  void Tick();

  // Whether all ranks of the node have written theirs.
  bool AllReached(int64_t number) const;

  // Whether any of them has failed to.
  bool AnyFailed(int64_t number) const;

  // How often any rank of the node has told that it goes on.
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

#endif  // BELAY_SAVE_NODE_PROGRESS_H_
