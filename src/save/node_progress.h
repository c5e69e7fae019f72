// Progress of the ranks of a node, and detection of stuck threads.

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

// Distinguishes a stuck thread from a slow one.
class StallWatch {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Returns true if `progress` has not changed for `limit` seconds (0: no
  // limit), and not since a call one second ago either: a process that was
  // suspended looks stuck at first.
  bool IsStuck(Time now, int64_t progress, double limit);

 private:
  std::optional<int64_t> progress_;
  Time changed_at_;
  std::optional<Time> suspected_at_;
};

// Progress of the ranks of a node with a save, in shared memory: one rank can
// sync a file when all have written it, without a message, and a rank that
// waits for the others sees that they make progress. Any thread may use it.
class NodeProgress {
 public:
  // For all ranks of the node or, if the system has no shared memory, for this
  // rank alone: the same choice on all ranks. Collective; agreed.
  // Errors: those of messages.
  static Agreed<NodeProgress> Create(CommContext& context);

  // Returns one for each rank, for ranks that are threads of this process.
  static std::vector<NodeProgress> OfThreads(int32_t ranks);

  // Returns true if ranks share no memory. Equal on all ranks.
  bool is_alone() const { return is_alone_; }

  // Reports that this rank has written its part of the save with this number,
  // or has failed to if it is negative. Numbers ascend from 1.
  void Tell(int64_t number);

  // Reports that this rank makes progress.
  void Tick();

  // Returns true if all ranks of the node have written their parts.
  bool AllReached(int64_t number) const;

  // Returns true if any of them has failed to.
  bool AnyFailed(int64_t number) const;

  // Returns the number of Tick calls of all ranks of the node.
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
