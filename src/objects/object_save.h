// Merges the graphs of all ranks.

#ifndef BELAY_OBJECTS_OBJECT_SAVE_H_
#define BELAY_OBJECTS_OBJECT_SAVE_H_

#include "belay/status.h"
#include "core/agreed.h"
#include "graph/live_graph.h"
#include "mpi/collective.h"
#include "objects/tracked_objects.h"

namespace belay {

// Agrees on `live`, and updates `merge` if the graph of any rank has changed:
// by GatherLists; otherwise one reduction is enough. Collective; agreed.
// Errors: that of `live`, and those of MergeGraphs.
Agreed<> MergeTogether(CommContext& context, const StatusOr<LiveGraph>& live,
                       MergeResult& merge);

}  // namespace belay

#endif  // BELAY_OBJECTS_OBJECT_SAVE_H_
