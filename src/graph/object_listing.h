// The object graph as users see it. Pure.

#ifndef BELAY_GRAPH_OBJECT_LISTING_H_
#define BELAY_GRAPH_OBJECT_LISTING_H_

#include <vector>

#include "belay/objects/object_info.h"
#include "graph/object_graph.h"

namespace belay {

// One for each node, with its number.
std::vector<ObjectInfo> ListObjects(const ObjectGraph& graph);

}  // namespace belay

#endif  // BELAY_GRAPH_OBJECT_LISTING_H_
