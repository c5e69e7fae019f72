// Point-to-point messages of any length.

#ifndef BELAY_MPI_PARCELS_H_
#define BELAY_MPI_PARCELS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "belay/status.h"
#include "mpi/collective.h"

namespace belay {

// Calls post(start, count) for each part of at most `most` of `total`, and
// returns the first failure. Local.
Status ForEachPart(int64_t total, int64_t most,
                   absl::FunctionRef<Status(int64_t, int)> post);

// Messages that are all in flight until Finish. Those between two ranks are
// matched in the order in which both post them. Borrows the bytes.
class Parcels {
 public:
  Parcels(CommContext& context, int tag) : context_(context), tag_(tag) {}

  // Post a message in parts of at most context.part_bytes. Local.
  void Send(std::span<const std::byte> bytes, int to);
  // Local.
  void Receive(std::span<std::byte> bytes, int from);

  // Waits for all. Local. The Status is not agreed.
  Status Finish();

 private:
  void Post(int64_t total, std::string_view site,
            absl::FunctionRef<int(int64_t, int, MPI_Request*)> start);

  CommContext& context_;
  int tag_;
  std::vector<MPI_Request> requests_;
  Status status_;
};

}  // namespace belay

#endif  // BELAY_MPI_PARCELS_H_
