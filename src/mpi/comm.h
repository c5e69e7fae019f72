// Communicators, and which ranks share a node.

#ifndef BELAY_MPI_COMM_H_
#define BELAY_MPI_COMM_H_

#include <cstdint>

#include "belay/status.h"
#include "core/agreed.h"
#include "mpi/collective.h"

namespace belay {

// Which ranks share a node.

// Returns the lowest rank that shares memory with this one: equal on all ranks
// of a node, different between nodes. Collective; agreed. The communicator
// remembers it: later calls send nothing.
Agreed<int32_t> NodeOfRank(CommContext& context);

}  // namespace belay

#endif  // BELAY_MPI_COMM_H_
