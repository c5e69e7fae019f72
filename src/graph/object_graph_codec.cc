// The object graph as bytes, for messages between ranks and for fingerprints.
#include "base/fingerprint.h"
#include "base/wire.h"
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

GraphNode GetNode(WireReader& in) {
  GraphNode node;
  node.parent = in.Get<int32_t>();
  node.optimizer = in.Get<int32_t>();
  node.name = in.GetText();
  node.children = in.GetAll<GraphChild>([&] {
    std::string name(in.GetText());
    return GraphChild{std::move(name), in.Get<int32_t>()};
  });
  node.attributes = in.GetAll<GraphAttribute>([&] { return GetAttribute(in); });
  node.slots = in.GetAll<GraphSlot>([&] {
    GraphSlot slot;
    slot.variable = in.Get<int32_t>();
    slot.name = in.GetText();
    slot.node = in.Get<int32_t>();
    return slot;
  });
  node.is_empty = in.Get<uint8_t>() != 0;
  return node;
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
  out.Put<uint64_t>(graph.nodes.size());
  for (const GraphNode& node : graph.nodes) {
    out.Put(node.parent);
    out.Put(node.optimizer);
    out.PutText(node.name);
    out.Put<uint64_t>(node.children.size());
    for (const GraphChild& child : node.children) {
      out.PutText(child.name);
      out.Put(child.node);
    }
    out.Put<uint64_t>(node.attributes.size());
    for (const GraphAttribute& attribute : node.attributes) {
      PutAttribute(out, attribute);
    }
    out.Put<uint64_t>(node.slots.size());
    for (const GraphSlot& slot : node.slots) {
      out.Put(slot.variable);
      out.PutText(slot.name);
      out.Put(slot.node);
    }
    out.Put<uint8_t>(node.is_empty);
  }
  return out.Take();
}

StatusOr<ObjectGraph> DecodeGraph(std::string_view bytes) {
  WireReader in(bytes);
  ObjectGraph graph;
  graph.nodes = in.GetAll<GraphNode>([&] { return GetNode(in); });
  if (!in.ok() || !in.done()) {
    return absl::DataLossError(
        "read object graph \"\": the bytes end early or late");
  }
  if (Status status = CheckAttributes(graph); !status.ok()) return status;
  if (Status status = CheckGraph(graph); !status.ok()) return status;
  return graph;
}

uint64_t GraphFingerprint(const ObjectGraph& graph) {
  return Fingerprint(EncodeGraph(graph));
}

}  // namespace belay
