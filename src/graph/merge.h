// Object graphs that are put together: those of ranks, and that of a copy.

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

// The object graph of a copy.

// The graph of the source with the values that the copy has. Those that rules
// make become values of the object that their key names; nothing, if there is
// no such object. Requires that the source has a graph. Errors: those of
// FromStoredGraph.
StatusOr<std::optional<ObjectGraph>> CopiedGraph(const SavedCheckpoint& saved,
                                                 const CopyPlan& plan);

// The object graphs of all ranks as one.

// The graph of a rank. `fingerprint` is any number that equal graphs have, and
// no others: only the first rank with it needs to bring its graph along, that
// of the others may be null.
struct RankGraph {
  int rank = 0;
  uint64_t fingerprint = 0;
  const ObjectGraph* graph = nullptr;
};

struct MergedGraph {
  ObjectGraph graph;
  // For each rank given: the keys that its own graph has, and what they are in
  // the merged graph, where the two differ. They do where another rank reaches
  // an object by a path that comes earlier.
  std::vector<std::vector<std::pair<std::string, std::string>>> renames;
};

// Returns the union by path: objects of two ranks are one if one path leads to
// both. Ranks may hold different objects, and may reach one object by different
// paths. Nodes are ordered as in every object graph; what has no order comes in
// the order of `ranks`.
// Errors: InvalidArgument - all conflicts, each with path or key, and ranks:
//   another dtype or shape, opaque bytes and a value, one object under two
//   paths here and two objects there; and no rank at all.
StatusOr<MergedGraph> MergeGraphs(const std::vector<RankGraph>& ranks);

}  // namespace belay

#endif  // BELAY_GRAPH_MERGE_H_
