// belay_comm: a duplicate of the program's communicator, and its plans.

#include <memory>
#include <utility>

#include "belay/belay_c.h"
#include "belay/status.h"
#include "c/error.h"
#include "c/handles.h"
#include "c/option_reader.h"
#include "c/prepare.h"

using belay::Status;
using belay::c::Call;
using belay::c::NullArgument;

int belay_comm_create(MPI_Comm comm, belay_comm** result) {
  return belay_comm_create_with_options(comm, nullptr, result);
}

int belay_comm_create_with_options(MPI_Comm comm, const belay_options* options,
                                   belay_comm** result) {
  return Call([&]() -> Status {
    if (result == nullptr) return NullArgument("result");
    *result = nullptr;
    auto handle = std::make_unique<belay_comm>();
    handle->deadline_seconds = belay::c::DeadlineOf(options);
    belay::StatusOr<belay::Comm> duplicate =
        belay::Comm::Duplicate(comm, handle->deadline_seconds);
    if (!duplicate.ok()) return duplicate.status();
    handle->comm = *std::move(duplicate);
    // Only now can a rank tell the others that its options are wrong.
    Status status = belay::c::PrepareTogether(
        handle->comm, handle->deadline_seconds, "create a communicator",
        [&] { return belay::c::CheckCommOptions(options); });
    if (!status.ok()) {
      handle->comm.Close().IgnoreError();
      return status;
    }
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
