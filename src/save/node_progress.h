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
  // limit), and an earlier call at least one second ago has already found that.
  // The second look is needed because a process that was suspended looks stuck
  // at first.
  bool IsStuck(Time now, int64_t progress, double limit);

 private:
  std::optional<int64_t> progress_;
  Time changed_at_;
  std::optional<Time> suspected_at_;
};

// The progress that the ranks of a node have made in a save, in shared memory.
// Without messages, one rank can tell when all ranks have written a file and
// sync it, and a waiting rank can see that the others make progress.
// Thread-safe.
class NodeProgress {
 public:
  // Creates the progress of all ranks of the node or, if shared memory cannot
  // be used, of this rank alone; the choice is equal on all ranks. Collective;
  // agreed.
  // Errors: those of messages.
  static Agreed<NodeProgress> Create(CommContext& context);

  // Returns one NodeProgress per rank, for ranks that are threads of this
  // process.
  static std::vector<NodeProgress> OfThreads(int32_t ranks);

  // Returns true if ranks share no memory. Equal on all ranks.
  bool is_alone() const { return is_alone_; }

  // Reports that this rank has written its part of save `number` or, if
  // `number` is negative, has failed to write its part of save -`number`. Saves
  // are numbered from 1.
  void Tell(int64_t number);

  // Reports that this rank makes progress.
  void Tick();

  // Returns true if all ranks of the node have written their parts.
  bool AllReached(int64_t number) const;

  // Returns true if any rank of the node has failed to write its part.
  bool AnyFailed(int64_t number) const;

  // Returns the number of Tick calls of all ranks of the node.
  int64_t ticks() const;

 private:
  // Ranks are processes, so only lock-free members can be shared.
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
