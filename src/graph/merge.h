// Merges the object graphs of ranks, and makes that of a copy.

#ifndef BELAY_GRAPH_MERGE_H_
#define BELAY_GRAPH_MERGE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "belay/status.h"
#include "graph/object_graph.h"
#include "plan/plan.h"
#include "state/copy_plan.h"

namespace belay {

// Returns the graph of the source with the values of the copy. Values that
// rules compute become values of the object that their key names; nothing if
// there is no such object. The source must have a graph. Errors: those of
// FromStoredGraph.
StatusOr<std::optional<ObjectGraph>> CopiedGraph(const SavedCheckpoint& saved,
                                                 const CopyPlan& plan);

// Ranks with equal graphs have the same one here.
struct RankGraph {
  int rank = 0;
  const ObjectGraph* graph = nullptr;
};

struct MergedGraph {
  ObjectGraph graph;
  // By rank given: the keys of its own graph that differ in the merged one, and
  // what they are there. They differ where another rank reaches an object by an
  // earlier path.
  std::vector<std::vector<std::pair<std::string, std::string>>> renames;
};

// Returns the union by path: objects of two ranks are one if one path leads to
// both. Ranks may hold different objects, and may reach one object by different
// paths. Nodes are in the order of every object graph; the order of `ranks`
// decides the rest.
// Errors: InvalidArgument - no rank, or all conflicts, each with path or key,
//   and ranks: other dtypes or shapes, opaque bytes and a value, one object
//   under two paths here and two objects there.
StatusOr<MergedGraph> MergeGraphs(const std::vector<RankGraph>& ranks);

}  // namespace belay

#endif  // BELAY_GRAPH_MERGE_H_
