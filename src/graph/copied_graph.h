// The object graph of a copy. Pure.

#ifndef BELAY_GRAPH_COPIED_GRAPH_H_
#define BELAY_GRAPH_COPIED_GRAPH_H_

#include <optional>

#include "belay/status.h"
#include "graph/object_graph.h"
#include "plan/plan.h"
#include "values/copy_plan.h"

namespace belay {

// The graph of the source with the values that the copy has. Those that rules
// make become values of the object that their key names; nothing, if there is
// no such object. Requires that the source has a graph. Errors: those of
// FromStoredGraph.
StatusOr<std::optional<ObjectGraph>> CopiedGraph(const SavedCheckpoint& saved,
                                                 const CopyPlan& plan);

}  // namespace belay

#endif  // BELAY_GRAPH_COPIED_GRAPH_H_
