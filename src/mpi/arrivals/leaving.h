// Ranks that end while others wait for them.
//
// A rank that fails in code of its own and reaches MPI_Finalize would leave the
// others waiting until the deadline. So each rank that comes there tells a few
// ranks of each communicator that is open how many collectives it has begun on
// it. Whoever waits in a later one waits in vain: that rank will not begin it.
// Whoever waits in one that it has begun goes on waiting, for what is on its
// way. In programs that end in order this is a message that nobody acts on.

#ifndef BELAY_MPI_ARRIVALS_LEAVING_H_
#define BELAY_MPI_ARRIVALS_LEAVING_H_

#include <mpi.h>

#include <cstdint>
#include <optional>

#include "absl/functional/function_ref.h"

namespace belay {

// What is known of who has left a communicator.
struct CommLife;

// From now on MPI_Finalize tells the ranks of `comm`, a new communicator of
// belay, until that is freed. Returns MPI's code. Local. All its ranks call it.
int WatchLeaving(MPI_Comm comm);

// Null for a communicator that is not watched, such as one of the program. It
// lives as long as its communicator. Local.
CommLife* LifeOf(MPI_Comm comm);

// This rank has begun a collective. Null does nothing. Every collective that it
// waits for under a Deadline must be counted on all ranks. Local.
void CountCollective(CommLife* life);

struct LeftRank {
  int rank = 0;
  int told_before = 0;  // so many other ranks were told before this one
};

// Returns a rank that has left before it began the collective that this rank
// has begun last, if one is known. Takes messages that have arrived. Local.
std::optional<LeftRank> FindLeftRank(CommLife& life);

// Tells the ranks of all watched communicators but those that `keeps_on` names
// that this rank begins nothing on them any more. What MPI_Finalize does in the
// end. Local.
void TellLeaving(absl::FunctionRef<bool(MPI_Comm)> keeps_on);

}  // namespace belay

#endif  // BELAY_MPI_ARRIVALS_LEAVING_H_
