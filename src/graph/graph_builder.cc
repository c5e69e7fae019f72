#include "graph/graph_builder.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/catch_exceptions.h"
#include "core/layout.h"
#include "core/text.h"
#include "core/wire.h"
#include "plan/stored_objects.h"
#include "state/value_listing.h"

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

// --- Graph builder ---

namespace {

constexpr size_t kMistakesShown = 10;

// Returns the first name that appears twice, or null.
template <typename Named>
const std::string* FindTwice(const std::vector<Named>& all) {
  std::vector<const std::string*> names;
  names.reserve(all.size());
  for (const Named& one : all) names.push_back(&one.name);
  const auto less = [](auto* a, auto* b) { return *a < *b; };
  if (!std::is_sorted(names.begin(), names.end(), less)) {
    std::sort(names.begin(), names.end(), less);
  }
  const auto found = std::adjacent_find(
      names.begin(), names.end(), [](auto* a, auto* b) { return *a == *b; });
  return found == names.end() ? nullptr : *found;
}

// Whether any element of the values is on this rank.
bool HasElements(const LiveGraph& live) {
  for (const LiveValue& value : live.values) {
    for (const Shard& shard : value.shards) {
      if (!IsEmpty(shard.box)) return true;
    }
  }
  return false;
}

}  // namespace

StatusOr<LiveGraph> GraphBuilder::Build(ObjectRef root,
                                        const std::vector<Attached>& attached) {
  root.Follow(rank_);
  if (root.is_null()) {
    return absl::InvalidArgumentError("track \"(root)\": the root is null");
  }
  AddNode({}, std::move(root), "");
  for (size_t i = 0; i < objects_.size(); ++i) {
    Describe(static_cast<int32_t>(i));
    if (i == 0) Attach(attached);
    CheckNames(static_cast<int32_t>(i));
  }
  NumberSlots();
  if (Status status = Mistakes(); !status.ok()) return status;
  return std::move(live_);
}

int32_t GraphBuilder::AddNode(GraphNode node, ObjectRef object,
                              std::string object_name) {
  const auto number = static_cast<int32_t>(objects_.size());
  node.is_empty = object.is_empty();
  ObjectId id = object.id();
  if (id.address == nullptr) {
    id.type = Fingerprint(object_name);
  } else {
    nodes_.emplace(id, number);
  }
  const int length =
      number == 0 ? 0 : lengths_[static_cast<size_t>(node.parent)] + 1;
  live_.graph.nodes.push_back(std::move(node));
  live_.ids.push_back(id);
  objects_.push_back(std::move(object));
  object_names_.push_back(std::move(object_name));
  lengths_.push_back(length);
  return number;
}

void GraphBuilder::Describe(int32_t node) {
  current_ = node;
  live_.first_value.push_back(live_.values.size());
  // Its function may hold the only reference to what it describes with.
  const ObjectRef object =
      std::exchange(objects_[static_cast<size_t>(node)], ObjectRef());
  Tracker tracker(*this);
  const Status status = CatchExceptions([&]() -> Status {
    object.Track(tracker);
    return absl::OkStatus();
  });
  if (status.ok()) return;
  out_of_memory_ = out_of_memory_ || absl::IsResourceExhausted(status);
  Mistake(node,
          Cat("its description threw an ", std::string(status.message())));
}

void GraphBuilder::AddValue(std::string_view name, const TrackedValue& value) {
  if (!IsGoodName(name, "value")) return;
  // A handler for the type of a value that needs none takes precedence.
  const ValueRef& object = value.object();
  if (object.address != nullptr &&
      AddWithHandler({std::string(name), object, nullptr, /*shard=*/0})) {
    return;
  }
  GraphAttribute attribute{
      .name = std::string(name),
      .key = AttributeKey(object_names_[static_cast<size_t>(current_)], name),
      .dtype = value.dtype(),
      .shape = value.global_shape(),
      .layout = value.LayoutText()};
  State state;
  Status status;
  if (num_ranks_ > 0 && value.layout()) {
    status = CheckLayoutOfKey(attribute.key, *value.layout(), num_ranks_);
  }
  status.Update(value.List(attribute.key, rank_, state));
  if (!status.ok()) {
    mistakes_.emplace_back(status.message());
    return;
  }
  AddAttribute(std::move(attribute), {.shards = state.shards()});
}

void GraphBuilder::AddRows(std::string_view name, Shard shard) {
  if (!IsGoodName(name, "value")) return;
  shard.key = AttributeKey(object_names_[static_cast<size_t>(current_)], name);
  State state;
  state.AddShard(shard);
  if (!state.status().ok()) {
    mistakes_.emplace_back(state.status().message());
    return;
  }
  // Ranks have different shapes, and none is that of the array.
  AddAttribute({.name = std::string(name),
                .key = shard.key,
                .typestr = std::string(kRowsTypestr)},
               {.shards = {shard}});
}

