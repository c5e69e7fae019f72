// The object graph of a checkpoint: which objects hold which other objects
// under which names, and which values each object has.

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

// Keys are made from the names by the rules of TensorFlow. They only name
// datasets: the graph is never derived from keys.

// The maximum length of a path: objects without an address can hold each other
// endlessly.
inline constexpr int kMaxPathElements = 1000;

inline size_t At(int32_t node) { return static_cast<size_t>(node); }

// An edge: the object `node` is held under `name`.
struct GraphChild {
  std::string name;
  int32_t node = 0;

  friend bool operator==(const GraphChild&, const GraphChild&) = default;
};

struct GraphAttribute {
  std::string name;
  std::string key;
  DType dtype = DType::kU8;
  Shape shape;          // of the whole array
  std::string layout;   // Layout::ToString, or empty
  bool opaque = false;  // bytes that only the program can read
  // The type of its handler, if it has one. Then dtype and shape are not used.
  std::string typestr = {};

  bool has_handler() const { return !typestr.empty(); }
  friend bool operator==(const GraphAttribute&,
                         const GraphAttribute&) = default;
};

// A value that an optimizer keeps for a variable.
struct GraphSlot {
  int32_t variable = 0;  // a node
  std::string name;
  int32_t node = 0;  // the slot's own node

  friend bool operator==(const GraphSlot&, const GraphSlot&) = default;
};

// An object. Its path is the path of `parent`, then `name`. The path of a slot
// is the path of its variable, the path of its optimizer, then `name`.
//
// An empty object has no elements on this rank that identify it. It has a node
// for each of its paths, and only other ranks know whether these nodes are one
// object.
struct GraphNode {
  int32_t parent = -1;     // -1 for the root; the variable for a slot
  int32_t optimizer = -1;  // -1 if this is not a slot
  std::string name;
  std::vector<GraphChild> children;
  std::vector<GraphAttribute> attributes;
  std::vector<GraphSlot> slots;  // of an optimizer
  bool is_empty = false;

  bool is_slot() const { return optimizer >= 0; }
  friend bool operator==(const GraphNode&, const GraphNode&) = default;
};

// Node 0 is the root. The other objects follow breadth-first, children in the
// order in which their parent names them. Then come the slots, ordered by
// optimizer, slot name and variable. Paths lead through the parents, so no
// other path to a node is shorter.
struct ObjectGraph {
  std::vector<GraphNode> nodes;

  friend bool operator==(const ObjectGraph&, const ObjectGraph&) = default;
};

// Turns "." into ".." and "/" into ".S".
std::string EscapeName(std::string_view name);

// Returns the name of an object in keys: escaped elements joined by "/"; "" for
// the root.
std::string ChildObjectName(std::string_view parent, std::string_view name);
std::string SlotObjectName(std::string_view variable,
                           std::string_view optimizer, std::string_view name);
std::string AttributeKey(std::string_view object, std::string_view name);

std::vector<std::string> ObjectNames(const ObjectGraph& graph);

// Returns the elements of the path as they were given. For a slot, they are the
// path of the variable, ".OPTIMIZER_SLOT", the path of the optimizer and the
// name.
std::vector<std::string> PathElements(const ObjectGraph& graph, int32_t node);

// Returns "(root).model.layers.0", or "(root).adam's state 'm' for
// (root).model.w".
std::string PrettyName(const ObjectGraph& graph, int32_t node);

// Returns, for each node, whether it or an object below it has values or slots.
std::vector<bool> HaveValues(const ObjectGraph& graph);

// Returns, for each node, whether it is one of `nodes` or leads to one of them.
std::vector<bool> LeadToThem(const ObjectGraph& graph, std::vector<bool> nodes);

// Sorts slots by name, in the order in which the names first appear, then by
// variable.
void SortSlots(std::vector<GraphSlot>& slots);

// Checks the properties that the other functions rely on.
// Errors: DataLoss - a node or an edge that does not exist, a node without a
//   path or with one that is too long.
Status CheckGraph(const ObjectGraph& graph);

// Errors: DataLoss - the bytes are not a graph.
std::string EncodeGraph(const ObjectGraph& graph);
StatusOr<ObjectGraph> DecodeGraph(std::string_view bytes);

// Returns the bytes of EncodeGraph in pieces. Similar graphs have most pieces
// in common.
Entries CutGraph(const ObjectGraph& graph);

// Returns a fingerprint. Equal graphs have equal fingerprints on all ranks.
uint64_t GraphFingerprint(const ObjectGraph& graph);

// Returns an upper bound for the bytes of all paths in a listing, at most
// INT64_MAX: a few long names can make very long paths.
int64_t PathBytes(const ObjectGraph& graph);

Status CheckPathBytes(const ObjectGraph& graph);

// Returns one element per node.
std::vector<ObjectInfo> ListObjects(const ObjectGraph& graph);

// Returns the graph as columns. `arrays` are the arrays of the same checkpoint,
// ascending by key; they have dtype and shape. Sets the objects of `values`:
// values with handlers have no rows in the graph.
// Errors: Internal - a value is not among the arrays or values, or is an array
//   of another dtype or shape.
StatusOr<StoredGraph> ToStoredGraph(const ObjectGraph& graph,
                                    const std::vector<StoredArray>& arrays,
                                    StoredValues& values);

// Returns the graph of columns from a file. Values with handlers come last in
// their object. Columns without rows are an error; see StoredGraph.
// Errors: DataLoss - those of FindDamage and CheckGraph.
StatusOr<ObjectGraph> FromStoredGraph(const StoredGraph& stored,
                                      const std::vector<StoredArray>& arrays,
                                      const StoredValues& values = {});

}  // namespace belay

#endif  // BELAY_GRAPH_OBJECT_GRAPH_H_
