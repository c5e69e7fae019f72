#include "graph/merge.h"

#include <algorithm>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "core/status_macros.h"
#include "core/text.h"

namespace belay {
namespace {

// Adds an array to the object that its key names. Returns false if there is no
// such object.
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
    nodes.emplace(AttributeKey(names[i], ""), i);  // the prefix of its keys
  }
  for (const MadeArray& made : plan.made) {
    if (!AddMade(made, nodes, graph)) return std::nullopt;
  }
  return graph;
}

// --- Merge ---

namespace {

constexpr size_t kConflictsShown = 10;
constexpr size_t kRanksShown = 4;

struct Member {
  int32_t graph = 0;
  int32_t node = 0;
};

// Groups the nodes of several graphs into classes, by union-find. Two nodes are
// one object if one path leads to both, or if edges with the same name lead to
// them from one class. Slots are one object if name, class of the variable and
// class of the optimizer are the same.
class PathClasses {
 public:
  // Borrows the graphs.
  explicit PathClasses(std::vector<const ObjectGraph*> graphs)
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
    // The empty path leads to all roots; the rest follows from that.
    for (size_t g = 1; g < graphs_.size(); ++g) Unite(first_[0], first_[g]);
    for (size_t i = 0; i < members_.size(); ++i) {
      for (const GraphChild& child : NodeAt(i).children) {
        AddEdge(static_cast<int32_t>(i), AbslView(child.name),
                FindIndex(members_[i].graph, child.node));
      }
      Settle();
    }
    UniteSlots();
  }

  // Returns the class of a node: the number of one of its members.
  int32_t Find(Member member) {
    return Leader(FindIndex(member.graph, member.node));
  }

  // Returns the members of a class, by graph and node.
  std::vector<Member> ListMembers(int32_t leader) const {
    std::vector<int32_t> numbers = {leader};
    for (int32_t i = next_[At(leader)]; i != leader; i = next_[At(i)]) {
      numbers.push_back(i);
    }
    std::sort(numbers.begin(), numbers.end());
    std::vector<Member> members;
    for (const int32_t i : numbers) members.push_back(members_[At(i)]);
    return members;
  }

 private:
  using Edges = absl::flat_hash_map<absl::string_view, int32_t>;

  int32_t FindIndex(int32_t graph, int32_t node) const {
    return first_[At(graph)] + node;
  }
  const GraphNode& NodeAt(size_t i) const {
    return graphs_[At(members_[i].graph)]->nodes[At(members_[i].node)];
  }

  int32_t Leader(int32_t i) {
    while (leader_[At(i)] != i) {
      leader_[At(i)] = leader_[At(leader_[At(i)])];
      i = leader_[At(i)];
    }
    return i;
  }

  // Edges with the same name from one class lead to one class.
  void AddEdge(int32_t from, absl::string_view name, int32_t to) {
    const auto [edge, is_new] = edges_[At(Leader(from))].emplace(name, to);
    if (!is_new) Unite(edge->second, to);
  }

  void Unite(int32_t a, int32_t b) { pending_.emplace_back(a, b); }

  // Uniting two classes may require uniting more.
  void Settle() {
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

  void UniteSlots() {
    using OptimizerVariableName =
        std::tuple<int32_t, int32_t, absl::string_view>;
    absl::flat_hash_map<OptimizerVariableName, int32_t> slots;
    for (size_t i = 0; i < members_.size(); ++i) {
      for (const GraphSlot& slot : NodeAt(i).slots) {
        const int32_t graph = members_[i].graph;
        const int32_t node = FindIndex(graph, slot.node);
        const auto [same, is_new] = slots.emplace(
            OptimizerVariableName(Leader(static_cast<int32_t>(i)),
                                  Leader(FindIndex(graph, slot.variable)),
                                  AbslView(slot.name)),
            node);
        if (!is_new) Unite(same->second, node);
      }
    }
    Settle();
  }

  std::vector<const ObjectGraph*> graphs_;
  std::vector<int32_t> first_;   // the first member of each graph
  std::vector<Member> members_;  // all nodes of all graphs
  std::vector<int32_t> leader_;  // the leader, or a member on the way to it
  std::vector<int32_t> next_;    // the next member of the class, in a ring
  std::vector<Edges> edges_;     // per leader
  std::vector<std::pair<int32_t, int32_t>> pending_;
};

// A graph that some ranks have.
struct Source {
  const ObjectGraph* graph = nullptr;
  std::vector<int> ranks;
  std::vector<int32_t> merged;  // the number of each node in the union
};

std::vector<const ObjectGraph*> ListGraphs(const std::vector<Source>& sources) {
  std::vector<const ObjectGraph*> graphs;
  for (const Source& source : sources) graphs.push_back(source.graph);
  return graphs;
}

std::string RanksText(std::vector<int> ranks) {
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return NameRanks(ranks, kRanksShown);
}

// Returns the node to which a path leads, or -1.
int32_t FindNode(const ObjectGraph& graph,
                 const std::vector<std::string>& path) {
  int32_t node = 0;
  for (const std::string& element : path) {
    const auto& children = graph.nodes[At(node)].children;
    const auto child =
        std::find_if(children.begin(), children.end(),
                     [&](const auto& c) { return c.name == element; });
    if (child == children.end()) return -1;
    node = child->node;
  }
  return node;
}

class Merger {
 public:
  explicit Merger(std::vector<Source> sources)
      : sources_(std::move(sources)), classes_(ListGraphs(sources_)) {}

