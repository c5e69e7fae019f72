#include "graph/object_listing.h"

#include <cstdint>
#include <limits>

#include "base/text.h"

namespace belay {

int64_t PathBytes(const ObjectGraph& graph) {
  // What PrettyName puts around names, at most.
  constexpr double kBetween = 16;
  std::vector<double> lengths;
  double sum = 0;
  for (const GraphNode& node : graph.nodes) {
    double length = kBetween + static_cast<double>(node.name.size());
    if (node.parent >= 0) length += lengths[static_cast<size_t>(node.parent)];
    if (node.is_slot()) length += lengths[static_cast<size_t>(node.optimizer)];
    lengths.push_back(length);
    sum += length;
  }
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  return sum < static_cast<double>(kMost) ? static_cast<int64_t>(sum) : kMost;
}

Status CheckPathBytes(const ObjectGraph& graph) {
  constexpr int64_t kMostBytes = int64_t{64} << 20;
  const int64_t bytes = PathBytes(graph);
  if (bytes <= kMostBytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      Cat("the paths of its ", graph.nodes.size(),
          " objects are too long to list (need at most ", kMostBytes,
          " bytes in all, found ", bytes, ")"));
}

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
