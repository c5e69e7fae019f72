// The object graph of a checkpoint: which object holds which others under which
// names, and which values each of them has.

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

// Keys are made from the names by the rules of TensorFlow and only name
// datasets: nothing is ever parsed from them.

// The longest path: objects without an address may hold each other for ever.
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
  // The type of its handler, if it has one; dtype and shape mean nothing then.
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

// An object. Its path is that of `parent` and `name`; the path of a slot is
// that of its variable, that of its optimizer, and `name`.
//
// An empty object has no elements on this rank that tell it from others. It has
// a node for each of its paths, and only other ranks know whether they are one
// object.
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
// which their parent names them; then come the slots by optimizer, slot name
// and variable. A path leads through the parents, so it is a shortest one.
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

// Returns the elements of the path as they were given; those of a slot are the
// path of the variable, ".OPTIMIZER_SLOT", the path of the optimizer and the
// name.
std::vector<std::string> PathElements(const ObjectGraph& graph, int32_t node);

// Returns "(root).model.layers.0", or "(root).adam's state 'm' for
// (root).model.w".
std::string PrettyName(const ObjectGraph& graph, int32_t node);

// Returns by node whether it or an object below it has values or slots.
std::vector<bool> HaveValues(const ObjectGraph& graph);

// Returns by node whether it is one of `nodes` or leads to one.
std::vector<bool> LeadToThem(const ObjectGraph& graph, std::vector<bool> nodes);

// Sorts slots by name, in the order in which the names first come, then by
// variable.
void SortSlots(std::vector<GraphSlot>& slots);

// Checks what the other functions rely on.
// Errors: DataLoss - a node or an edge that does not exist, a node without a
//   path or with one that is too long.
Status CheckGraph(const ObjectGraph& graph);

// Errors: DataLoss - the bytes are no graph.
std::string EncodeGraph(const ObjectGraph& graph);
StatusOr<ObjectGraph> DecodeGraph(std::string_view bytes);

// Returns the same bytes in pieces: graphs that differ little have most pieces
// in common.
Entries CutGraph(const ObjectGraph& graph);

// Returns a number that equal graphs have on all ranks.
uint64_t GraphFingerprint(const ObjectGraph& graph);

// Returns the bytes of the paths in a listing, at most INT64_MAX: few long
// names can make very many.
int64_t PathBytes(const ObjectGraph& graph);

Status CheckPathBytes(const ObjectGraph& graph);

// Returns one element per node.
std::vector<ObjectInfo> ListObjects(const ObjectGraph& graph);

// Returns the graph as columns. `arrays` are those of the same checkpoint,
// ascending by key; they have dtype and shape. Notes in `values` their objects;
// values with handlers are no rows of the graph.
// Errors: Internal - a value is not among the arrays or values, or is an array
//   of another dtype or shape.
StatusOr<StoredGraph> ToStoredGraph(const ObjectGraph& graph,
                                    const std::vector<StoredArray>& arrays,
                                    StoredValues& values);

// Returns the graph of columns from a file. Values with handlers come last in
// their object. Without rows there is no graph, see StoredGraph.
// Errors: DataLoss - those of FindDamage and CheckGraph.
StatusOr<ObjectGraph> FromStoredGraph(const StoredGraph& stored,
                                      const std::vector<StoredArray>& arrays,
                                      const StoredValues& values = {});

}  // namespace belay

#endif  // BELAY_GRAPH_OBJECT_GRAPH_H_
