// Which objects of the program are those that were there before. Pure.

#ifndef BELAY_GRAPH_MATCH_KNOWN_OBJECTS_H_
#define BELAY_GRAPH_MATCH_KNOWN_OBJECTS_H_

#include <vector>

#include "belay/objects/trackable.h"
#include "graph/live_graph.h"
#include "graph/object_graph.h"

namespace belay {

// The objects of the program as they once were, without their values.
struct KnownObjects {
  ObjectGraph graph;
  std::vector<ObjectId> ids;  // by node
};

KnownObjects KnownObjectsOf(const LiveGraph& live);

// For each node of `live`, whether it is an object of `before`. Memory is used
// again, so an address alone does not say so: a path that led to the object has
// to lead to it still, through objects that are known as well. A new object
// with both the address and a path of one that is gone cannot be told from it.
std::vector<bool> FindKnown(const KnownObjects& before, const LiveGraph& live);

}  // namespace belay

#endif  // BELAY_GRAPH_MATCH_KNOWN_OBJECTS_H_
