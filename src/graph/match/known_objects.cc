#include "graph/match/known_objects.h"

#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "base/text.h"
#include "graph/finder.h"

namespace belay {
namespace {

// Pairs the nodes of two graphs along edges of one name.
class Pairing {
 public:
  Pairing(const KnownObjects& before, const LiveGraph& live)
      : before_(before), live_(live), known_(live.ids.size(), -1) {}

  std::vector<bool> Run() {
    if (!before_.ids.empty()) Pair(0, 0);
    for (size_t i = 0; i < queue_.size(); ++i) PairChildren(queue_[i]);
    const std::vector<int32_t> holders = queue_;
    for (const int32_t optimizer : holders) PairSlots(optimizer);
    std::vector<bool> is_known;
    for (const int32_t node : known_) is_known.push_back(node >= 0);
    return is_known;
  }

 private:
  const GraphNode& Before(int32_t live) const {
    return before_.graph.nodes[At(known_[At(live)])];
  }

  void Pair(int32_t before, int32_t live) {
    const ObjectId& old = before_.ids[At(before)];
    const ObjectId& now = live_.ids[At(live)];
    // What has no address is known by the path alone.
    const bool is_same =
        old == now || (old.address == nullptr && now.address == nullptr);
    if (!is_same || known_[At(live)] >= 0) return;
    known_[At(live)] = before;
    queue_.push_back(live);
  }

  void PairChildren(int32_t live) {
    Finder<GraphChild> finder(Before(live).children);
    const auto& children = live_.graph.nodes[At(live)].children;
    for (size_t i = 0; i < children.size(); ++i) {
      const GraphChild* old = finder.Find(children[i].name, i);
      if (old != nullptr) Pair(old->node, children[i].node);
    }
  }

  void PairSlots(int32_t optimizer) {
    using VariableName = std::pair<int32_t, absl::string_view>;
    absl::flat_hash_map<VariableName, int32_t> slots;
    for (const GraphSlot& slot : Before(optimizer).slots) {
      slots.emplace(VariableName(slot.variable, AbslView(slot.name)),
                    slot.node);
    }
    for (const GraphSlot& slot : live_.graph.nodes[At(optimizer)].slots) {
      const auto old = slots.find(
          VariableName(known_[At(slot.variable)], AbslView(slot.name)));
      if (old != slots.end()) Pair(old->second, slot.node);
    }
  }

  const KnownObjects& before_;
  const LiveGraph& live_;
  std::vector<int32_t> known_;  // by live node: the node before, or -1
  std::vector<int32_t> queue_;  // live nodes as they were paired
};

}  // namespace

KnownObjects KnownObjectsOf(const LiveGraph& live) {
  KnownObjects known{.graph = {}, .ids = live.ids};
  for (const GraphNode& node : live.graph.nodes) {
    known.graph.nodes.push_back({.parent = node.parent,
                                 .optimizer = node.optimizer,
                                 .name = node.name,
                                 .children = node.children,
                                 .attributes = {},
                                 .slots = node.slots});
  }
  return known;
}

std::vector<bool> FindKnown(const KnownObjects& before, const LiveGraph& live) {
  return Pairing(before, live).Run();
}

}  // namespace belay
