// Which ranks share a node.

#ifndef BELAY_MPI_COMM_H_
#define BELAY_MPI_COMM_H_

#include "core/agreed.h"
#include "mpi/collective.h"

namespace belay {

// Returns the lowest rank on the node of this one. Collective; agreed. Later
// calls on the same communicator send nothing.
Agreed<int32_t> NodeOfRank(CommContext& context);

}  // namespace belay

#endif  // BELAY_MPI_COMM_H_
