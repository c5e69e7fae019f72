#include "parallel/shared_memory.h"

#include <utility>

#include "base/status_macros.h"
#include "parallel/mpi_error.h"

namespace belay {

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : node_(std::exchange(other.node_, MPI_COMM_NULL)),
      window_(std::exchange(other.window_, MPI_WIN_NULL)),
      parts_(std::move(other.parts_)) {}

StatusOr<SharedMemory> SharedMemory::Create(Team& team, int32_t node,
                                            int64_t bytes) {
  SharedMemory memory;
  BELAY_RETURN_IF_AGREED(
      Agree(team, MpiStatus(MPI_Comm_split(team.comm.raw(), node, team.rank(),
                                           &memory.node_),
                            "MPI_Comm_split")));
  MPI_Comm_set_errhandler(memory.node_, MPI_ERRORS_RETURN);
  char* own = nullptr;
  const int code = MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL,
                                           memory.node_, &own, &memory.window_);
  Status status = MpiStatus(code, "MPI_Win_allocate_shared");
  if (code == MPI_SUCCESS) status.Update(memory.FindParts());
  team.messages += 2;
  const Status agreed = Agree(team, status);
  if (agreed.ok()) return memory;
  // Freeing is collective: where MPI itself failed somewhere, it would hang.
  int64_t have = code == MPI_SUCCESS ? 1 : 0;
  const Status counted = MinAll(team, {&have, 1});
  if (counted.ok() && have == 1) (void)memory.Close(team);
  return agreed;
}

Status SharedMemory::FindParts() {
  MPI_Win_set_errhandler(window_, MPI_ERRORS_RETURN);
  BELAY_RETURN_IF_ERROR(MpiError(MPI_Win_lock_all(MPI_MODE_NOCHECK, window_),
                                 "MPI_Win_lock_all"));
  int ranks = 0;
  MPI_Comm_size(node_, &ranks);
  for (int place = 0; place < ranks; ++place) {
    MPI_Aint bytes = 0;
    int unit = 0;
    char* part = nullptr;
    BELAY_RETURN_IF_ERROR(
        MpiError(MPI_Win_shared_query(window_, place, &bytes, &unit, &part),
                 "MPI_Win_shared_query"));
    parts_.push_back(part);
  }
  return absl::OkStatus();
}

Status SharedMemory::Close(Team& team) {
  Status status = MpiError(MPI_Win_unlock_all(window_), "MPI_Win_unlock_all");
  status.Update(MpiStatus(MPI_Win_free(&window_), "MPI_Win_free"));
  status.Update(MpiError(MPI_Comm_free(&node_), "MPI_Comm_free"));
  team.messages += 2;
  return Agree(team, status);
}

}  // namespace belay
