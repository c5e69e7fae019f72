// The object graph as the index stores it: columns of plain numbers and names.
//
// In:  what graph/stored_graph_conversion.h makes of an ObjectGraph. Out: the
//      same, once index.h5 was read. docs/format.md describes the columns.

#ifndef BELAY_PLAN_STORED_STORED_GRAPH_H_
#define BELAY_PLAN_STORED_STORED_GRAPH_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace belay {

// Nodes are rows of the first table; names are any texts without NUL.
struct StoredGraph {
  // One row per node. No rows: the checkpoint has no graph.
  std::vector<int32_t> node_parent;     // -1: the root
  std::vector<int32_t> node_optimizer;  // -1: not a slot
  std::vector<std::string> node_name;
  // One row per edge, ascending by holder.
  std::vector<int32_t> child_holder;
  std::vector<std::string> child_name;
  std::vector<int32_t> child_node;
  // One row per value, ascending by node.
  std::vector<int32_t> attribute_node;
  std::vector<std::string> attribute_name;
  std::vector<uint32_t> attribute_array;  // a row of the array table
  std::vector<std::string> attribute_layout;
  std::vector<uint8_t> attribute_opaque;  // 1: only the program can read it
  // One row per slot, ascending by optimizer.
  std::vector<int32_t> slot_optimizer;
  std::vector<int32_t> slot_variable;
  std::vector<std::string> slot_name;
  std::vector<int32_t> slot_node;

  friend bool operator==(const StoredGraph&, const StoredGraph&) = default;
};

// Calls fn(path inside the index, column) for every column; the one list of
// names. `Graph` is StoredGraph or const StoredGraph.
template <typename Graph, typename Fn>
void ForEachGraphColumn(Graph& graph, Fn&& fn) {
  fn(".belay/graph/nodes/parent", graph.node_parent);
  fn(".belay/graph/nodes/optimizer", graph.node_optimizer);
  fn(".belay/graph/nodes/name", graph.node_name);
  fn(".belay/graph/children/holder", graph.child_holder);
  fn(".belay/graph/children/name", graph.child_name);
  fn(".belay/graph/children/node", graph.child_node);
  fn(".belay/graph/attributes/node", graph.attribute_node);
  fn(".belay/graph/attributes/name", graph.attribute_name);
  fn(".belay/graph/attributes/array", graph.attribute_array);
  fn(".belay/graph/attributes/layout", graph.attribute_layout);
  fn(".belay/graph/attributes/opaque", graph.attribute_opaque);
  fn(".belay/graph/slots/optimizer", graph.slot_optimizer);
  fn(".belay/graph/slots/variable", graph.slot_variable);
  fn(".belay/graph/slots/name", graph.slot_name);
  fn(".belay/graph/slots/node", graph.slot_node);
}

// What is wrong with the columns: a number of rows that does not fit, a number
// that is no row, rows out of order; names the column. "": nothing. Whether the
// nodes make a graph is another question, see CheckGraph.
std::string DamageOf(const StoredGraph& graph, size_t num_arrays);

}  // namespace belay

#endif  // BELAY_PLAN_STORED_STORED_GRAPH_H_
