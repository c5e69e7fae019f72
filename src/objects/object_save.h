// The graphs of all ranks as one, and saves of objects.

#ifndef BELAY_OBJECTS_OBJECT_SAVE_H_
#define BELAY_OBJECTS_OBJECT_SAVE_H_

#include "belay/status.h"
#include "core/agreed.h"
#include "graph/live_graph.h"
#include "mpi/collective.h"
#include "objects/tracked_objects.h"

namespace belay {

// The graphs of all ranks as one, over MPI.

// Agrees on `live`, and brings `merge` up to date if any rank's graph is
// another one than it was made of. Then rank 0 is told of graphs as
// GatherLists does it; otherwise nothing is sent but one reduction.
// Collective; agreed.
// Errors: that of `live`, and those of MergeGraphs.
Agreed<> MergeTogether(CommContext& context, const StatusOr<LiveGraph>& live,
                       MergeResult& merge);

}  // namespace belay

#endif  // BELAY_OBJECTS_OBJECT_SAVE_H_
