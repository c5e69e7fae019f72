// The object graph to and from the columns of the index.

#ifndef BELAY_GRAPH_STORED_GRAPH_CONVERSION_H_
#define BELAY_GRAPH_STORED_GRAPH_CONVERSION_H_

#include <vector>

#include "belay/status.h"
#include "graph/object_graph.h"
#include "plan/plan.h"
#include "plan/stored_objects.h"

namespace belay {

// Returns the graph as columns. `arrays` are those of the same checkpoint,
// ascending by key; dtype and shape of a value are stored there only. Notes in
// `values` which object has which of them; they are no rows of the graph.
// Errors: Internal - a value of the graph is not among the arrays or values, or
//   is an array of another dtype or shape.
StatusOr<StoredGraph> ToStoredGraph(const ObjectGraph& graph,
                                    const std::vector<StoredArray>& arrays,
                                    StoredValues& values);

// Returns the graph that columns stand for; trusts nothing in them. `arrays` as
// above. The values of an object that have handlers come last. Columns without
// rows are no graph: see StoredGraph.
// Errors: DataLoss - as of DamageOf and CheckGraph.
StatusOr<ObjectGraph> FromStoredGraph(const StoredGraph& stored,
                                      const std::vector<StoredArray>& arrays,
                                      const StoredValues& values = {});

}  // namespace belay

#endif  // BELAY_GRAPH_STORED_GRAPH_CONVERSION_H_
