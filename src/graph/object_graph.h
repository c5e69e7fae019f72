// The object graph of a checkpoint: as a plain table, as a message, as columns
// of the index, and as what a reader lists.

#ifndef BELAY_GRAPH_OBJECT_GRAPH_H_
#define BELAY_GRAPH_OBJECT_GRAPH_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "belay/arrays/box.h"
#include "belay/arrays/dtype.h"
#include "belay/objects/object_info.h"
#include "belay/status.h"
#include "core/list_exchange.h"
#include "plan/plan.h"
#include "plan/stored_objects.h"

namespace belay {

// The object graph of a checkpoint as a plain table: which object holds which
// others under which names, and which values each of them has.
//
// Keys are made from the names by TensorFlow's rules and are names of datasets
// only: nothing is ever read back out of them.

// No path is longer: objects without an address may hold each other for ever.
inline constexpr int kMaxPathElements = 1000;

// The place of a node in the list of its graph.
inline size_t At(int32_t node) { return static_cast<size_t>(node); }

// An edge: the object with the number `node` is held under `name`.
struct GraphChild {
  std::string name;
  int32_t node = 0;

  friend bool operator==(const GraphChild&, const GraphChild&) = default;
};

// A value that an object holds.
struct GraphAttribute {
  std::string name;
  std::string key;
  DType dtype = DType::kU8;
  Shape shape;          // of the whole array
  std::string layout;   // Layout::ToString, or empty
  bool opaque = false;  // bytes that only the program can read
  // Of a value with a handler its typestr; dtype and shape mean nothing then.
  std::string typestr = {};

  bool has_handler() const { return !typestr.empty(); }
  friend bool operator==(const GraphAttribute&,
                         const GraphAttribute&) = default;
};

// What an optimizer keeps for a variable.
struct GraphSlot {
  int32_t variable = 0;  // a node
  std::string name;
  int32_t node = 0;  // the slot's own node

  friend bool operator==(const GraphSlot&, const GraphSlot&) = default;
};

// An object. Its path is that of `parent` and `name`; that of a slot is its
// variable's path, its optimizer's path and `name`.
//
// Of a rank's own graph: an empty object is a value of which nothing is here
// that tells it from others. It is a node for each of its paths, and only other
// ranks know whether they are one object.
struct GraphNode {
  int32_t parent = -1;     // -1 for the root; of a slot its variable
  int32_t optimizer = -1;  // of a slot, else -1
  std::string name;
  std::vector<GraphChild> children;
  std::vector<GraphAttribute> attributes;
  std::vector<GraphSlot> slots;  // of an optimizer
  bool is_empty = false;

  bool is_slot() const { return optimizer >= 0; }
  friend bool operator==(const GraphNode&, const GraphNode&) = default;
};

// Node 0 is the root. The others come breadth-first, children in the order in
// which their parent names them; then come the slots, by optimizer, by slot
// name, by variable. A path leads through the parents, so it is a shortest one.
struct ObjectGraph {
  std::vector<GraphNode> nodes;

  friend bool operator==(const ObjectGraph&, const ObjectGraph&) = default;
};

// "." becomes "..", "/" becomes ".S".
std::string EscapeName(std::string_view name);

// The name of an object in keys, from the names of its parts: elements that are
// escaped and joined by '/'. The root's is "".
std::string ChildObjectName(std::string_view parent, std::string_view name);
std::string SlotObjectName(std::string_view variable,
                           std::string_view optimizer, std::string_view name);
std::string AttributeKey(std::string_view object, std::string_view name);

// The names of all nodes, by number.
std::vector<std::string> ObjectNames(const ObjectGraph& graph);

// The elements of a node's path, as they were given: of a slot the variable's,
// ".OPTIMIZER_SLOT", the optimizer's and the slot's name.
std::vector<std::string> PathElements(const ObjectGraph& graph, int32_t node);

// "(root).model.layers.0", or "(root).adam's state 'm' for (root).model.w".
std::string PrettyName(const ObjectGraph& graph, int32_t node);

// For each node, whether it or an object that it holds has values or slots.
std::vector<bool> HaveValues(const ObjectGraph& graph);

// By node, whether it is one of `nodes`, given by node as well, or leads to one
// along the edges.
std::vector<bool> LeadToThem(const ObjectGraph& graph, std::vector<bool> nodes);

// Sets the slots' places: by name in the order in which the names first come,
// then by variable. For those who make graphs.
void SortSlots(std::vector<GraphSlot>& slots);

// Checks what the other functions rely on.
// Errors: DataLoss - a number of a node that is not there, a node without a
//   path or with a path that is too long, an edge that is not there.
Status CheckGraph(const ObjectGraph& graph);

// The graph as bytes for other ranks, and back.
// Errors: DataLoss - not the bytes of a graph.
std::string EncodeGraph(const ObjectGraph& graph);
StatusOr<ObjectGraph> DecodeGraph(std::string_view bytes);

// The same bytes, cut so that graphs that differ little have most entries in
// common.
// Errors: those of DecodeGraph.
Entries GraphEntries(const ObjectGraph& graph);
StatusOr<ObjectGraph> GraphOfEntries(const Entries& entries);

// Equal for equal graphs, on all ranks. Of a graph of 100,000 values as long
// as it takes to encode it.
uint64_t GraphFingerprint(const ObjectGraph& graph);

// The object graph as users see it.

// The bytes of the paths in a listing: few long names can make very many. At
// most INT64_MAX. Of a sound graph.
int64_t PathBytes(const ObjectGraph& graph);

// Whether they are few enough to be listed.
// Errors: ResourceExhausted - they are not; names the bytes.
Status CheckPathBytes(const ObjectGraph& graph);

// One for each node, with its number.
std::vector<ObjectInfo> ListObjects(const ObjectGraph& graph);

// The object graph to and from the columns of the index.

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

#endif  // BELAY_GRAPH_OBJECT_GRAPH_H_