  StatusOr<ObjectGraph> Run() {
    NumberClass(classes_.Find({0, 0}), {});
    for (size_t i = 0; i < merged_.nodes.size(); ++i) AddChildren(i);
    const size_t num_objects = merged_.nodes.size();
    for (size_t i = 0; i < num_objects; ++i) AddSlots(i);
    names_ = ObjectNames(merged_);
    for (size_t i = 0; i < merged_.nodes.size(); ++i) AddAttributes(i);
    if (conflicts_.empty()) return std::move(merged_);
    return absl::InvalidArgumentError(
        absl::StrCat("merge object graphs \"(root)\": ",
                     JoinFirst(conflicts_, kConflictsShown, "; ")));
  }

  const std::vector<Source>& sources() const { return sources_; }
  const std::vector<std::string>& names() const { return names_; }

 private:
  Source& GetSource(Member member) { return sources_[At(member.graph)]; }
  const GraphNode& GetNode(Member member) {
    return GetSource(member).graph->nodes[At(member.node)];
  }

  // Returns the merged node of a class. Adds `node` if the class has none.
  int32_t NumberClass(int32_t leader, GraphNode node) {
    const auto number = static_cast<int32_t>(merged_.nodes.size());
    const auto [found, is_new] = numbers_.emplace(leader, number);
    if (!is_new) return found->second;
    const bool parent_is_split = node.parent >= 0 && is_split_[At(node.parent)];
    merged_.nodes.push_back(std::move(node));
    members_.push_back(classes_.ListMembers(leader));
    for (const Member& member : members_.back()) {
      Source& source = GetSource(member);
      source.merged.resize(source.graph->nodes.size(), -1);
      source.merged[At(member.node)] = number;
    }
    is_split_.push_back(IsSplit(members_.back(), !parent_is_split));
    return number;
  }

  // Returns true if one object of some ranks is two objects on another rank.
  // Ranks on which the object is empty cannot tell.
  bool IsSplit(const std::vector<Member>& members, bool report) {
    const Member* last = nullptr;
    for (const Member& member : members) {
      if (GetNode(member).is_empty) continue;
      if (last != nullptr && last->graph == member.graph) {
        if (report) ReportSplit(members, *last, member);
        return true;
      }
      last = &member;
    }
    return false;
  }

  void ReportSplit(const std::vector<Member>& members, Member a, Member b) {
    const Source& split = GetSource(a);
    const auto path_a = PathElements(*split.graph, a.node);
    const auto path_b = PathElements(*split.graph, b.node);
    std::vector<int> sharing;
    std::vector<int> others;  // only their paths together make it one object
    for (const Member& member : members) {
      const Source& source = GetSource(member);
      const int32_t node = FindNode(*source.graph, path_a);
      const bool shares = node >= 0 && node == FindNode(*source.graph, path_b);
      std::vector<int>& to = shares ? sharing : others;
      if (member.graph == a.graph) continue;
      to.insert(to.end(), source.ranks.begin(), source.ranks.end());
    }
    conflicts_.push_back(
        Cat("\"", PrettyName(*split.graph, a.node), "\" and \"",
            PrettyName(*split.graph, b.node), "\" are two objects on ",
            RanksText(split.ranks), ", and one object ",
            sharing.empty() ? Cat("by the paths of ", RanksText(others))
                            : Cat("on ", RanksText(sharing))));
  }

  void AddChildren(size_t i) {
    const std::vector<Member> members = members_[i];
    absl::flat_hash_set<absl::string_view> named;
    for (const Member& member : members) {
      for (const GraphChild& child : GetNode(member).children) {
        if (!named.emplace(AbslView(child.name)).second) continue;
        const int32_t to = NumberClass(
            classes_.Find({member.graph, child.node}),
            {.parent = static_cast<int32_t>(i), .name = child.name});
        merged_.nodes[i].children.push_back({child.name, to});
      }
    }
  }

