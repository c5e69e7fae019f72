#include "graph/stored_graph_conversion.h"

#include <algorithm>

#include "core/status_macros.h"
#include "core/text.h"

namespace belay {
namespace {

// The row of a value in the array table.
StatusOr<uint32_t> RowOf(const GraphAttribute& attribute,
                         const std::vector<StoredArray>& arrays) {
  const auto found =
      std::lower_bound(arrays.begin(), arrays.end(), attribute.key,
                       [](const StoredArray& array, const std::string& key) {
                         return array.key < key;
                       });
  const auto failed = [&](std::string_view cause) {
    return absl::InternalError(
        Cat("store object graph \"", attribute.key, "\": ", cause));
  };
  if (found == arrays.end() || found->key != attribute.key) {
    return failed("the checkpoint has no such array");
  }
  if (!attribute.has_handler() &&
      (found->dtype != attribute.dtype || found->shape != attribute.shape)) {
    return failed(
        Cat("the array is another one (need ", DTypeName(attribute.dtype), " ",
            ShapeText(attribute.shape), ", found ", DTypeName(found->dtype),
            " ", ShapeText(found->shape), ")"));
  }
  return static_cast<uint32_t>(found - arrays.begin());
}

// Notes whose value it is. Returns whether it is one that has a row.
bool NoteValue(const GraphAttribute& attribute, int32_t node,
               StoredValues& values) {
  const auto found =
      std::lower_bound(values.key.begin(), values.key.end(), attribute.key);
  if (found == values.key.end() || *found != attribute.key) return false;
  const auto row = static_cast<size_t>(found - values.key.begin());
  values.node[row] = node;
  values.name[row] = attribute.name;
  return true;
}

Status AddNode(const ObjectGraph& graph, int32_t number,
               const std::vector<StoredArray>& arrays, StoredGraph& stored,
               StoredValues& values) {
  const GraphNode& node = graph.nodes[static_cast<size_t>(number)];
  stored.node_parent.push_back(node.parent);
  stored.node_optimizer.push_back(node.optimizer);
  stored.node_name.push_back(node.name);
  for (const GraphChild& child : node.children) {
    stored.child_holder.push_back(number);
    stored.child_name.push_back(child.name);
    stored.child_node.push_back(child.node);
  }
  for (const GraphAttribute& attribute : node.attributes) {
    if (attribute.has_handler() && NoteValue(attribute, number, values)) {
      continue;
    }
    BELAY_ASSIGN_OR_RETURN(const uint32_t row, RowOf(attribute, arrays));
    stored.attribute_node.push_back(number);
    stored.attribute_name.push_back(attribute.name);
    stored.attribute_array.push_back(row);
    stored.attribute_layout.push_back(attribute.layout);
    stored.attribute_opaque.push_back(attribute.opaque ? 1 : 0);
  }
  for (const GraphSlot& slot : node.slots) {
    stored.slot_optimizer.push_back(number);
    stored.slot_variable.push_back(slot.variable);
    stored.slot_name.push_back(slot.name);
    stored.slot_node.push_back(slot.node);
  }
  return absl::OkStatus();
}

// Of columns without damage.
ObjectGraph GraphOf(const StoredGraph& stored,
                    const std::vector<StoredArray>& arrays,
                    const StoredValues& values) {
  ObjectGraph graph;
  graph.nodes.resize(stored.node_parent.size());
  const auto at = [&](int32_t node) -> GraphNode& {
    return graph.nodes[static_cast<size_t>(node)];
  };
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    graph.nodes[i].parent = stored.node_parent[i];
    graph.nodes[i].optimizer = stored.node_optimizer[i];
    graph.nodes[i].name = stored.node_name[i];
  }
  for (size_t i = 0; i < stored.child_holder.size(); ++i) {
    at(stored.child_holder[i])
        .children.push_back({stored.child_name[i], stored.child_node[i]});
  }
  for (size_t i = 0; i < stored.attribute_node.size(); ++i) {
    const StoredArray& array = arrays[stored.attribute_array[i]];
    at(stored.attribute_node[i])
        .attributes.push_back({.name = stored.attribute_name[i],
                               .key = array.key,
                               .dtype = array.dtype,
                               .shape = array.shape,
                               .layout = stored.attribute_layout[i],
                               .opaque = stored.attribute_opaque[i] != 0});
  }
  for (size_t i = 0; i < values.key.size(); ++i) {
    if (values.node[i] < 0) continue;
    at(values.node[i])
        .attributes.push_back({.name = values.name[i],
                               .key = values.key[i],
                               .typestr = values.typestr[i]});
  }
  for (size_t i = 0; i < stored.slot_optimizer.size(); ++i) {
    at(stored.slot_optimizer[i])
        .slots.push_back({.variable = stored.slot_variable[i],
                          .name = stored.slot_name[i],
                          .node = stored.slot_node[i]});
  }
  return graph;
}

}  // namespace

StatusOr<StoredGraph> ToStoredGraph(const ObjectGraph& graph,
                                    const std::vector<StoredArray>& arrays,
                                    StoredValues& values) {
  StoredGraph stored;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    BELAY_RETURN_IF_ERROR(
        AddNode(graph, static_cast<int32_t>(i), arrays, stored, values));
  }
  return stored;
}

StatusOr<ObjectGraph> FromStoredGraph(const StoredGraph& stored,
                                      const std::vector<StoredArray>& arrays,
                                      const StoredValues& values) {
  std::string damage = DamageOf(stored, arrays.size());
  if (damage.empty()) {
    damage = DamageOf(values, arrays.size(), stored.node_parent.size());
  }
  if (!damage.empty()) {
    return absl::DataLossError(Cat("read object graph \"\": ", damage));
  }
  ObjectGraph graph = GraphOf(stored, arrays, values);
  BELAY_RETURN_IF_ERROR(CheckGraph(graph));
  return graph;
}

}  // namespace belay
