#include "graph/copied_graph.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "graph/object_listing.h"
#include "graph/stored_graph_conversion.h"

namespace belay {
namespace {

// What the keys of an object's values begin with.
std::string PrefixOf(const std::string& object) {
  return AttributeKey(object, "");
}

// Gives an array to the object that its key names. Returns whether there is
// one.
bool AddMade(const MadeArray& made,
             const absl::flat_hash_map<std::string, size_t>& nodes,
             ObjectGraph& graph) {
  const size_t slash = made.key.rfind('/');
  if (slash == made.key.npos) return false;
  const auto node = nodes.find(made.key.substr(0, slash + 1));
  std::string name = made.key.substr(slash + 1);
  if (node == nodes.end() || EscapeName(name) != name) return false;
  graph.nodes[node->second].attributes.push_back({.name = std::move(name),
                                                  .key = made.key,
                                                  .dtype = made.form.dtype,
                                                  .shape = made.form.shape});
  return true;
}

}  // namespace

StatusOr<std::optional<ObjectGraph>> CopiedGraph(const SavedCheckpoint& saved,
                                                 const CopyPlan& plan) {
  BELAY_ASSIGN_OR_RETURN(
      ObjectGraph graph,
      FromStoredGraph(saved.graph, saved.arrays, saved.values));
  absl::flat_hash_set<std::string> copied;
  for (const StoredValue& value : plan.values) copied.insert(value.key);
  for (GraphNode& node : graph.nodes) {
    std::erase_if(node.attributes, [&](const GraphAttribute& one) {
      return !copied.contains(one.key);
    });
  }
  if (plan.made.empty()) return graph;
  BELAY_RETURN_IF_ERROR(CheckPathBytes(graph));
  const std::vector<std::string> names = ObjectNames(graph);
  absl::flat_hash_map<std::string, size_t> nodes;
  for (size_t i = 0; i < names.size(); ++i) {
    nodes.emplace(PrefixOf(names[i]), i);
  }
  for (const MadeArray& made : plan.made) {
    if (!AddMade(made, nodes, graph)) return std::nullopt;
  }
  return graph;
}

}  // namespace belay
