#include "plan/stored/stored_graph.h"

#include "plan/stored/column_damage.h"

namespace belay {
namespace {

using Damage = ColumnDamage;

void CheckNodes(const StoredGraph& graph, Damage& damage) {
  const size_t nodes = graph.node_parent.size();
  damage.CheckLength("nodes/optimizer", graph.node_optimizer, nodes);
  damage.CheckLength("nodes/name", graph.node_name, nodes);
  damage.CheckRange("nodes/parent", graph.node_parent, -1, nodes);
  damage.CheckRange("nodes/optimizer", graph.node_optimizer, -1, nodes);
}

void CheckChildren(const StoredGraph& graph, Damage& damage) {
  const size_t nodes = graph.node_parent.size();
  const size_t rows = graph.child_holder.size();
  damage.CheckLength("children/name", graph.child_name, rows);
  damage.CheckLength("children/node", graph.child_node, rows);
  damage.CheckRange("children/holder", graph.child_holder, 0, nodes);
  damage.CheckAscending("children/holder", graph.child_holder);
  damage.CheckRange("children/node", graph.child_node, 0, nodes);
}

void CheckAttributes(const StoredGraph& graph, size_t num_arrays,
                     Damage& damage) {
  const size_t nodes = graph.node_parent.size();
  const size_t rows = graph.attribute_node.size();
  damage.CheckLength("attributes/name", graph.attribute_name, rows);
  damage.CheckLength("attributes/array", graph.attribute_array, rows);
  damage.CheckLength("attributes/layout", graph.attribute_layout, rows);
  damage.CheckLength("attributes/opaque", graph.attribute_opaque, rows);
  damage.CheckRange("attributes/node", graph.attribute_node, 0, nodes);
  damage.CheckAscending("attributes/node", graph.attribute_node);
  damage.CheckRange("attributes/array", graph.attribute_array, 0, num_arrays);
  damage.CheckRange("attributes/opaque", graph.attribute_opaque, 0, 2);
}

void CheckSlots(const StoredGraph& graph, Damage& damage) {
  const size_t nodes = graph.node_parent.size();
  const size_t rows = graph.slot_optimizer.size();
  damage.CheckLength("slots/variable", graph.slot_variable, rows);
  damage.CheckLength("slots/name", graph.slot_name, rows);
  damage.CheckLength("slots/node", graph.slot_node, rows);
  damage.CheckRange("slots/optimizer", graph.slot_optimizer, 0, nodes);
  damage.CheckAscending("slots/optimizer", graph.slot_optimizer);
  damage.CheckRange("slots/variable", graph.slot_variable, 0, nodes);
  damage.CheckRange("slots/node", graph.slot_node, 0, nodes);
}

}  // namespace

std::string DamageOf(const StoredGraph& graph, size_t num_arrays) {
  Damage damage("graph");
  CheckNodes(graph, damage);
  CheckChildren(graph, damage);
  CheckAttributes(graph, num_arrays, damage);
  CheckSlots(graph, damage);
  return damage.Take();
}

}  // namespace belay
