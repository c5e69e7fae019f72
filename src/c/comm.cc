// belay_comm: a duplicate of the program's communicator, and its plans.

#include <memory>
#include <utility>

#include "belay/belay_c.h"
#include "belay/status.h"
#include "c/error.h"
#include "c/handles.h"

using belay::Status;
using belay::c::Call;
using belay::c::NullArgument;

int belay_comm_create(MPI_Comm comm, belay_comm** result) {
  return Call([&]() -> Status {
    if (result == nullptr) return NullArgument("result");
    *result = nullptr;
    auto handle = std::make_unique<belay_comm>();
    belay::StatusOr<belay::Comm> duplicate = belay::Comm::Duplicate(comm);
    if (!duplicate.ok()) return duplicate.status();
    handle->comm = *std::move(duplicate);
    *result = handle.release();
    return absl::OkStatus();
  });
}

int belay_comm_free(belay_comm** comm) {
  return Call([&]() -> Status {
    if (comm == nullptr || *comm == nullptr) return absl::OkStatus();
    const std::unique_ptr<belay_comm> handle(std::exchange(*comm, nullptr));
    return handle->comm.Close();
  });
}

int belay_comm_rank(const belay_comm* comm, int* rank) {
  return Call([&]() -> Status {
    if (comm == nullptr) return NullArgument("comm");
    belay::c::Give(rank, comm->comm.rank());
    return absl::OkStatus();
  });
}

int belay_comm_size(const belay_comm* comm, int* size) {
  return Call([&]() -> Status {
    if (comm == nullptr) return NullArgument("comm");
    belay::c::Give(size, comm->comm.size());
    return absl::OkStatus();
  });
}
