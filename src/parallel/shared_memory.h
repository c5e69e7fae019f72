// Memory that the ranks of a node share.

#ifndef BELAY_PARALLEL_SHARED_MEMORY_H_
#define BELAY_PARALLEL_SHARED_MEMORY_H_

#include <mpi.h>

#include <cstdint>
#include <vector>

#include "belay/status.h"
#include "parallel/collective.h"

namespace belay {

// Every rank owns a part, and may read those of all ranks of its node. What one
// writes others see once both have called Sync, with a gate in between.
class SharedMemory {
 public:
  // Makes parts of `bytes` for the ranks that pass the same `node`, which do
  // share memory. Collective; agreed. Same on all ranks: bytes.
  // Errors: Internal - MPI's text; there may be too little shared memory.
  static StatusOr<SharedMemory> Create(Team& team, int32_t node, int64_t bytes);

  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&&) = delete;
  // Never communicates: what was not closed is left to MPI_Finalize.
  ~SharedMemory() = default;

  // The part of the rank at that place among those of the node. Local.
  char* Part(int32_t place) const { return parts_[place]; }

  // Local.
  void Sync() const { MPI_Win_sync(window_); }

  // Frees the memory. Collective; agreed.
  Status Close(Team& team);

 private:
  SharedMemory() = default;

  // Finds the parts of all ranks of the node. Local.
  Status FindParts();

  MPI_Comm node_ = MPI_COMM_NULL;
  MPI_Win window_ = MPI_WIN_NULL;
  std::vector<char*> parts_;
};

}  // namespace belay

#endif  // BELAY_PARALLEL_SHARED_MEMORY_H_
