#include "graph/live_graph.h"

#include "absl/strings/str_format.h"
#include "belay/arrays/tensor.h"
#include "belay/sharded_variable.h"
#include "core/catch_exceptions.h"
#include "core/text.h"
#include "graph/graph_builder.h"
#include "state/memory_layout.h"

namespace belay {
namespace {

// The error of a user's function, with what it was for.
Status StateError(std::string_view what, std::string_view key,
                  const Status& status) {
  return Status(status.code(), Cat(what, " state \"", key,
                                   "\": ", std::string(status.message())));
}

// Whether the memory is an object, such as a vector, and not just an address.
bool IsObject(const Memory& memory) { return memory.id.address != memory.data; }

// Leaves the elements where their function found them: the owner describes
// itself anew for each save and restore, and its function may be gone by then.
void StayWhereFound(Shard& shard) {
  shard.object = nullptr;
  shard.access = nullptr;
  shard.object_elements = -1;
}

// What an array is known by. A shorter one may begin where it does.
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
  value.object_ = {};  // a handler would list shards of its own
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
    // Where nothing lies, a pointer may be that of anything.
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
    state.AddShard({.key = std::string(key),
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
      state.AddShardedVariable(key, *variable_);  // which is its error
    }
    for (Shard& shard : ShardsOfVariable(key, *variable_)) {
      state.AddShard(std::move(shard));
    }
    return state.status();
  }
  for (const Piece& piece : pieces_) {
    const Memory& memory = piece.memory;
    StatusOr<Box> box = BoxOf(piece, rank);
    if (!box.ok()) {
      return Status(
          box.status().code(),
          Cat("add \"", key, "\": ", std::string(box.status().message())));
    }
    Shard shard{.key = std::string(key),
                .dtype = memory.dtype,
                .global_shape = global_shape_,
                .box = *std::move(box),
                .layout = LayoutText(),
                .is_const = is_const_,
                .from_rank0 = from_rank0_};
    if (whole_) shard.replica = State::kReplicaIsRank;
    if (layout_.has_value()) shard.replica = layout_->Replica(rank);
    if (Status status = CheckBox(shard.box, global_shape_); !status.ok()) {
      return Status(status.code(),
                    Cat("add \"", key, "\": ", std::string(status.message())));
    }
    if (Status status = TakeMemory(memory, shard); !status.ok()) {
      return Status(status.code(),
                    Cat("add \"", key, "\": ", std::string(status.message())));
    }
    if (memory.function != nullptr) StayWhereFound(shard);
    if (takes_length_) shard.object_elements = -1;
    state.AddShard(std::move(shard));
  }
  return state.status();
}

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
  return GraphBuilder(rank, num_ranks, HandlersOf(handlers))
      .Build(root, attached);
}

std::vector<KeyedValue> OwnKeys(const LiveGraph& live) {
  std::vector<KeyedValue> keys;
  keys.reserve(live.values.size());
  for (size_t i = 0; i < live.values.size(); ++i) {
    keys.push_back({.value = i, .key = live.AttributeOf(live.values[i]).key});
  }
  return keys;
}

State ListValues(const LiveGraph& live, const std::vector<KeyedValue>& values) {
  State state;
  for (const KeyedValue& keyed : values) {
    const LiveValue& value = live.values[keyed.value];
    if (value.handled.address != nullptr) {
      state.AddValue(keyed.key, value.handled, value.handler);
    }
    for (Shard shard : value.shards) {
      shard.key = keyed.key;
      state.AddShard(std::move(shard));
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
      return StateError("fetch", live.AttributeOf(value).key, bytes.status());
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
    const Status status =
        CatchExceptions([opaque] { return opaque->set(opaque->bytes); });
    if (!status.ok()) return StateError("hand over", keyed.key, status);
  }
  return absl::OkStatus();
}

}  // namespace belay
