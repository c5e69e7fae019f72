// Memory that the ranks of a node share.
//
// Made by the system's own calls: where there is too little of it, Open MPI's
// MPI_Win_allocate_shared fails on one rank while the others wait for it.

#ifndef BELAY_MPI_SHARED_MEMORY_H_
#define BELAY_MPI_SHARED_MEMORY_H_

#include <atomic>
#include <cstdint>

#include "belay/status.h"
#include "core/agreed.h"
#include "mpi/collective.h"

namespace belay {

// Where a rank stands among the ranks of its node.
struct NodePlace {
  int32_t first = 0;  // the lowest of them, in the communicator
  int32_t place = 0;
  int32_t ranks = 1;
};

// Every rank owns a part, and may read those of all ranks of its node. What one
// writes others see once both have called Sync, with an agreement in between.
class SharedMemory {
 public:
  // Makes parts of at least `bytes`, which are there to be written: it is here
  // that too little memory shows up. Collective; agreed. Same on all ranks:
  // bytes.
  // Errors: those of ErrnoStatus and of messages.
  static Agreed<SharedMemory> Create(CommContext& context,
                                     const NodePlace& mine, int64_t bytes);

  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  // Frees this rank's view of it; the last one frees the memory.
  ~SharedMemory();

  // The part of the rank at that place among those of the node.
  char* Part(int32_t place) const { return memory_ + place * part_bytes_; }

  void Sync() const { std::atomic_thread_fence(std::memory_order_seq_cst); }

 private:
  SharedMemory() = default;

  char* memory_ = nullptr;
  int64_t part_bytes_ = 0;
  int64_t bytes_ = 0;
};

}  // namespace belay

#endif  // BELAY_MPI_SHARED_MEMORY_H_
