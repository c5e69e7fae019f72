#include "graph/object_listing.h"

namespace belay {

std::vector<ObjectInfo> ListObjects(const ObjectGraph& graph) {
  std::vector<ObjectInfo> objects;
  objects.reserve(graph.nodes.size());
  for (const GraphNode& node : graph.nodes) {
    const auto number = static_cast<int32_t>(objects.size());
    ObjectInfo& object = objects.emplace_back();
    object.path = PrettyName(graph, number);
    object.parent = node.parent;
    for (const GraphAttribute& attribute : node.attributes) {
      object.values.push_back({.name = attribute.name,
                               .key = attribute.key,
                               .layout = attribute.layout,
                               .opaque = attribute.opaque,
                               .typestr = attribute.typestr});
    }
    for (const GraphChild& child : node.children) {
      object.children.push_back({.name = child.name, .object = child.node});
    }
    for (const GraphSlot& slot : node.slots) {
      object.slots.push_back(
          {.name = slot.name, .variable = slot.variable, .object = slot.node});
    }
  }
  return objects;
}

}  // namespace belay