  void AddSlots(size_t i) {
    // Until the slots are sorted, `node` is their class.
    std::vector<GraphSlot> slots;
    absl::flat_hash_set<int32_t> known;
    for (const Member& member : members_[i]) {
      const Source& source = GetSource(member);
      for (const GraphSlot& slot : GetNode(member).slots) {
        const int32_t leader = classes_.Find({member.graph, slot.node});
        if (!known.insert(leader).second) continue;
        slots.push_back({.variable = source.merged[At(slot.variable)],
                         .name = slot.name,
                         .node = leader});
      }
    }
    SortSlots(slots);
    for (GraphSlot& slot : slots) {
      slot.node = NumberClass(slot.node, {.parent = slot.variable,
                                          .optimizer = static_cast<int32_t>(i),
                                          .name = slot.name});
    }
    merged_.nodes[i].slots = std::move(slots);
  }

  void AddAttributes(size_t i) {
    std::vector<GraphAttribute>& attributes = merged_.nodes[i].attributes;
    named_.clear();
    std::vector<int32_t> graphs;  // the graph that each attribute came from
    for (const Member& member : members_[i]) {
      for (const GraphAttribute& attribute : GetNode(member).attributes) {
        const auto [same, is_new] =
            named_.emplace(AbslView(attribute.name), attributes.size());
        if (is_new) {
          attributes.push_back(attribute);
          attributes.back().key = AttributeKey(names_[i], attribute.name);
          graphs.push_back(member.graph);
        } else if (graphs[same->second] != member.graph ||
                   GetNode(member).is_empty) {
          MergeAttribute(attributes[same->second], graphs[same->second],
                         attribute, member.graph);
        }
      }
    }
  }

  void MergeAttribute(GraphAttribute& merged, int32_t from,
                      const GraphAttribute& attribute, int32_t graph) {
    if (merged.layout.empty()) merged.layout = attribute.layout;
    if (merged.dtype == attribute.dtype && merged.shape == attribute.shape &&
        merged.opaque == attribute.opaque &&
        merged.typestr == attribute.typestr) {
      return;
    }
    const auto text = [this](const GraphAttribute& a, int32_t of) {
      const std::string ranks = RanksText(sources_[At(of)].ranks);
      if (a.has_handler()) return Cat("of type ", a.typestr, " on ", ranks);
      return Cat(a.opaque ? "opaque bytes" : DTypeName(a.dtype), " ",
                 ShapeText(a.shape), " on ", ranks);
    };
    conflicts_.push_back(Cat("\"", merged.key, "\" is ", text(merged, from),
                             " and ", text(attribute, graph)));
  }

  std::vector<Source> sources_;
  PathClasses classes_;
  ObjectGraph merged_;
  std::vector<std::string> names_;                        // per merged node
  std::vector<std::vector<Member>> members_;              // per merged node
  std::vector<bool> is_split_;                            // per merged node
  absl::flat_hash_map<absl::string_view, size_t> named_;  // a node's attributes
  absl::flat_hash_map<int32_t, int32_t> numbers_;         // per class
  std::vector<std::string> conflicts_;
};

using Renames = std::vector<std::pair<std::string, std::string>>;

// Returns the keys of a source that differ in the union.
Renames FindRenames(const Source& source,
                    const std::vector<std::string>& merged_names) {
  const std::vector<std::string> names = ObjectNames(*source.graph);
  Renames renames;
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string& merged_name = merged_names[At(source.merged[i])];
    if (merged_name == names[i]) continue;
    for (const auto& attribute : source.graph->nodes[i].attributes) {
      renames.emplace_back(attribute.key,
                           AttributeKey(merged_name, attribute.name));
    }
  }
  return renames;
}

}  // namespace

StatusOr<MergedGraph> MergeGraphs(const std::vector<RankGraph>& ranks) {
  std::vector<Source> sources;
  std::vector<size_t> source_of;  // per element of `ranks`
  absl::flat_hash_map<const ObjectGraph*, size_t> known;
  for (const RankGraph& rank : ranks) {
    const auto [same, is_new] = known.emplace(rank.graph, sources.size());
    if (is_new) sources.push_back({.graph = rank.graph});
    sources[same->second].ranks.push_back(rank.rank);
    source_of.push_back(same->second);
  }
  if (sources.empty()) {
    return absl::InvalidArgumentError(
        "merge object graphs \"(root)\": no rank has one");
  }
  MergedGraph merged;
  merged.renames.resize(ranks.size());
  if (sources.size() == 1) {
    merged.graph = *sources[0].graph;
    for (GraphNode& node : merged.graph.nodes) node.is_empty = false;
    return merged;
  }
  Merger merger(std::move(sources));
  BELAY_ASSIGN_OR_RETURN(merged.graph, merger.Run());
  std::vector<Renames> by_source;
  for (const Source& source : merger.sources()) {
    by_source.push_back(FindRenames(source, merger.names()));
  }
  for (size_t i = 0; i < ranks.size(); ++i) {
    merged.renames[i] = by_source[source_of[i]];
  }
  return merged;
}

}  // namespace belay
