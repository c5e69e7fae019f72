#include "graph/live_graph.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "belay/arrays/tensor.h"
#include "belay/extend/state.h"
#include "belay/sharded_variable.h"
#include "core/catch_exceptions.h"
#include "core/layout.h"
#include "core/status_macros.h"
#include "core/wire.h"
#include "plan/stored_objects.h"
#include "state/state.h"
#include "state/strides_and_ghosts.h"
#include "state/type_handlers.h"
#include "state/value_listing.h"

namespace belay {
namespace {

// Returns whether the memory is an object, such as a vector, rather than an
// address.
bool IsObject(const Memory& memory) { return memory.id.address != memory.data; }

// Keeps the address that the function has returned. The owner describes itself
// anew for each save and restore, and the function may not outlive this
// description.
void StayWhereFound(Shard& shard) {
  shard.object = nullptr;
  shard.access = nullptr;
  shard.object_elements = -1;
}

// Returns the id of an array. A shorter array may begin at the same address, so
// the id includes the shape.
ObjectId ArrayId(const Memory& memory, const Shape& shape) {
  ObjectId id = memory.id;
  if (IsObject(memory)) return id;
  for (const int64_t length : shape) {
    id.type = id.type * 0x9e3779b97f4a7c15 + static_cast<uint64_t>(length) + 1;
  }
  return id;
}

}  // namespace

TrackedValue::TrackedValue(std::string& text)
    : id_(IdOf(text)), object_(RefTo(text)), text_(&text) {}

TrackedValue::TrackedValue(Tensor& tensor)
    : TrackedValue(tensor.shape(),
                   Memory(tensor.data(), tensor.dtype(), tensor.num_elements(),
                          IdOf(tensor))) {
  object_ = RefTo(tensor);
}

TrackedValue::TrackedValue(ShardedVariable& variable)
    : id_(IdOf(variable)),
      object_(RefTo(variable)),
      dtype_(variable.dtype()),
      global_shape_(variable.shape()),
      variable_(&variable) {}

TrackedValue::TrackedValue(const Shape& shape, const Memory& memory)
    : dtype_(memory.dtype),
      global_shape_(shape),
      pieces_({{.box = WholeBox(shape), .memory = memory}}),
      whole_(true) {}

TrackedValue::TrackedValue(const Layout& layout, const Shape& global_shape,
                           const Memory& memory)
    : TrackedValue(global_shape, memory) {
  layout_ = layout;
  whole_ = false;
}

TrackedValue::TrackedValue(const Shape& global_shape, const Box& box,
                           const Memory& memory)
    : dtype_(memory.dtype),
      global_shape_(global_shape),
      pieces_({{.box = box, .memory = memory}}) {}

TrackedValue FromRank0(TrackedValue value) {
  value.from_rank0_ = true;
  value.object_ = {};  // a handler would list different shards
  return value;
}

TrackedValue& TrackedValue::AddPiece(const Box& box, const Memory& memory) {
  pieces_.push_back({.box = box, .memory = memory});
  return *this;
}

StatusOr<Box> TrackedValue::BoxOf(const Piece& piece, int rank) const {
  if (!layout_.has_value()) return piece.box;
  return layout_->LocalBox(global_shape_, rank);
}

ObjectId TrackedValue::id(int rank) const {
  ObjectId empty = id_;
  for (const Piece& piece : pieces_) {
    const StatusOr<Box> box = BoxOf(piece, rank);
    if (!box.ok() || !IsEmpty(*box)) {
      return ArrayId(piece.memory, global_shape_);
    }
    // Without elements, a pointer identifies nothing.
    if (empty.address == nullptr && IsObject(piece.memory)) {
      empty = piece.memory.id;
    }
  }
  return empty;
}

std::string TrackedValue::LayoutText() const {
  return layout_.has_value() ? layout_->ToString() : "";
}

Status TrackedValue::List(std::string_view key, int rank, State& state) const {
  if (text_ != nullptr) {
    AddShard(state, {.key = std::string(key),
                     .dtype = DType::kString,
                     .replica = State::kReplicaIsRank,
                     .text = text_,
                     .is_const = is_const_,
                     .from_rank0 = from_rank0_});
    return state.status();
  }
  if (from_rank0_ && !whole_) {
    return absl::InvalidArgumentError(
        Cat("add \"", key,
            "\": FromRank0 is for values that every rank holds whole, and this "
            "one is in pieces"));
  }
  if (variable_ != nullptr) {
    if (variable_->components().empty()) {
      state.AddShardedVariable(key, *variable_);  // reports the error
    }
    for (Shard& shard : ShardsOfVariable(key, *variable_)) {
      AddShard(state, std::move(shard));
    }
    return state.status();
  }
  const auto named = [&](const Status& cause) {
    return AddPrefix(cause, "add \"", key, "\"");
  };
  for (const Piece& piece : pieces_) {
    const Memory& memory = piece.memory;
    StatusOr<Box> box = BoxOf(piece, rank);
    if (!box.ok()) return named(box.status());
    Shard shard{.key = std::string(key),
                .dtype = memory.dtype,
                .global_shape = global_shape_,
                .box = *std::move(box),
                .layout = LayoutText(),
                .is_const = is_const_,
                .from_rank0 = from_rank0_};
    if (whole_) shard.replica = State::kReplicaIsRank;
    if (layout_.has_value()) shard.replica = layout_->Replica(rank);
    Status status = CheckBox(shard.box, global_shape_);
    if (status.ok()) status = SetMemory(memory, shard);
    if (!status.ok()) return named(status);
    if (memory.function != nullptr) StayWhereFound(shard);
    if (takes_length_) shard.object_elements = -1;
    AddShard(state, std::move(shard));
  }
  return state.status();
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

bool HasElements(const LiveGraph& live) {
  for (const LiveValue& value : live.values) {
    for (const Shard& shard : value.shards) {
      if (!IsEmpty(shard.box)) return true;
    }
  }
  return false;
}

}  // namespace

// Builds the graph from the calls of Trackers. Nodes get their numbers when
// they are first named, and describe themselves in the order of their numbers,
// which is breadth-first.
class GraphBuilder {
 public:
  GraphBuilder(int rank, int num_ranks,
               std::shared_ptr<const HandlerTable> handlers)
      : rank_(rank), num_ranks_(num_ranks), handlers_(std::move(handlers)) {}

