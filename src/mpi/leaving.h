// Ranks that leave while others wait for them.
//
// A rank that fails in the program's code and reaches MPI_Finalize would leave
// the others waiting until the deadline. So in MPI_Finalize each rank tells a
// few ranks of each open communicator how many collectives it has begun there.
// A rank that waits in a later collective waits in vain. A rank that waits in
// an earlier one keeps waiting. If all ranks end normally, the messages have no
// effect.

#ifndef BELAY_MPI_LEAVING_H_
#define BELAY_MPI_LEAVING_H_

#include <mpi.h>

#include <optional>

#include "absl/functional/function_ref.h"

namespace belay {

struct CommLife;

// Makes MPI_Finalize notify the ranks of `comm`, a new communicator of belay,
// unless it is freed before. Returns MPI's code. All its ranks call it.
int WatchLeaving(MPI_Comm comm);

// Returns null for a communicator that is not watched, such as one of the
// program. The result lives as long as the communicator.
CommLife* FindLife(MPI_Comm comm);

// Counts a collective that this rank has begun. All ranks must count every
// collective for which they wait under a Deadline. Ignores null.
void CountCollective(CommLife* life);

struct LeftRank {
  int rank = 0;
  int told_before = 0;  // the number of ranks that it notified before this one
};

// Receives messages. Returns a rank that has left before beginning the latest
// collective of this rank, if there is one.
std::optional<LeftRank> FindLeftRank(CommLife& life);

// Tells the ranks of all watched communicators that this rank will begin
// nothing more on them. Skips communicators for which `keeps_on` returns true.
void TellLeaving(absl::FunctionRef<bool(MPI_Comm)> keeps_on);

}  // namespace belay

#endif  // BELAY_MPI_LEAVING_H_