void GraphBuilder::AddHandled(std::string_view name, const ValueRef& value,
                              TypeHandlerPtr handler) {
  if (!IsGoodName(name, "value")) return;
  AddWithHandler({std::string(name), value, std::move(handler)});
}

bool GraphBuilder::AddWithHandler(TypedValue value) {
  const std::string name = std::move(value.key);
  value.key = AttributeKey(object_names_[static_cast<size_t>(current_)], name);
  const StatusOr<TypeHandlerPtr> handler = HandlerFor(value, *handlers_);
  if (!handler.ok()) {
    mistakes_.emplace_back(handler.status().message());
    return true;
  }
  if (*handler == nullptr) return false;
  StatusOr<std::string> typestr =
      CatchExceptions([&] { return (*handler)->typestr(); });
  if (!typestr.ok()) {
    Mistake(current_, std::string(typestr.status().message()));
    return true;
  }
  // One that stands for what it holds has no name of its own.
  AddAttribute({.name = name,
                .key = value.key,
                .typestr = typestr->empty() ? "any" : *std::move(typestr)},
               {.handled = value.value, .handler = std::move(value.handler)});
  return true;
}

void GraphBuilder::AddAttribute(GraphAttribute attribute, LiveValue value) {
  value.node = current_;
  value.attribute = static_cast<int32_t>(at().attributes.size());
  live_.values.push_back(std::move(value));
  at().attributes.push_back(std::move(attribute));
}

void GraphBuilder::AddOpaque(std::string_view name, OpaqueState state) {
  if (state.get == nullptr || state.set == nullptr) {
    return Mistake(current_, Cat("a function of \"", name, "\" is null"));
  }
  auto opaque = std::make_unique<OpaqueState>(std::move(state));
  const size_t before = live_.values.size();
  AddValue(name, TrackedValue(opaque->bytes));
  if (live_.values.size() == before) return;
  at().attributes.back().opaque = true;
  live_.values.back().opaque = std::move(opaque);
}

void GraphBuilder::AddChild(std::string_view name, ObjectRef object) {
  if (!IsGoodName(name, "child")) return;
  // Now, since the pointer may be a local variable of the description.
  object.Follow(rank_);
  if (object.is_null()) {
    return Mistake(current_, Cat("child \"", name, "\" is null"));
  }
  if (in_slot_) {
    slot_has_children_ = true;
    return Mistake(current_,
                   Cat("a slot cannot have children, as \"", name, "\""));
  }
  const auto known =
      object.id().address == nullptr ? nodes_.end() : nodes_.find(object.id());
  int32_t child = 0;
  if (known != nodes_.end()) {
    child = known->second;
  } else {
    if (lengths_[static_cast<size_t>(current_)] >= kMaxPathElements) {
      return Mistake(
          0, absl::StrFormat("a path has too many elements (need at most %d): "
                             "do functions describe each other in circles?",
                             kMaxPathElements));
    }
    std::string object_name =
        ChildObjectName(object_names_[static_cast<size_t>(current_)], name);
    child = AddNode({.parent = current_, .name = std::string(name)},
                    std::move(object), std::move(object_name));
  }
  at().children.push_back({.name = std::string(name), .node = child});
}

void GraphBuilder::AddSlot(std::string_view name, ObjectRef variable,
                           ObjectRef slot) {
  if (!IsGoodName(name, "slot")) return;
  variable.Follow(rank_);
  slot.Follow(rank_);
  if (variable.is_null() || slot.is_null()) {
    return Mistake(current_, Cat("slot \"", name, "\" is null, or has a ",
                                 "variable that is null"));
  }
  if (in_slot_) {
    return Mistake(current_,
                   Cat("a slot cannot have slots, as \"", name, "\""));
  }
  slots_.push_back({.optimizer = current_,
                    .name = std::string(name),
                    .variable = std::move(variable),
                    .slot = std::move(slot)});
}

void GraphBuilder::Attach(const std::vector<Attached>& attached) {
  for (const auto& [name, given] : attached) {
    ObjectRef object = given;
    object.Follow(rank_);
    const auto found = std::find_if(
        at().children.begin(), at().children.end(),
        [&name = name](const GraphChild& child) { return child.name == name; });
    if (found == at().children.end()) {
      AddChild(name, std::move(object));
      continue;
    }
    const GraphNode& child =
        live_.graph.nodes[static_cast<size_t>(found->node)];
    // Only other ranks know whether two empty ones are the same.
    if (child.is_empty && object.is_empty()) continue;
    if (object.is_null() || object.id().address == nullptr ||
        live_.ids[static_cast<size_t>(found->node)] != object.id()) {
      Mistake(0,
              Cat("the root has another child named \"", name, "\" already"));
    }
  }
}

