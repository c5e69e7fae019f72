#include "parallel/node.h"

#include "base/status_macros.h"
#include "parallel/mpi_error.h"

namespace belay {

StatusOr<int32_t> NodeOfRank(Team& team) {
  MPI_Comm node = MPI_COMM_NULL;
  const Status split =
      MpiStatus(MPI_Comm_split_type(team.comm.raw(), MPI_COMM_TYPE_SHARED,
                                    team.rank(), MPI_INFO_NULL, &node),
                "MPI_Comm_split_type");
  BELAY_RETURN_IF_AGREED(Agree(team, split));
  int32_t lowest = team.rank();
  Status status = MpiStatus(
      MPI_Allreduce(MPI_IN_PLACE, &lowest, 1, MPI_INT32_T, MPI_MIN, node),
      "MPI_Allreduce");
  status.Update(MpiStatus(MPI_Comm_free(&node), "MPI_Comm_free"));
  team.messages += 2;
  BELAY_RETURN_IF_AGREED(Agree(team, status));
  return lowest;
}

}  // namespace belay
