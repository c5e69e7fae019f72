// Memory that the ranks of a node share.
//
// Uses system calls: if memory is short, Open MPI's MPI_Win_allocate_shared
// fails on one rank while the others wait for it.

#ifndef BELAY_MPI_SHARED_MEMORY_H_
#define BELAY_MPI_SHARED_MEMORY_H_

#include <atomic>

#include "mpi/collective.h"

namespace belay {

// The place of a rank among the ranks of its node.
struct NodePlace {
  int32_t first = 0;  // the lowest rank of the node, in the communicator
  int32_t place = 0;
  int32_t ranks = 1;
};

// Every rank owns a part, and may read the parts of the ranks on its node.
// Writes become visible to another rank after both ranks have called Sync, with
// an agreement in between.
class SharedMemory {
 public:
  // Allocates and reserves parts of at least `bytes`. Collective; agreed. Same
  // on all ranks: bytes.
  // Errors: those of ErrnoStatus and of messages.
  static Agreed<SharedMemory> Create(CommContext& context,
                                     const NodePlace& mine, int64_t bytes);

  // The part of the rank at `place` on the node.
  char* Part(int32_t place) const {
    return memory_.get() + place * part_bytes_;
  }

  void Sync() const { std::atomic_thread_fence(std::memory_order_seq_cst); }

 private:
  struct Unmap {
    size_t bytes;
    void operator()(char* memory) const;
  };

  SharedMemory() = default;

  // The view of this rank; the memory lives as long as the last view.
  std::unique_ptr<char, Unmap> memory_;
  int64_t part_bytes_ = 0;
};

}  // namespace belay

#endif  // BELAY_MPI_SHARED_MEMORY_H_
