#include "geometry/mesh_size.h"

#include <string>

#include "base/text.h"

namespace belay {

Status CheckMeshSize(std::string_view start, const Layout& layout,
                     int num_ranks) {
  const int found = layout.mesh().num_ranks();
  if (found == num_ranks) return absl::OkStatus();
  return absl::InvalidArgumentError(
      Cat(start, ": the layout ", layout.ToString(),
          " is for another number of ranks (need ", num_ranks, ", found ",
          found, ")"));
}

Status CheckLayoutOfKey(std::string_view key, const Layout& layout,
                        int num_ranks) {
  const Status status =
      CheckMeshSize(Cat("list \"", key, "\""), layout, num_ranks);
  if (status.ok()) return status;
  return Status(status.code(),
                Cat(std::string(status.message()),
                    "; Layout::OnRanks makes one for the communicator"));
}

}  // namespace belay
