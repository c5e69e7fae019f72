// The object graph as bytes, for messages between ranks and for fingerprints.
#include "absl/functional/function_ref.h"
#include "absl/strings/str_join.h"
#include "bytes/fingerprint.h"
#include "bytes/wire.h"
#include "graph/object_graph.h"

namespace belay {
namespace {

void PutAttribute(WireWriter& out, const GraphAttribute& attribute) {
  out.PutText(attribute.name);
  out.PutText(attribute.key);
  out.Put(attribute.dtype);
  out.PutShape(attribute.shape);
  out.PutText(attribute.layout);
  out.Put<uint8_t>(attribute.opaque);
  out.PutText(attribute.typestr);
}

GraphAttribute GetAttribute(WireReader& in) {
  GraphAttribute attribute;
  attribute.name = in.GetText();
  attribute.key = in.GetText();
  attribute.dtype = in.Get<DType>();
  attribute.shape = in.GetShape();
  attribute.layout = in.GetText();
  attribute.opaque = in.Get<uint8_t>() != 0;
  attribute.typestr = in.GetText();
  return attribute;
}

// What an entry is of: a node, what the last node has, or nothing more.
enum class EntryKind : uint8_t {
  kNode = 0,
  kChild = 1,
  kAttribute = 2,
  kSlot = 3,
  kEnd = 4,
};

// Numbers of nodes are told by how they differ from what is usual there. So
// most entries stay as they are where a graph gets one node more.
struct Usual {
  int32_t parent = 0;     // as of the node before
  int32_t optimizer = 0;  // the same
  int32_t child = 1;      // one more than all before
  int32_t variable = 0;   // as of the slot before
  int32_t slot = 0;       // one more than the slot before
};

// They wrap: damaged bytes may hold any difference.
void PutNumber(int32_t number, int32_t usual, WireWriter& out) {
  out.Put(static_cast<uint32_t>(number) - static_cast<uint32_t>(usual));
}
int32_t GetNumber(int32_t usual, WireReader& in) {
  return static_cast<int32_t>(static_cast<uint32_t>(usual) +
                              in.Get<uint32_t>());
}
int32_t NextOf(int32_t number) {
  return static_cast<int32_t>(static_cast<uint32_t>(number) + 1);
}

// All entries one after the other; calls `ended` behind each.
void PutEntries(const ObjectGraph& graph, WireWriter& out,
                absl::FunctionRef<void()> ended) {
  Usual usual;
  for (const GraphNode& node : graph.nodes) {
    out.Put(EntryKind::kNode);
    PutNumber(node.parent, usual.parent, out);
    PutNumber(node.optimizer, usual.optimizer, out);
    usual.parent = node.parent;
    usual.optimizer = node.optimizer;
    out.PutText(node.name);
    out.Put<uint8_t>(node.is_empty);
    ended();
    for (const GraphChild& child : node.children) {
      out.Put(EntryKind::kChild);
      out.PutText(child.name);
      PutNumber(child.node, usual.child, out);
      if (child.node >= usual.child) usual.child = NextOf(child.node);
      ended();
    }
    for (const GraphAttribute& attribute : node.attributes) {
      out.Put(EntryKind::kAttribute);
      PutAttribute(out, attribute);
      ended();
    }
    for (const GraphSlot& slot : node.slots) {
      out.Put(EntryKind::kSlot);
      PutNumber(slot.variable, usual.variable, out);
      out.PutText(slot.name);
      PutNumber(slot.node, usual.slot, out);
      usual.variable = slot.variable;
      usual.slot = NextOf(slot.node);
      ended();
    }
  }
  out.Put(EntryKind::kEnd);
  ended();
}

GraphNode GetNode(WireReader& in, Usual& usual) {
  GraphNode node;
  usual.parent = node.parent = GetNumber(usual.parent, in);
  usual.optimizer = node.optimizer = GetNumber(usual.optimizer, in);
  node.name = in.GetText();
  node.is_empty = in.Get<uint8_t>() != 0;
  return node;
}

GraphChild GetChild(WireReader& in, Usual& usual) {
  GraphChild child;
  child.name = in.GetText();
  child.node = GetNumber(usual.child, in);
  if (child.node >= usual.child) usual.child = NextOf(child.node);
  return child;
}

GraphSlot GetSlot(WireReader& in, Usual& usual) {
  GraphSlot slot;
  usual.variable = slot.variable = GetNumber(usual.variable, in);
  slot.name = in.GetText();
  slot.node = GetNumber(usual.slot, in);
  usual.slot = NextOf(slot.node);
  return slot;
}

// Reads to the end; returns whether it is one.
bool GetEntries(WireReader& in, ObjectGraph& graph) {
  Usual usual;
  while (in.ok()) {
    const EntryKind kind = in.Get<EntryKind>();
    if (kind == EntryKind::kEnd) return in.done();
    if (kind == EntryKind::kNode) {
      graph.nodes.push_back(GetNode(in, usual));
      continue;
    }
    if (graph.nodes.empty()) return false;
    GraphNode& node = graph.nodes.back();
    if (kind == EntryKind::kChild) {
      node.children.push_back(GetChild(in, usual));
    } else if (kind == EntryKind::kAttribute) {
      node.attributes.push_back(GetAttribute(in));
    } else if (kind == EntryKind::kSlot) {
      node.slots.push_back(GetSlot(in, usual));
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

Entries GraphEntries(const ObjectGraph& graph) {
  WireWriter out;
  Entries entries;
  size_t begin = 0;
  PutEntries(graph, out, [&] {
    entries.push_back(out.bytes().substr(begin));
    begin = out.bytes().size();
  });
  return entries;
}

StatusOr<ObjectGraph> GraphOfEntries(const Entries& entries) {
  return DecodeGraph(absl::StrJoin(entries, ""));
}

StatusOr<ObjectGraph> DecodeGraph(std::string_view bytes) {
  WireReader in(bytes);
  ObjectGraph graph;
  if (!GetEntries(in, graph)) {
    return absl::DataLossError(
        "read object graph \"\": its length does not match its content");
  }
  if (Status status = CheckAttributes(graph); !status.ok()) return status;
  if (Status status = CheckGraph(graph); !status.ok()) return status;
  return graph;
}

uint64_t GraphFingerprint(const ObjectGraph& graph) {
  return Fingerprint(EncodeGraph(graph));
}

}  // namespace belay