  StatusOr<LiveGraph> Build(ObjectRef root,
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

  // Called by the Tracker of the object that describes itself.
  int rank() const { return rank_; }
  void AddValue(std::string_view name, const TrackedValue& value) {
    if (!IsGoodName(name, "value")) return;
    // A handler takes precedence even if the value does not need one.
    const ValueRef& object = value.object();
    if (object.address != nullptr &&
        AddWithHandler({std::string(name), object, nullptr, /*shard=*/0})) {
      return;
    }
    GraphAttribute attribute{
        .name = std::string(name),
        .key = AttributeKey(object_names_[At(current_)], name),
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

  void AddHandled(std::string_view name, const ValueRef& value,
                  TypeHandlerPtr handler) {
    if (!IsGoodName(name, "value")) return;
    AddWithHandler({std::string(name), value, std::move(handler)});
  }

  void AddRows(std::string_view name, Shard shard) {
    if (!IsGoodName(name, "value")) return;
    shard.key = AttributeKey(object_names_[At(current_)], name);
    State state;
    AddShard(state, shard);
    if (!state.status().ok()) {
      mistakes_.emplace_back(state.status().message());
      return;
    }
    // Shapes differ between ranks, and none is the shape of the stored array.
    AddAttribute({.name = std::string(name),
                  .key = shard.key,
                  .typestr = std::string(kRowsTypestr)},
                 {.shards = {shard}});
  }

  void AddOpaque(std::string_view name, OpaqueState state) {
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

  void AddChild(std::string_view name, ObjectRef object) {
    if (!IsGoodName(name, "child")) return;
    // Follow it now: the pointer may be a local variable of the description.
    object.Follow(rank_);
    if (object.is_null()) {
      return Mistake(current_, Cat("child \"", name, "\" is null"));
    }
    if (in_slot_) {
      slot_has_children_ = true;
      return Mistake(current_,
                     Cat("a slot cannot have children, as \"", name, "\""));
    }
    const auto known = object.id().address == nullptr
                           ? nodes_.end()
                           : nodes_.find(object.id());
    int32_t child = 0;
    if (known != nodes_.end()) {
      child = known->second;
    } else {
      if (lengths_[At(current_)] >= kMaxPathElements) {
        return Mistake(0, absl::StrFormat(
                              "a path has too many elements (need at most %d): "
                              "do functions describe each other in circles?",
                              kMaxPathElements));
      }
      std::string object_name =
          ChildObjectName(object_names_[At(current_)], name);
      child = AddNode({.parent = current_, .name = std::string(name)},
                      std::move(object), std::move(object_name));
    }
    at().children.push_back({.name = std::string(name), .node = child});
  }

  void AddSlot(std::string_view name, ObjectRef variable, ObjectRef slot) {
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

 private:
  struct NamedSlot {
    int32_t optimizer = 0;
    std::string name;
    ObjectRef variable;
    ObjectRef slot;
  };

  GraphNode& at() { return live_.graph.nodes[At(current_)]; }
  int32_t AddNode(GraphNode node, ObjectRef object, std::string object_name) {
    const auto number = static_cast<int32_t>(objects_.size());
    node.is_empty = object.is_empty();
    ObjectId id = object.id();
    if (id.address == nullptr) {
      id.type = Fingerprint(object_name);
    } else {
      nodes_.emplace(id, number);
    }
    const int length = number == 0 ? 0 : lengths_[At(node.parent)] + 1;
    live_.graph.nodes.push_back(std::move(node));
    live_.ids.push_back(id);
    objects_.push_back(std::move(object));
    object_names_.push_back(std::move(object_name));
    lengths_.push_back(length);
    return number;
  }

  void Describe(int32_t node) {
    current_ = node;
    live_.first_value.push_back(live_.values.size());
    // The function may hold the only reference to the object.
    const ObjectRef object = std::exchange(objects_[At(node)], ObjectRef());
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

  // Adds a value if it has a handler. Returns true if it has one.
  bool AddWithHandler(TypedValue value) {
    const std::string name = std::move(value.key);
    value.key = AttributeKey(object_names_[At(current_)], name);
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
    // With an empty typestr, the stored type depends on what the value holds.
    AddAttribute({.name = name,
                  .key = value.key,
                  .typestr = typestr->empty() ? "any" : *std::move(typestr)},
                 {.handled = value.value, .handler = std::move(value.handler)});
    return true;
  }

  void AddAttribute(GraphAttribute attribute, LiveValue value) {
    value.node = current_;
    value.attribute = static_cast<int32_t>(at().attributes.size());
    live_.values.push_back(std::move(value));
    at().attributes.push_back(std::move(attribute));
  }

  void Attach(const std::vector<Attached>& attached) {
    for (const auto& [name, given] : attached) {
      ObjectRef object = given;
      object.Follow(rank_);
      const auto found =
          std::find_if(at().children.begin(), at().children.end(),
                       [&name = name](const GraphChild& child) {
                         return child.name == name;
                       });
      if (found == at().children.end()) {
        AddChild(name, std::move(object));
        continue;
      }
      const GraphNode& child = live_.graph.nodes[At(found->node)];
      // Only other ranks can tell whether two empty objects are the same.
      if (child.is_empty && object.is_empty()) continue;
      if (object.is_null() || object.id().address == nullptr ||
          live_.ids[At(found->node)] != object.id()) {
        Mistake(0,
                Cat("the root has another child named \"", name, "\" already"));
      }
    }
  }

  // Returns true if the slot is left to other ranks, which know the variable.
  bool LeaveOut(const NamedSlot& named) {
    const StatusOr<LiveGraph> variable = TrackObjects(named.variable, rank_);
    const StatusOr<LiveGraph> slot = TrackObjects(named.slot, rank_);
    for (const Status& status : {variable.status(), slot.status()}) {
      if (status.ok()) continue;
      Mistake(named.optimizer, Cat("slot \"", named.name,
                                   "\": ", std::string(status.message())));
      return true;
    }
    const auto names = EmptyLike(variable->graph.nodes[0].attributes[0]);
    if (names.empty()) return false;
    if (HasElements(*slot)) {
      Mistake(
          named.optimizer,
          Cat("slot \"", named.name, "\" has elements on rank ", rank_,
              ", but its variable has none there, so nothing tells whether ",
              "it is ", absl::StrJoin(names, " or "),
              ": give the variable as an object, such as a vector"));
    }
    return true;
  }

  // Returns the node of a slot's variable, or -1.
  int32_t FindVariable(const NamedSlot& slot) {
    const auto variable = nodes_.find(slot.variable.id());
    if (variable == nodes_.end() || slot.variable.id().address == nullptr) {
      Mistake(slot.optimizer, Cat("slot \"", slot.name,
                                  "\" is for a variable that is not a child "
                                  "of any object"));
      return -1;
    }
    return variable->second;
  }

  // Returns the names of the empty objects with a value of this dtype and
  // shape.
  std::vector<std::string> EmptyLike(const GraphAttribute& value) const {
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

  void NumberSlots() {
    // `node` is an index into slots_ until the slots have nodes.
    for (size_t i = 0; i < slots_.size(); ++i) {
      if (slots_[i].variable.is_empty() && LeaveOut(slots_[i])) continue;
      const int32_t variable = FindVariable(slots_[i]);
      if (variable < 0) continue;
      live_.graph.nodes[static_cast<size_t>(slots_[i].optimizer)]
          .slots.push_back({.variable = variable,
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
        MakeSlotNode(slots_[At(slot.node)], slot);
      }
      live_.graph.nodes[i].slots = std::move(slots);
    }
  }

  void MakeSlotNode(const NamedSlot& named, GraphSlot& slot) {
    if (named.slot.id().address != nullptr &&
        nodes_.contains(named.slot.id())) {
      return Mistake(named.optimizer,
                     Cat("slot \"", named.name,
                         "\" is an object that has another path as well: ",
                         PrettyName(live_.graph, nodes_.at(named.slot.id()))));
    }
    slot.node =
        AddNode({.parent = slot.variable,
                 .optimizer = named.optimizer,
                 .name = named.name},
                named.slot,
                SlotObjectName(object_names_[At(slot.variable)],
                               object_names_[At(named.optimizer)], named.name));
    Describe(slot.node);
    CheckNames(slot.node);
  }

  void CheckNames(int32_t node) {
    const GraphNode& checked = live_.graph.nodes[At(node)];
    if (const std::string* name = FindTwice(checked.children)) {
      Mistake(node, Cat("two children are named \"", *name, "\""));
    }
    if (const std::string* name = FindTwice(checked.attributes)) {
      Mistake(node, Cat("two values are named \"", *name, "\""));
    }
  }

  bool IsGoodName(std::string_view name, std::string_view what) {
    if (name.empty()) {
      Mistake(current_, Cat("a ", what, " has an empty name"));
    } else if (name.find('\0') != name.npos) {
      Mistake(current_, Cat("the name of a ", what, " has a NUL byte"));
    } else {
      return true;
    }
    return false;
  }

  void Mistake(int32_t node, std::string_view what) {
    mistakes_.push_back(
        Cat("track \"", PrettyName(live_.graph, node), "\": ", what));
  }

  Status Mistakes() const {
    if (mistakes_.empty()) return absl::OkStatus();
    const std::string text = JoinFirst(mistakes_, kMistakesShown, "; ");
    if (out_of_memory_) return absl::ResourceExhaustedError(text);
    return slot_has_children_ && mistakes_.size() == 1
               ? absl::UnimplementedError(text)
               : absl::InvalidArgumentError(text);
  }

  int rank_;
  int num_ranks_;  // 0: not known
  std::shared_ptr<const HandlerTable> handlers_;
  LiveGraph live_;
  int32_t current_ = 0;
  bool in_slot_ = false;
  bool slot_has_children_ = false;
  bool out_of_memory_ = false;
  std::vector<ObjectRef> objects_;         // per node
  std::vector<std::string> object_names_;  // per node
  std::vector<int> lengths_;               // path length of each node
  absl::flat_hash_map<ObjectId, int32_t> nodes_;
  std::vector<NamedSlot> slots_;
  std::vector<std::string> mistakes_;
};

void Tracker::Value(std::string_view name, const TrackedValue& value) {
  builder_.AddValue(name, value);
}

void Tracker::RowsShard(std::string_view name, Shard shard) {
  builder_.AddRows(name, std::move(shard));
}

void Tracker::HandledValue(std::string_view name, const ValueRef& value,
                           TypeHandlerPtr handler) {
  builder_.AddHandled(name, value, std::move(handler));
}

void Tracker::Bytes(std::string_view name,
                    std::function<StatusOr<std::string>()> get,
                    std::function<Status(const std::string&)> set) {
  builder_.AddOpaque(
      name, {.get = std::move(get), .set = std::move(set), .bytes = ""});
}

void Tracker::Child(std::string_view name, ObjectRef object) {
  builder_.AddChild(name, std::move(object));
}

void Tracker::Slot(std::string_view name, ObjectRef variable, ObjectRef slot) {
  builder_.AddSlot(name, std::move(variable), std::move(slot));
}

int Tracker::rank() const { return builder_.rank(); }

StatusOr<LiveGraph> TrackObjects(const ObjectRef& root, int rank,
                                 const std::vector<Attached>& attached,
                                 const TypeHandlerRegistry* handlers,
                                 int num_ranks) {
  return GraphBuilder(rank, num_ranks, GetHandlers(handlers))
      .Build(root, attached);
}

std::vector<KeyedValue> OwnKeys(const LiveGraph& live) {
  std::vector<KeyedValue> keys;
  keys.reserve(live.values.size());
  for (size_t i = 0; i < live.values.size(); ++i) {
    keys.push_back({.value = i, .key = live.GetAttribute(live.values[i]).key});
  }
  return keys;
}

State ListValues(const LiveGraph& live, const std::vector<KeyedValue>& values) {
  State state;
  for (const KeyedValue& keyed : values) {
    const LiveValue& value = live.values[keyed.value];
    if (value.handled.address != nullptr) {
      AddValue(state, keyed.key, value.handled, value.handler);
    }
    for (Shard shard : value.shards) {
      shard.key = keyed.key;
      AddShard(state, std::move(shard));
    }
  }
  return state;
}

Status FetchOpaqueStates(LiveGraph& live) {
  for (LiveValue& value : live.values) {
    if (value.opaque == nullptr) continue;
    OpaqueState& opaque = *value.opaque;
    StatusOr<std::string> bytes = CatchExceptions(opaque.get);
    if (!bytes.ok()) {
      return AddPrefix(bytes.status(), "fetch state \"",
                       live.GetAttribute(value).key, "\"");
    }
    opaque.bytes = *std::move(bytes);
  }
  return absl::OkStatus();
}

Status HandOverOpaqueStates(const LiveGraph& live,
                            const std::vector<KeyedValue>& values) {
  for (const KeyedValue& keyed : values) {
    const OpaqueState* opaque = live.values[keyed.value].opaque.get();
    if (opaque == nullptr) continue;
    BELAY_RETURN_IF_ERROR(AddPrefix(
        CatchExceptions([opaque] { return opaque->set(opaque->bytes); }),
        "hand over state \"", keyed.key, "\""));
  }
  return absl::OkStatus();
}

}  // namespace belay
