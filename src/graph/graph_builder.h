// One object graph from those of all ranks.

#ifndef BELAY_GRAPH_GRAPH_BUILDER_H_
#define BELAY_GRAPH_GRAPH_BUILDER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "graph/live_graph.h"
#include "graph/object_graph.h"
#include "state/type_handlers.h"

namespace belay {

// Which nodes of several object graphs are one object: those to which one path
// leads.

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

// What a Tracker writes to: the graph while it is being made.

// Nodes get their numbers when they are first named, and describe themselves in
// the order of their numbers: that is breadth-first.
class GraphBuilder {
 public:
  // Keeps `handlers`. Arguments as those of TrackObjects.
  GraphBuilder(int rank, int num_ranks,
               std::shared_ptr<const HandlerTable> handlers)
      : rank_(rank), num_ranks_(num_ranks), handlers_(std::move(handlers)) {}

  StatusOr<LiveGraph> Build(ObjectRef root,
                            const std::vector<Attached>& attached);

  // For the Tracker, about the object that describes itself.
  int rank() const { return rank_; }
  void AddValue(std::string_view name, const TrackedValue& value);
  void AddHandled(std::string_view name, const ValueRef& value,
                  TypeHandlerPtr handler);
  void AddRows(std::string_view name, Shard shard);
  void AddOpaque(std::string_view name, OpaqueState state);
  void AddChild(std::string_view name, ObjectRef object);
  void AddSlot(std::string_view name, ObjectRef variable, ObjectRef slot);

 private:
  struct NamedSlot {
    int32_t optimizer = 0;
    std::string name;
    ObjectRef variable;
    ObjectRef slot;
  };

  GraphNode& at() { return live_.graph.nodes[static_cast<size_t>(current_)]; }
  int32_t AddNode(GraphNode node, ObjectRef object, std::string object_name);
  void Describe(int32_t node);
  void Attach(const std::vector<Attached>& attached);
  // The names of the empty objects that have such a value.
  std::vector<std::string> EmptyLike(const GraphAttribute& value) const;
  // Whether a slot of an empty variable is left to the ranks that know which
  // variable it is. They have all of it, or it is a mistake.
  bool LeaveOut(const NamedSlot& named);
  // Returns the node of a slot's variable, or -1.
  int32_t FindVariable(const NamedSlot& slot);
  void NumberSlots();
  void MakeSlotNode(const NamedSlot& named, GraphSlot& slot);
  void CheckNames(int32_t node);
  // Adds a value with its handler, if it has one.
  bool AddWithHandler(TypedValue value);
  void AddAttribute(GraphAttribute attribute, LiveValue value);
  bool IsGoodName(std::string_view name, std::string_view what);
  void Mistake(int32_t node, std::string_view what);
  Status Mistakes() const;

  int rank_;
  int num_ranks_;  // 0: not known
  std::shared_ptr<const HandlerTable> handlers_;
  LiveGraph live_;
  int32_t current_ = 0;
  bool in_slot_ = false;
  bool slot_has_children_ = false;
  bool out_of_memory_ = false;
  std::vector<ObjectRef> objects_;         // by node
  std::vector<std::string> object_names_;  // by node
  std::vector<int> lengths_;               // of the paths, by node
  absl::flat_hash_map<ObjectId, int32_t> nodes_;
  std::vector<NamedSlot> slots_;
  std::vector<std::string> mistakes_;
};

}  // namespace belay

#endif  // BELAY_GRAPH_GRAPH_BUILDER_H_
