// Ranks that leave while others wait for them.
//
// A rank that fails in code of its own and reaches MPI_Finalize would leave the
// others waiting until the deadline. So each rank tells there a few ranks of
// each open communicator how many collectives it has begun on it. A rank that
// waits in a later one waits in vain. A rank that waits in an earlier one goes
// on waiting. In programs that end in order the message has no effect.

#ifndef BELAY_MPI_LEAVING_H_
#define BELAY_MPI_LEAVING_H_

#include <mpi.h>

#include <optional>

#include "absl/functional/function_ref.h"

namespace belay {

struct CommLife;

// From now on MPI_Finalize tells the ranks of `comm`, a new communicator of
// belay, until it is freed. Returns MPI's code. All its ranks call it.
int WatchLeaving(MPI_Comm comm);

// Returns null for a communicator that is not watched, such as one of the
// program. Lives as long as the communicator.
CommLife* FindLife(MPI_Comm comm);

// Counts a collective that this rank has begun. All ranks count every
// collective for which they wait under a Deadline. Null does nothing.
void CountCollective(CommLife* life);

struct LeftRank {
  int rank = 0;
  int told_before = 0;  // the number of ranks that it told before this one
};

// Receives messages, and returns a rank that has left before it began the last
// collective of this rank, if there is one.
std::optional<LeftRank> FindLeftRank(CommLife& life);

// Tells the ranks of all watched communicators, except those for which
// `keeps_on` returns true, that this rank begins nothing on them any more.
void TellLeaving(absl::FunctionRef<bool(MPI_Comm)> keeps_on);

}  // namespace belay

#endif  // BELAY_MPI_LEAVING_H_
