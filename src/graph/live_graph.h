// The graph of the program's objects.

#ifndef BELAY_GRAPH_LIVE_GRAPH_H_
#define BELAY_GRAPH_LIVE_GRAPH_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "belay/extend/shard.h"
#include "belay/extend/type_handler_registry.h"
#include "belay/objects/trackable.h"
#include "belay/state.h"
#include "belay/status.h"
#include "core/text.h"
#include "graph/object_graph.h"

namespace belay {

// The objects of this rank as they describe themselves: their graph, and the
// addresses of their values. Only pointers are read, not the values.

// State that only the program can interpret. `bytes` is saved as a string.
struct OpaqueState {
  std::function<StatusOr<std::string>()> get;
  std::function<Status(const std::string&)> set;
  std::string bytes;
};

// The memory of one attribute.
struct LiveValue {
  int32_t node = 0;
  int32_t attribute = 0;                // of that node
  std::vector<Shard> shards;            // under the attribute's key
  ValueRef handled = {};                // set if the value has a handler
  TypeHandlerPtr handler = nullptr;     // given with the value, or null
  std::unique_ptr<OpaqueState> opaque;  // or null
};

struct LiveGraph {
  ObjectGraph graph;
  // Per node. An object without an address is identified by its path.
  std::vector<ObjectId> ids;
  // Ascending by node.
  std::vector<LiveValue> values;
  std::vector<size_t> first_value;  // per node, an index into `values`

  const GraphAttribute& GetAttribute(const LiveValue& value) const {
    return graph.nodes[static_cast<size_t>(value.node)]
        .attributes[static_cast<size_t>(value.attribute)];
  }
};

// A child that the caller adds to the root.
using Attached = std::pair<std::string, ObjectRef>;

// Asks the root and all objects reachable from it for their descriptions.
// Attached children follow the root's own children. If the root names an
// attached child as well, both must be the same object. Layouts must fit
// `num_ranks` ranks; 0: any number.
// Errors: InvalidArgument - all mistakes in the descriptions; Unimplemented - a
//   slot that has children; ResourceExhausted - a description ran out of
//   memory.
StatusOr<LiveGraph> TrackObjects(const ObjectRef& root, int rank,
                                 const std::vector<Attached>& attached = {},
                                 const TypeHandlerRegistry* handlers = nullptr,
                                 int num_ranks = 0);

struct KeyedValue {
  size_t value = 0;  // its index in LiveGraph::values
  std::string key;
};

// Returns every value under its own key.
std::vector<KeyedValue> OwnKeys(const LiveGraph& live);

// Lists values for a save or a restore. Borrows from the objects and `live`.
State ListValues(const LiveGraph& live, const std::vector<KeyedValue>& values);

// Calls `get` of every opaque state before a save, or `set` of those among
// `values` after a restore.
// Errors: those that a function returned or threw.
Status FetchOpaqueStates(LiveGraph& live);
Status HandOverOpaqueStates(const LiveGraph& live,
                            const std::vector<KeyedValue>& values);

}  // namespace belay

#endif  // BELAY_GRAPH_LIVE_GRAPH_H_
