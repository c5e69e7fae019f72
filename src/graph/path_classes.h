// Which nodes of several object graphs are one object: those to which one path
// leads. Pure.

#ifndef BELAY_GRAPH_PATH_CLASSES_H_
#define BELAY_GRAPH_PATH_CLASSES_H_

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "graph/object_graph.h"

namespace belay {

// A node of one of the graphs.
struct Member {
  int32_t graph = 0;
  int32_t node = 0;
};

// Nodes in classes. Two nodes are in one class if one path leads to both, and
// therefore if a third node says so: union-find, over the edges as well. A slot
// belongs with the slots of its name, for its variable's class, of its
// optimizer's class.
class PathClasses {
 public:
  // Borrows the graphs. Takes about as long as reading them.
  explicit PathClasses(std::vector<const ObjectGraph*> graphs);

  // The class of a node: the number of one of its members.
  int32_t Find(Member member);
  // The members of a class, by graph and node.
  std::vector<Member> MembersOf(int32_t leader) const;

 private:
  using Edges = absl::flat_hash_map<absl::string_view, int32_t>;

  int32_t Leader(int32_t i);
  int32_t IndexOf(int32_t graph, int32_t node) const {
    return first_[static_cast<size_t>(graph)] + node;
  }
  const GraphNode& NodeAt(size_t i) const;
  void AddEdge(int32_t from, absl::string_view name, int32_t to);
  void Unite(int32_t a, int32_t b);
  void Settle();
  void UniteSlots();

  std::vector<const ObjectGraph*> graphs_;
  std::vector<int32_t> first_;   // by graph
  std::vector<Member> members_;  // all nodes of all graphs
  std::vector<int32_t> leader_;  // of the others: on the way to it
  std::vector<int32_t> next_;    // in its class, a ring
  std::vector<Edges> edges_;     // by leader
  std::vector<std::pair<int32_t, int32_t>> pending_;
};

}  // namespace belay

#endif  // BELAY_GRAPH_PATH_CLASSES_H_
