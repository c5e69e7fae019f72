// belay_comm: a duplicate of the program's communicator, and its plans.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_format.h"
#include "belay/belay_c.h"
#include "belay/log.h"
#include "belay/status.h"
#include "c/error.h"
#include "c/handles.h"
#include "c/options.h"

using belay::Status;
using belay::c::Call;

int belay_comm_create(MPI_Comm comm, belay_comm** result) {
  return belay_comm_create_with_options(comm, nullptr, result);
}

int belay_comm_create_with_options(MPI_Comm comm, const belay_options* options,
                                   belay_comm** result) {
  return Call({{"result", result}}, [&]() -> Status {
    *result = nullptr;
    auto handle = std::make_unique<belay_comm>();
    handle->deadline_seconds = belay::c::DeadlineOf(options);
    belay::StatusOr<belay::Comm> duplicate =
        belay::Comm::Duplicate(comm, handle->deadline_seconds);
    if (!duplicate.ok()) return duplicate.status();
    handle->comm = *std::move(duplicate);
    // Checked only now, because reporting an error to other ranks needs the
    // duplicate.
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
  return Call({{"comm", comm}}, [&]() -> Status {
    belay::c::Give(rank, comm->comm.rank());
    return absl::OkStatus();
  });
}

int belay_comm_size(const belay_comm* comm, int* size) {
  return Call({{"comm", comm}}, [&]() -> Status {
    belay::c::Give(size, comm->comm.size());
    return absl::OkStatus();
  });
}

// belay_set_log: sends messages to a function of the program.

int belay_set_log(void (*sink)(void* context, int level, const char* message),
                  void* context, int least) {
  return belay::c::Call([&]() -> belay::Status {
    if (least < BELAY_LOG_DEBUG || least > BELAY_LOG_ERROR) {
      return absl::InvalidArgumentError(
          absl::StrFormat("set log: not a log level (need %d to %d, found %d)",
                          BELAY_LOG_DEBUG, BELAY_LOG_ERROR, least));
    }
    if (sink == nullptr) {
      belay::SetLogSink(nullptr);
      return absl::OkStatus();
    }
    belay::SetLogSink(
        [sink, context](belay::LogLevel level, std::string_view message) {
          sink(context, static_cast<int>(level), std::string(message).c_str());
        },
        static_cast<belay::LogLevel>(least));
    return absl::OkStatus();
  });
}
