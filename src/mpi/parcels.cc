#include "mpi/parcels.h"

#include <algorithm>

#include "mpi/mpi_error.h"

namespace belay {

Status ForEachPart(int64_t total, int64_t most,
                   absl::FunctionRef<Status(int64_t, int)> post) {
  Status status;
  for (int64_t start = 0; start < total; start += most) {
    status.Update(post(start, static_cast<int>(std::min(most, total - start))));
  }
  return status;
}

void Parcels::Send(std::span<const std::byte> bytes, int to) {
  Post(bytes.size(), "MPI_Isend",
       [&](int64_t at, int count, MPI_Request* request) {
         return MPI_Isend(bytes.data() + at, count, MPI_BYTE, to, tag_,
                          context_.comm.raw(), request);
       });
}

void Parcels::Receive(std::span<std::byte> bytes, int from) {
  Post(bytes.size(), "MPI_Irecv",
       [&](int64_t at, int count, MPI_Request* request) {
         return MPI_Irecv(bytes.data() + at, count, MPI_BYTE, from, tag_,
                          context_.comm.raw(), request);
       });
}

Status Parcels::Finish() {
  status_.Update(context_.deadline.Wait(requests_));
  return status_;
}

void Parcels::Post(int64_t total, std::string_view site,
                   absl::FunctionRef<int(int64_t, int, MPI_Request*)> start) {
  status_.Update(
      ForEachPart(total, context_.part_bytes, [&](int64_t at, int count) {
        requests_.push_back(MPI_REQUEST_NULL);
        return MpiError(start(at, count, &requests_.back()), site);
      }));
}

}  // namespace belay