bool GraphBuilder::LeaveOut(const NamedSlot& named) {
  const StatusOr<LiveGraph> variable = TrackObjects(named.variable, rank_);
  const StatusOr<LiveGraph> slot = TrackObjects(named.slot, rank_);
  for (const Status& status : {variable.status(), slot.status()}) {
    if (status.ok()) continue;
    Mistake(named.optimizer,
            Cat("slot \"", named.name, "\": ", std::string(status.message())));
    return true;
  }
  const auto names = EmptyLike(variable->graph.nodes[0].attributes[0]);
  if (names.empty()) return false;
  if (HasElements(*slot)) {
    Mistake(named.optimizer,
            Cat("slot \"", named.name, "\" has elements on rank ", rank_,
                ", but its variable has none there, so nothing tells whether ",
                "it is ", absl::StrJoin(names, " or "),
                ": give the variable as an object, such as a vector"));
  }
  return true;
}

int32_t GraphBuilder::FindVariable(const NamedSlot& slot) {
  const auto variable = nodes_.find(slot.variable.id());
  if (variable == nodes_.end() || slot.variable.id().address == nullptr) {
    Mistake(slot.optimizer, Cat("slot \"", slot.name,
                                "\" is for a variable that is not a child "
                                "of any object"));
    return -1;
  }
  return variable->second;
}

std::vector<std::string> GraphBuilder::EmptyLike(
    const GraphAttribute& value) const {
  std::vector<std::string> names;
  for (size_t i = 0; i < live_.graph.nodes.size(); ++i) {
    const GraphNode& node = live_.graph.nodes[i];
    if (!node.is_empty || node.attributes.empty()) continue;
    const GraphAttribute& other = node.attributes[0];
    if (other.dtype != value.dtype || other.shape != value.shape) continue;
    names.push_back(PrettyName(live_.graph, static_cast<int32_t>(i)));
  }
  return names;
}

void GraphBuilder::NumberSlots() {
  // Until the slots have nodes, `node` is the place in slots_.
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].variable.is_empty() && LeaveOut(slots_[i])) continue;
    const int32_t variable = FindVariable(slots_[i]);
    if (variable < 0) continue;
    live_.graph.nodes[static_cast<size_t>(slots_[i].optimizer)].slots.push_back(
        {.variable = variable,
         .name = slots_[i].name,
         .node = static_cast<int32_t>(i)});
  }
  in_slot_ = true;
  const size_t num_objects = live_.graph.nodes.size();
  for (size_t i = 0; i < num_objects; ++i) {
    auto slots = std::move(live_.graph.nodes[i].slots);
    SortSlots(slots);
    const auto twice = std::adjacent_find(
        slots.begin(), slots.end(), [](const auto& a, const auto& b) {
          return a.name == b.name && a.variable == b.variable;
        });
    if (twice != slots.end()) {
      Mistake(static_cast<int32_t>(i),
              Cat("two slots \"", twice->name, "\" for ",
                  PrettyName(live_.graph, twice->variable)));
    }
    for (GraphSlot& slot : slots) {
      MakeSlotNode(slots_[static_cast<size_t>(slot.node)], slot);
    }
    live_.graph.nodes[i].slots = std::move(slots);
  }
}

void GraphBuilder::MakeSlotNode(const NamedSlot& named, GraphSlot& slot) {
  if (named.slot.id().address != nullptr && nodes_.contains(named.slot.id())) {
    return Mistake(named.optimizer,
                   Cat("slot \"", named.name,
                       "\" is an object that has another path as well: ",
                       PrettyName(live_.graph, nodes_.at(named.slot.id()))));
  }
  slot.node = AddNode(
      {.parent = slot.variable,
       .optimizer = named.optimizer,
       .name = named.name},
      named.slot,
      SlotObjectName(object_names_[static_cast<size_t>(slot.variable)],
                     object_names_[static_cast<size_t>(named.optimizer)],
                     named.name));
  Describe(slot.node);
  CheckNames(slot.node);
}

void GraphBuilder::CheckNames(int32_t node) {
  const GraphNode& checked = live_.graph.nodes[static_cast<size_t>(node)];
  if (const std::string* name = FindTwice(checked.children)) {
    Mistake(node, Cat("two children are named \"", *name, "\""));
  }
  if (const std::string* name = FindTwice(checked.attributes)) {
    Mistake(node, Cat("two values are named \"", *name, "\""));
  }
}

bool GraphBuilder::IsGoodName(std::string_view name, std::string_view what) {
  if (name.empty()) {
    Mistake(current_, Cat("a ", what, " has an empty name"));
  } else if (name.find('\0') != name.npos) {
    Mistake(current_, Cat("the name of a ", what, " has a NUL byte"));
  } else {
    return true;
  }
  return false;
}

void GraphBuilder::Mistake(int32_t node, std::string_view what) {
  mistakes_.push_back(
      Cat("track \"", PrettyName(live_.graph, node), "\": ", what));
}

Status GraphBuilder::Mistakes() const {
  if (mistakes_.empty()) return absl::OkStatus();
  const std::string text = FirstOf(mistakes_, kMistakesShown, "; ");
  if (out_of_memory_) return absl::ResourceExhaustedError(text);
  return slot_has_children_ && mistakes_.size() == 1
             ? absl::UnimplementedError(text)
             : absl::InvalidArgumentError(text);
}

}  // namespace belay
