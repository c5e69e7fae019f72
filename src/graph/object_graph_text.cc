// The object graph as a tree, for people.
#include "absl/strings/escaping.h"
#include "base/text.h"
#include "belay/trackable.h"
#include "graph/object_graph.h"

namespace belay {
namespace {

// One line and what hangs below it.
struct Branch {
  std::string text;
  int32_t node = -1;  // whose branches come below, or -1
};

// Names may hold anything; a terminal should not.
std::string Printable(std::string_view name) {
  for (const char c : name) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      return absl::Utf8SafeCEscape(AbslView(name));
    }
  }
  return std::string(name);
}

std::string ValueText(const GraphAttribute& attribute) {
  if (attribute.opaque) return "opaque bytes";
  std::string text(DTypeName(attribute.dtype));
  if (!attribute.shape.empty()) text += Cat(" ", ShapeText(attribute.shape));
  if (!attribute.layout.empty()) text += Cat(" as ", attribute.layout);
  return text;
}

class Printer {
 public:
  explicit Printer(const ObjectGraph& graph) : graph_(graph) {}

  std::string Run() {
    text_ = "(root)\n";
    if (!graph_.nodes.empty()) Print(0, "");
    return std::move(text_);
  }

 private:
  const GraphNode& NodeAt(int32_t node) const {
    return graph_.nodes[static_cast<size_t>(node)];
  }

  // Whether the object is nothing but one value.
  static bool IsLeaf(const GraphNode& node) {
    return node.children.empty() && node.slots.empty() &&
           node.attributes.size() == 1 &&
           node.attributes[0].name == kVariableValue;
  }

  Branch BranchOf(std::string name, int32_t node) const {
    if (IsLeaf(NodeAt(node))) {
      return {Cat(name, "  ", ValueText(NodeAt(node).attributes[0]))};
    }
    return {std::move(name), node};
  }

  std::vector<Branch> BranchesOf(int32_t number) const {
    const GraphNode& node = NodeAt(number);
    std::vector<Branch> branches;
    for (const GraphAttribute& attribute : node.attributes) {
      branches.push_back(
          {Cat(Printable(attribute.name), "  ", ValueText(attribute))});
    }
    for (const GraphChild& child : node.children) {
      const GraphNode& to = NodeAt(child.node);
      if (to.parent == number && to.name == child.name) {
        branches.push_back(BranchOf(Printable(child.name), child.node));
      } else {
        branches.push_back({Cat(Printable(child.name), " -> ",
                                Printable(PrettyName(graph_, child.node)))});
      }
    }
    for (const GraphSlot& slot : node.slots) {
      branches.push_back(
          BranchOf(Cat("slot ", Printable(slot.name), " of ",
                       Printable(PrettyName(graph_, slot.variable))),
                   slot.node));
    }
    return branches;
  }

  void Print(int32_t number, const std::string& indent) {
    const std::vector<Branch> branches = BranchesOf(number);
    for (size_t i = 0; i < branches.size(); ++i) {
      const bool is_last = i + 1 == branches.size();
      text_ += Cat(indent, is_last ? "└─ " : "├─ ", branches[i].text, "\n");
      if (branches[i].node < 0) continue;
      Print(branches[i].node, indent + (is_last ? "   " : "│  "));
    }
  }

  const ObjectGraph& graph_;
  std::string text_;
};

}  // namespace

std::string GraphText(const ObjectGraph& graph) { return Printer(graph).Run(); }

}  // namespace belay
