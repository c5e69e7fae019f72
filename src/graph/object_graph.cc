#include "graph/object_graph.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/text.h"

namespace belay {
namespace {

constexpr std::string_view kAttributes = "/.ATTRIBUTES/";
constexpr std::string_view kOptimizerSlot = ".OPTIMIZER_SLOT";

const GraphNode& NodeAt(const ObjectGraph& graph, int32_t node) {
  return graph.nodes[static_cast<size_t>(node)];
}

Status Damaged(size_t node, std::string_view what) {
  return absl::DataLossError(
      Cat("check object graph \"node ", node, "\": ", what));
}

}  // namespace

std::string EscapeName(std::string_view name) {
  if (name.find('.') == name.npos && name.find('/') == name.npos) {
    return std::string(name);
  }
  std::string escaped;
  escaped.reserve(name.size());
  for (const char c : name) {
    if (c == '.') escaped += '.';
    if (c == '/') {
      escaped += ".S";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

std::string ChildObjectName(std::string_view parent, std::string_view name) {
  std::string escaped = EscapeName(name);
  return parent.empty() ? escaped : Cat(parent, "/", escaped);
}

std::string SlotObjectName(std::string_view variable,
                           std::string_view optimizer, std::string_view name) {
  return Cat(variable, "/", kOptimizerSlot, "/", optimizer, "/",
             EscapeName(name));
}

std::string AttributeKey(std::string_view object, std::string_view name) {
  return Cat(object, kAttributes, EscapeName(name));
}

std::vector<std::string> ObjectNames(const ObjectGraph& graph) {
  std::vector<std::string> names(graph.nodes.size());
  const auto name_of = [&](int32_t node) -> const std::string& {
    return names[static_cast<size_t>(node)];
  };
  for (size_t i = 1; i < graph.nodes.size(); ++i) {
    const GraphNode& node = graph.nodes[i];
    names[i] = node.is_slot()
                   ? SlotObjectName(name_of(node.parent),
                                    name_of(node.optimizer), node.name)
                   : ChildObjectName(name_of(node.parent), node.name);
  }
  return names;
}

void AssignKeys(ObjectGraph& graph) {
  const std::vector<std::string> names = ObjectNames(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    for (GraphAttribute& attribute : graph.nodes[i].attributes) {
      attribute.key = AttributeKey(names[i], attribute.name);
    }
  }
}

std::vector<std::string> PathElements(const ObjectGraph& graph, int32_t node) {
  const GraphNode& at = NodeAt(graph, node);
  if (at.is_slot()) {
    std::vector<std::string> path = PathElements(graph, at.parent);
    path.emplace_back(kOptimizerSlot);
    for (std::string& element : PathElements(graph, at.optimizer)) {
      path.push_back(std::move(element));
    }
    path.push_back(at.name);
    return path;
  }
  std::vector<std::string> path;
  for (int32_t i = node; i > 0; i = NodeAt(graph, i).parent) {
    path.push_back(NodeAt(graph, i).name);
  }
  std::reverse(path.begin(), path.end());
  return path;
}

std::string PrettyName(const ObjectGraph& graph, int32_t node) {
  const GraphNode& at = NodeAt(graph, node);
  if (at.is_slot()) {
    return Cat(PrettyName(graph, at.optimizer), "'s state '", at.name, "' for ",
               PrettyName(graph, at.parent));
  }
  std::string text = "(root)";
  for (const std::string& element : PathElements(graph, node)) {
    text += Cat(".", element);
  }
  return text;
}

std::vector<bool> HaveValues(const ObjectGraph& graph) {
  std::vector<bool> own;
  for (const GraphNode& node : graph.nodes) {
    own.push_back(!node.attributes.empty() || !node.slots.empty());
  }
  return LeadToThem(graph, std::move(own));
}

std::vector<bool> LeadToThem(const ObjectGraph& graph, std::vector<bool> have) {
  // Back along the edges, which may form circles.
  std::vector<std::vector<int32_t>> holders(graph.nodes.size());
  std::vector<int32_t> found;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const GraphNode& node = graph.nodes[i];
    for (const GraphChild& child : node.children) {
      holders[static_cast<size_t>(child.node)].push_back(
          static_cast<int32_t>(i));
    }
    if (have[i]) found.push_back(static_cast<int32_t>(i));
  }
  while (!found.empty()) {
    const auto node = static_cast<size_t>(found.back());
    found.pop_back();
    for (const int32_t holder : holders[node]) {
      if (have[static_cast<size_t>(holder)]) continue;
      have[static_cast<size_t>(holder)] = true;
      found.push_back(holder);
    }
  }
  return have;
}

void SortSlots(std::vector<GraphSlot>& slots) {
  std::vector<std::string> names;
  const auto place = [&](const GraphSlot& slot) {
    return std::find(names.begin(), names.end(), slot.name) - names.begin();
  };
  for (const GraphSlot& slot : slots) {
    if (place(slot) == std::ssize(names)) names.push_back(slot.name);
  }
  std::stable_sort(
      slots.begin(), slots.end(), [&](const GraphSlot& a, const GraphSlot& b) {
        const auto place_a = place(a), place_b = place(b);
        return place_a != place_b ? place_a < place_b : a.variable < b.variable;
      });
}

namespace {

// Checks one node, given how long the paths of those before it are.
Status CheckNode(const ObjectGraph& graph, size_t i,
                 const std::vector<int>& lengths) {
  const auto is_node = [&](int32_t node) {
    return node >= 0 && static_cast<size_t>(node) < graph.nodes.size();
  };
  const auto is_slot = [&](int32_t node) {
    return NodeAt(graph, node).is_slot();
  };
  const GraphNode& node = graph.nodes[i];
  for (const GraphChild& child : node.children) {
    if (!is_node(child.node)) return Damaged(i, "a child is missing");
    if (is_slot(child.node)) return Damaged(i, "a child is a slot");
  }
  for (const GraphSlot& slot : node.slots) {
    if (!is_node(slot.node) || !is_slot(slot.node) ||
        NodeAt(graph, slot.node).optimizer != static_cast<int32_t>(i) ||
        NodeAt(graph, slot.node).parent != slot.variable) {
      return Damaged(i, "a slot is missing");
    }
  }
  if (node.is_slot() && (!node.children.empty() || !node.slots.empty())) {
    return Damaged(i, "a slot has children");
  }
  if (i == 0) {
    return node.parent == -1 && !node.is_slot() ? absl::OkStatus()
                                                : Damaged(i, "is not a root");
  }
  const auto is_before = [&](int32_t other) {
    return other >= 0 && static_cast<size_t>(other) < i && !is_slot(other);
  };
  if (node.name.empty() || !is_before(node.parent) ||
      (node.is_slot() && !is_before(node.optimizer))) {
    return Damaged(i, "has no path");
  }
  if (!node.is_slot() &&
      lengths[static_cast<size_t>(node.parent)] >= kMaxPathElements) {
    return Damaged(i, absl::StrFormat("the path is too long (need at most %d "
                                      "elements)",
                                      kMaxPathElements));
  }
  return absl::OkStatus();
}

}  // namespace

Status CheckGraph(const ObjectGraph& graph) {
  if (graph.nodes.empty()) {
    return absl::DataLossError("check object graph \"\": it has no root");
  }
  std::vector<int> lengths;
  std::vector<bool> reached(graph.nodes.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    Status status = CheckNode(graph, i, lengths);
    if (!status.ok()) return status;
    const GraphNode& node = graph.nodes[i];
    lengths.push_back(i == 0 ? 0
                             : lengths[static_cast<size_t>(node.parent)] + 1);
    // The edges and slots that lead to where the path says.
    for (const GraphChild& child : node.children) {
      const GraphNode& to = NodeAt(graph, child.node);
      if (to.parent == static_cast<int32_t>(i) && to.name == child.name) {
        reached[static_cast<size_t>(child.node)] = true;
      }
    }
    for (const GraphSlot& slot : node.slots) {
      if (NodeAt(graph, slot.node).name == slot.name) {
        reached[static_cast<size_t>(slot.node)] = true;
      }
    }
  }
  const auto lost = std::find(reached.begin() + 1, reached.end(), false);
  if (lost != reached.end()) {
    return Damaged(static_cast<size_t>(lost - reached.begin()),
                   "no object holds it");
  }
  return absl::OkStatus();
}

}  // namespace belay
