#include "graph/object_graph.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <type_traits>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "core/wire.h"

namespace belay {
namespace {

constexpr std::string_view kAttributes = "/.ATTRIBUTES/";
constexpr std::string_view kOptimizerSlot = ".OPTIMIZER_SLOT";

const GraphNode& NodeAt(const ObjectGraph& graph, int32_t node) {
  return graph.nodes[At(node)];
}

Status Damaged(size_t node, std::string_view what) {
  return absl::DataLossError(
      Cat("check object graph \"node ", node, "\": ", what));
}

}  // namespace

std::string EscapeName(std::string_view name) {
  return absl::StrReplaceAll(AbslView(name), {{".", ".."}, {"/", ".S"}});
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
    return names[At(node)];
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
  // Follows the edges backwards; they may form cycles.
  std::vector<std::vector<int32_t>> holders(graph.nodes.size());
  std::vector<int32_t> found;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const GraphNode& node = graph.nodes[i];
    for (const GraphChild& child : node.children) {
      holders[At(child.node)].push_back(static_cast<int32_t>(i));
    }
    if (have[i]) found.push_back(static_cast<int32_t>(i));
  }
  while (!found.empty()) {
    const auto node = static_cast<size_t>(found.back());
    found.pop_back();
    for (const int32_t holder : holders[node]) {
      if (have[At(holder)]) continue;
      have[At(holder)] = true;
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

bool HasNameTwice(const std::vector<GraphChild>& children) {
  std::vector<std::string_view> names;
  names.reserve(children.size());
  for (const GraphChild& child : children) names.push_back(child.name);
  std::ranges::sort(names);
  return std::ranges::adjacent_find(names) != names.end();
}

// Checks one node. `lengths` has the path lengths of the nodes before it.
Status CheckNode(const ObjectGraph& graph, size_t i,
                 const std::vector<int>& lengths) {
  const auto is_node = [&](int32_t node) {
    return node >= 0 && At(node) < graph.nodes.size();
  };
  const auto is_slot = [&](int32_t node) {
    return NodeAt(graph, node).is_slot();
  };
  const GraphNode& node = graph.nodes[i];
  for (const GraphChild& child : node.children) {
    if (!is_node(child.node)) return Damaged(i, "a child is missing");
    if (is_slot(child.node)) return Damaged(i, "a child is a slot");
  }
  if (HasNameTwice(node.children)) {
    return Damaged(i, "two children have one name");
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
  if (!node.is_slot() && lengths[At(node.parent)] >= kMaxPathElements) {
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
    BELAY_RETURN_IF_ERROR(CheckNode(graph, i, lengths));
    const GraphNode& node = graph.nodes[i];
    lengths.push_back(i == 0 ? 0 : lengths[At(node.parent)] + 1);
    // Mark the nodes that the last edge of their path leads to.
    for (const GraphChild& child : node.children) {
      const GraphNode& to = NodeAt(graph, child.node);
      if (to.parent == static_cast<int32_t>(i) && to.name == child.name) {
        reached[At(child.node)] = true;
      }
    }
    for (const GraphSlot& slot : node.slots) {
      if (NodeAt(graph, slot.node).name == slot.name) {
        reached[At(slot.node)] = true;
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

// The object graph as bytes, for messages between ranks and for fingerprints.

namespace {

// A node, a part of the preceding node, or the end.
enum class EntryKind : uint8_t { kNode, kChild, kAttribute, kSlot, kEnd };

// Entries hold the number of a node as its difference from the expected number,
// so most entries do not change when a node is added to a graph.
struct Expected {
  int32_t parent = 0;     // as for the node before
  int32_t optimizer = 0;  // the same
  int32_t child = 1;      // one more than the largest child before
  int32_t variable = 0;   // as for the slot before
  int32_t slot = 0;       // one more than the slot before
};

// Wraps around: damaged bytes may hold any difference.
int32_t Add(int32_t a, uint32_t b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) + b);
}

template <typename Archive>
void NumberField(Archive& archive, int32_t expected, int32_t& number) {
  uint32_t difference =
      static_cast<uint32_t>(number) - static_cast<uint32_t>(expected);
  archive(difference);
  if constexpr (std::is_same_v<Archive, WireReader>) {
    number = Add(expected, difference);
  }
}

template <typename Archive>
void EntryFields(Archive& archive, Expected& expected, GraphNode& node) {
  NumberField(archive, expected.parent, node.parent);
  NumberField(archive, expected.optimizer, node.optimizer);
  archive(node.name, node.is_empty);
  expected.parent = node.parent;
  expected.optimizer = node.optimizer;
}
template <typename Archive>
void EntryFields(Archive& archive, Expected& expected, GraphChild& child) {
  archive(child.name);
  NumberField(archive, expected.child, child.node);
  if (child.node >= expected.child) expected.child = Add(child.node, 1);
}
template <typename Archive>
void EntryFields(Archive& archive, Expected&, GraphAttribute& attribute) {
  archive(attribute.name, attribute.key, attribute.dtype, attribute.shape,
          attribute.layout, attribute.opaque, attribute.typestr);
}
template <typename Archive>
void EntryFields(Archive& archive, Expected& expected, GraphSlot& slot) {
  NumberField(archive, expected.variable, slot.variable);
  archive(slot.name);
  NumberField(archive, expected.slot, slot.node);
  expected.variable = slot.variable;
  expected.slot = Add(slot.node, 1);
}

// Writes all entries; calls `ended` after each.
void PutEntries(const ObjectGraph& graph, WireWriter& out,
                absl::FunctionRef<void()> ended) {
  Expected expected;
  const auto put = [&](EntryKind kind, const auto& entry) {
    out.Put(kind);
    // Writing does not change the entry.
    EntryFields(out, expected,
                const_cast<std::remove_cvref_t<decltype(entry)>&>(entry));
    ended();
  };
  for (const GraphNode& node : graph.nodes) {
    put(EntryKind::kNode, node);
    for (const auto& child : node.children) put(EntryKind::kChild, child);
    for (const auto& one : node.attributes) put(EntryKind::kAttribute, one);
    for (const auto& slot : node.slots) put(EntryKind::kSlot, slot);
  }
  out.Put(EntryKind::kEnd);
  ended();
}

// Returns whether the bytes are whole entries and end with kEnd.
bool GetEntries(WireReader& in, ObjectGraph& graph) {
  Expected expected;
  while (in.ok()) {
    const EntryKind kind = in.Get<EntryKind>();
    if (kind == EntryKind::kEnd) return in.ok() && in.done();
    if (kind == EntryKind::kNode) {
      EntryFields(in, expected, graph.nodes.emplace_back());
      continue;
    }
    if (graph.nodes.empty()) return false;
    GraphNode& node = graph.nodes.back();
    if (kind == EntryKind::kChild) {
      EntryFields(in, expected, node.children.emplace_back());
    } else if (kind == EntryKind::kAttribute) {
      EntryFields(in, expected, node.attributes.emplace_back());
    } else if (kind == EntryKind::kSlot) {
      EntryFields(in, expected, node.slots.emplace_back());
    } else {
      return false;
    }
  }
  return false;
}

Status CheckAttributes(const ObjectGraph& graph) {
  for (const GraphNode& node : graph.nodes) {
    for (const GraphAttribute& attribute : node.attributes) {
      if (!IsKnownDType(static_cast<uint8_t>(attribute.dtype)) ||
          !CheckedNumElements(attribute.shape).ok()) {
        return absl::DataLossError("read object graph \"" + attribute.key +
                                   "\": unknown dtype or impossible shape");
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::string EncodeGraph(const ObjectGraph& graph) {
  WireWriter out;
  PutEntries(graph, out, [] {});
  return out.Take();
}

Entries CutGraph(const ObjectGraph& graph) {
  WireWriter out;
  Entries entries;
  size_t begin = 0;
  PutEntries(graph, out, [&] {
    entries.push_back(out.bytes().substr(begin));
    begin = out.bytes().size();
  });
  return entries;
}

StatusOr<ObjectGraph> DecodeGraph(std::string_view bytes) {
  WireReader in(bytes);
  ObjectGraph graph;
  if (!GetEntries(in, graph)) {
    return absl::DataLossError(
        "read object graph \"\": its length does not match its content");
  }
  BELAY_RETURN_IF_ERROR(CheckAttributes(graph));
  BELAY_RETURN_IF_ERROR(CheckGraph(graph));
  return graph;
}

uint64_t GraphFingerprint(const ObjectGraph& graph) {
  return Fingerprint(EncodeGraph(graph));
}

// --- Object listing ---

int64_t PathBytes(const ObjectGraph& graph) {
  // The maximum number of bytes that PrettyName adds to a name.
  constexpr double kBetween = 16;
  std::vector<double> lengths;
  double sum = 0;
  for (const GraphNode& node : graph.nodes) {
    double length = kBetween + static_cast<double>(node.name.size());
    if (node.parent >= 0) length += lengths[At(node.parent)];
    if (node.is_slot()) length += lengths[At(node.optimizer)];
    lengths.push_back(length);
    sum += length;
  }
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  return sum < static_cast<double>(kMax) ? static_cast<int64_t>(sum) : kMax;
}

Status CheckPathBytes(const ObjectGraph& graph) {
  constexpr int64_t kMaxBytes = int64_t{64} << 20;
  const int64_t bytes = PathBytes(graph);
  if (bytes <= kMaxBytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      Cat("the paths of its ", graph.nodes.size(),
          " objects are too long to list (need at most ", kMaxBytes,
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

// --- Stored graph conversion ---

namespace {

// Returns the row of a value in the array table.
StatusOr<uint32_t> FindRow(const GraphAttribute& attribute,
                           const std::vector<StoredArray>& arrays) {
  const StoredArray* const found = FindArray(arrays, attribute.key);
  const auto failed = [&](std::string_view cause) {
    return absl::InternalError(
        Cat("store object graph \"", attribute.key, "\": ", cause));
  };
  if (found == nullptr) {
    return failed("the checkpoint has no such array");
  }
  if (!attribute.has_handler() &&
      (found->dtype != attribute.dtype || found->shape != attribute.shape)) {
    return failed(
        Cat("the array is another one (need ", DTypeName(attribute.dtype), " ",
            ShapeText(attribute.shape), ", found ", DTypeName(found->dtype),
            " ", ShapeText(found->shape), ")"));
  }
  return static_cast<uint32_t>(found - arrays.data());
}

// Records the object of a value. Returns false if the value has no row.
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
    BELAY_ASSIGN_OR_RETURN(const uint32_t row, FindRow(attribute, arrays));
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

// Requires columns without damage.
ObjectGraph MakeGraph(const StoredGraph& stored,
                      const std::vector<StoredArray>& arrays,
                      const StoredValues& values) {
  ObjectGraph graph;
  graph.nodes.resize(stored.node_parent.size());
  const auto at = [&](int32_t node) -> GraphNode& {
    return graph.nodes[At(node)];
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
  std::string damage = FindDamage(stored, arrays.size());
  if (damage.empty()) {
    damage = FindDamage(values, arrays.size(), stored.node_parent.size());
  }
  if (!damage.empty()) {
    return absl::DataLossError(Cat("read object graph \"\": ", damage));
  }
  ObjectGraph graph = MakeGraph(stored, arrays, values);
  BELAY_RETURN_IF_ERROR(CheckGraph(graph));
  return graph;
}

}  // namespace belay
