// The object graph and the rows of an index, as columns.

#ifndef BELAY_PLAN_STORED_OBJECTS_H_
#define BELAY_PLAN_STORED_OBJECTS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "belay/arrays/box.h"

namespace belay {

// The object graph as the index stores it: columns of numbers and names.
// docs/format.md describes them, graph/object_graph.h converts them.

// Nodes are rows of the first table. Names are any strings without NUL.
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

// Calls fn(path inside the index, column) for every column.
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

// Returns a description of damage in the columns, or "". Finds a wrong number
// of rows, a row number out of range, and rows out of order, and names the
// column. CheckGraph checks whether the nodes form a graph.
std::string FindDamage(const StoredGraph& graph, size_t num_arrays);

// The typestr of values that are rows.
inline constexpr std::string_view kRowsTypestr = "rows";

// The number of rows of an array that each rank had when it was saved.
struct RowRanks {
  int64_t ranks = 0;           // the number of ranks that saved the array
  int64_t count = -1;          // rows per rank; -1: unequal, see `first`
  std::vector<int64_t> first;  // the first row of each rank, then the total

  // Returns the first row of a rank; for rank == ranks, the number of all rows.
  int64_t FirstOf(int64_t rank) const {
    return count >= 0 ? rank * count : first[static_cast<size_t>(rank)];
  }

  friend bool operator==(const RowRanks&, const RowRanks&) = default;
};

// `counts` has the number of rows of each rank.
RowRanks MakeRowRanks(const std::vector<int64_t>& counts);

struct StoredRows {
  uint32_t array = 0;  // a row of the array table
  RowRanks ranks;

  friend bool operator==(const StoredRows&, const StoredRows&) = default;
};

// Returns the first row of a rank if `count` rows are divided evenly; for
// rank == num_ranks, returns `count`.
inline int64_t FirstOfEven(int64_t count, int64_t rank, int64_t num_ranks) {
  const int64_t each = count / num_ranks, more = count % num_ranks;
  return rank * each + std::min(rank, more);
}

// Columns of an index (docs/format.md), one row per array with rows.
struct RowColumns {
  std::vector<uint32_t> array;
  std::vector<int64_t> ranks;
  std::vector<int64_t> count;  // rows per rank; -1: unequal
  std::vector<int64_t> first;  // ranks + 1 entries for each count of -1
};

// Calls fn(path inside the index, column) for every column.
template <typename Columns, typename Fn>
void ForEachRowColumn(Columns& columns, Fn&& fn) {
  fn(".belay/rows/array", columns.array);
  fn(".belay/rows/ranks", columns.ranks);
  fn(".belay/rows/count", columns.count);
  fn(".belay/rows/first", columns.first);
}

RowColumns ToRowColumns(const std::vector<StoredRows>& rows);

// Converts columns, for arrays of these shapes. Returns a description of damage
// in the columns, or "".
std::string FromRowColumns(const RowColumns& columns,
                           const std::vector<Shape>& shapes,
                           std::vector<StoredRows>& rows);

}  // namespace belay

#endif  // BELAY_PLAN_STORED_OBJECTS_H_
