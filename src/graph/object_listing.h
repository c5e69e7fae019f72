// The object graph as users see it. Pure.

#ifndef BELAY_GRAPH_OBJECT_LISTING_H_
#define BELAY_GRAPH_OBJECT_LISTING_H_

#include <vector>

#include "belay/objects/object_info.h"
#include "belay/status.h"
#include "graph/object_graph.h"

namespace belay {

// The bytes of the paths in a listing: few long names can make very many. At
// most INT64_MAX. Of a sound graph.
int64_t PathBytes(const ObjectGraph& graph);

// Whether they are few enough to be listed.
// Errors: ResourceExhausted - they are not; names the bytes.
Status CheckPathBytes(const ObjectGraph& graph);

// One for each node, with its number.
std::vector<ObjectInfo> ListObjects(const ObjectGraph& graph);

}  // namespace belay

#endif  // BELAY_GRAPH_OBJECT_LISTING_H_
