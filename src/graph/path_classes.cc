#include "graph/path_classes.h"

#include <algorithm>
#include <tuple>

#include "base/text.h"

namespace belay {
PathClasses::PathClasses(std::vector<const ObjectGraph*> graphs)
    : graphs_(std::move(graphs)) {
  for (size_t g = 0; g < graphs_.size(); ++g) {
    first_.push_back(static_cast<int32_t>(members_.size()));
    for (size_t i = 0; i < graphs_[g]->nodes.size(); ++i) {
      members_.push_back({static_cast<int32_t>(g), static_cast<int32_t>(i)});
    }
  }
  for (size_t i = 0; i < members_.size(); ++i) {
    leader_.push_back(static_cast<int32_t>(i));
    next_.push_back(static_cast<int32_t>(i));
  }
  edges_.resize(members_.size());
  // The empty path leads to all roots; everything else follows from that.
  for (size_t g = 1; g < graphs_.size(); ++g) Unite(first_[0], first_[g]);
  for (size_t i = 0; i < members_.size(); ++i) {
    for (const GraphChild& child : NodeAt(i).children) {
      AddEdge(static_cast<int32_t>(i), AbslView(child.name),
              IndexOf(members_[i].graph, child.node));
    }
    Settle();
  }
  UniteSlots();
}

const GraphNode& PathClasses::NodeAt(size_t i) const {
  return graphs_[At(members_[i].graph)]->nodes[At(members_[i].node)];
}

int32_t PathClasses::Leader(int32_t i) {
  while (leader_[At(i)] != i) {
    leader_[At(i)] = leader_[At(leader_[At(i)])];
    i = leader_[At(i)];
  }
  return i;
}

int32_t PathClasses::Find(Member member) {
  return Leader(IndexOf(member.graph, member.node));
}

std::vector<Member> PathClasses::MembersOf(int32_t leader) const {
  std::vector<int32_t> numbers = {leader};
  for (int32_t i = next_[At(leader)]; i != leader; i = next_[At(i)]) {
    numbers.push_back(i);
  }
  std::sort(numbers.begin(), numbers.end());
  std::vector<Member> members;
  for (const int32_t i : numbers) members.push_back(members_[At(i)]);
  return members;
}

// An edge of one name from one class leads to one class.
void PathClasses::AddEdge(int32_t from, absl::string_view name, int32_t to) {
  const auto [edge, is_new] = edges_[At(Leader(from))].emplace(name, to);
  if (!is_new) Unite(edge->second, to);
}

void PathClasses::Unite(int32_t a, int32_t b) { pending_.emplace_back(a, b); }

// Uniting may find more to unite.
void PathClasses::Settle() {
  while (!pending_.empty()) {
    int32_t a = Leader(pending_.back().first);
    int32_t b = Leader(pending_.back().second);
    pending_.pop_back();
    if (a == b) continue;
    if (edges_[At(a)].size() < edges_[At(b)].size()) std::swap(a, b);
    leader_[At(b)] = a;
    std::swap(next_[At(a)], next_[At(b)]);
    const Edges moved = std::exchange(edges_[At(b)], {});
    for (const auto& [name, to] : moved) AddEdge(a, name, to);
  }
}

void PathClasses::UniteSlots() {
  using OptimizerVariableName = std::tuple<int32_t, int32_t, absl::string_view>;
  absl::flat_hash_map<OptimizerVariableName, int32_t> slots;
  for (size_t i = 0; i < members_.size(); ++i) {
    for (const GraphSlot& slot : NodeAt(i).slots) {
      const int32_t graph = members_[i].graph;
      const int32_t node = IndexOf(graph, slot.node);
      const auto [same, is_new] = slots.emplace(
          OptimizerVariableName(Leader(static_cast<int32_t>(i)),
                                Leader(IndexOf(graph, slot.variable)),
                                AbslView(slot.name)),
          node);
      if (!is_new) Unite(same->second, node);
    }
  }
  Settle();
}

}  // namespace belay
