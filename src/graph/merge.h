// Merges the object graphs of ranks, and makes the graph of a copy.

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
// rules compute become values of the object that their key names. Returns
// nothing if there is no such object. The source must have a graph. Errors:
// those of FromStoredGraph.
StatusOr<std::optional<ObjectGraph>> CopiedGraph(const SavedCheckpoint& saved,
                                                 const CopyPlan& plan);

// Ranks with equal graphs share one graph here.
struct RankGraph {
  int rank = 0;
  const ObjectGraph* graph = nullptr;
};

struct MergedGraph {
  ObjectGraph graph;
  // For each rank given, the keys of its graph that differ in the merged graph,
  // each with the merged key. Keys differ if another rank reaches the object by
  // an earlier path.
  std::vector<std::vector<std::pair<std::string, std::string>>> renames;
};

// Returns the union by path: objects of two ranks are the same if one path
// leads to both. Ranks may hold different objects, and may reach an object by
// different paths. Nodes are in the order of ObjectGraph; the order of `ranks`
// breaks ties.
// Errors: InvalidArgument - no rank, or all conflicts, each with path or key,
//   and ranks: different dtypes or shapes, opaque bytes and a value, one object
//   under two paths on some ranks and two objects on others.
StatusOr<MergedGraph> MergeGraphs(const std::vector<RankGraph>& ranks);

}  // namespace belay

#endif  // BELAY_GRAPH_MERGE_H_
