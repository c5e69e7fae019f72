#include "state/state.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "belay/arrays/tensor.h"
#include "belay/sharded_variable.h"
#include "belay/state.h"
#include "core/text.h"
#include "state/strides_and_ghosts.h"

namespace belay {
namespace {

constexpr size_t kMaxAxes = 32;  // HDF5's limit

// A Tensor keeps its shape when it is restored.
constexpr ArrayAccess kTensorAccess = {
    .view = [](void* object) -> ArrayAccess::View {
      auto& tensor = *static_cast<Tensor*>(object);
      return {tensor.data(), tensor.dtype(), tensor.shape()};
    }};

struct ComponentPlace {
  const ShardedVariable* variable;
  DType dtype;
  Shape shape;  // of the variable
  Box box;
};

constexpr ArrayAccess kComponentAccess = {
    .view = [](void* object) -> ArrayAccess::View {
      const auto& place = *static_cast<const ComponentPlace*>(object);
      const ShardedVariable& variable = *place.variable;
      ArrayAccess::View view = {nullptr, place.dtype,
                                Shape{NumElements(place.box.shape)}};
      if (variable.dtype() != place.dtype || variable.shape() != place.shape) {
        return view;
      }
      const Component& component = variable.components()[static_cast<size_t>(
          variable.FindComponent(place.box.offset[0]))];
      if (variable.ComponentBox(component) == place.box) {
        view.data = component.data;
      }
      return view;
    }};

}  // namespace

void State::AddMemory(Shard shard, const Memory& memory) {
  if (const Status status = SetMemory(memory, shard); !status.ok()) {
    AddError(shard.key, status);
  }
  if (memory.function != nullptr) functions_.push_back(memory.function);
  AddShard(std::move(shard));
}

void State::AddShard(Shard shard) {
  if (shard.global_shape.size() > kMaxAxes) {
    AddError(shard.key, absl::InvalidArgumentError(absl::StrFormat(
                            "too many axes (need at most %d, found %d)",
                            kMaxAxes, shard.global_shape.size())));
  }
  if (!IsKnownDType(static_cast<uint8_t>(shard.dtype))) {
    AddError(shard.key, absl::InvalidArgumentError(
                            absl::StrFormat("unknown dtype (found number %d)",
                                            static_cast<int>(shard.dtype))));
  }
  const bool has_memory = shard.dtype == DType::kString
                              ? shard.text != nullptr
                              : shard.data != nullptr || IsEmpty(shard.box);
  if (!has_memory) AddNull(shard.key);
  StateVersion::Change(*this);
  shards_.push_back(std::move(shard));
}

void SetAddress(State& state, size_t number, void* begin) {
  Shard& shard = state.shards_.at(number);
  if (begin == nullptr && !IsEmpty(shard.box)) return state.AddNull(shard.key);
  if (shard.access != nullptr || shard.text != nullptr) {
    return state.AddError(shard.key, absl::InvalidArgumentError(
                                         "it was not added by its address"));
  }
  if (begin != nullptr) {
    shard.data = static_cast<char*>(begin) +
                 shard.object_offset * DTypeSize(shard.dtype);
  }
  StateVersion::Change(state);
}

void State::AddReplicated(std::string_view key, const Shape& shape,
                          const Memory& memory) {
  AddMemory({.key = std::string(key),
             .dtype = memory.dtype,
             .global_shape = shape,
             .box = WholeBox(shape),
             .replica = kReplicaIsRank},
            memory);
}

void State::AddFromRank0(std::string_view key, const Shape& shape,
                         const Memory& memory) {
  const size_t shard = shards_.size(), typed = typed_.size();
  AddReplicated(key, shape, memory);
  SaveFromRank0(shard, typed);
}

void State::SaveFromRank0(size_t first_shard, size_t first_typed) {
  for (size_t i = first_shard; i < shards_.size(); ++i) {
    shards_[i].from_rank0 = true;
  }
  // Handlers would add shards without this setting.
  typed_.erase(typed_.begin() + static_cast<std::ptrdiff_t>(first_typed),
               typed_.end());
}

void State::AddPiece(std::string_view key, const Shape& global_shape,
                     const Box& box, const Memory& memory) {
  AddMemory({.key = std::string(key),
             .dtype = memory.dtype,
             .global_shape = global_shape,
             .box = box},
            memory);
}

void State::AddLaidOut(std::string_view key, const Layout& layout,
                       const Shape& global_shape, int rank,
                       const Memory& memory) {
  // This fails only on ranks outside the mesh. Saves and restores report it.
  if (rank >= layout.mesh().num_ranks()) {
    return AddError(
        key, absl::InvalidArgumentError(absl::StrFormat(
                 "the layout %s is for another number of ranks (need at "
                 "least %d, found %d)",
                 layout.ToString(), rank + 1, layout.mesh().num_ranks())));
  }
  StatusOr<Box> box = layout.LocalBox(global_shape, rank);
  if (!box.ok()) return AddError(key, box.status());
  AddMemory({.key = std::string(key),
             .dtype = memory.dtype,
             .global_shape = global_shape,
             .box = *std::move(box),
             .replica = layout.Replica(rank),
             .layout = layout.ToString()},
            memory);
}

void State::AddFlatRange(std::string_view prefix,
                         const std::vector<FlatPiece>& pieces, int64_t begin,
                         int64_t end, const Memory& memory) {
  if (memory.dtype == DType::kString ||
      !IsKnownDType(static_cast<uint8_t>(memory.dtype))) {
    return AddError(prefix,
                    absl::InvalidArgumentError(absl::StrFormat(
                        "unknown dtype of a flat buffer (found number %d)",
                        static_cast<int>(memory.dtype))));
  }
  if (memory.layout != nullptr) {
    AddError(prefix, absl::InvalidArgumentError(
                         "a flat buffer is dense: it has no MemoryLayout"));
  }
  Shard whole{.global_shape = {std::max<int64_t>(0, end - begin)}};
  whole.box = WholeBox(whole.global_shape);
  if (const Status status = SetMemory(memory, whole); !status.ok()) {
    AddError(prefix, status);
  }
  StatusOr<std::vector<FlatBox>> boxes = BoxesOfFlatRange(pieces, begin, end);
  if (!boxes.ok()) return AddError(prefix, boxes.status());
  if (memory.function != nullptr) functions_.push_back(memory.function);
  for (FlatBox& part : *boxes) {
    const FlatPiece& piece = pieces[part.piece];
    Shard shard = whole;
    shard.key = std::string(prefix) + piece.key;
    shard.dtype = memory.dtype;
    shard.global_shape = piece.global_shape;
    shard.box = std::move(part.box);
    shard.replica = piece.replica;
    shard.object_offset = part.position;
    if (memory.data != nullptr) {
      shard.data = static_cast<char*>(memory.data) +
                   part.position * DTypeSize(memory.dtype);
    }
    AddShard(std::move(shard));
  }
}

void State::AddShardedVariable(std::string_view key,
                               ShardedVariable& variable) {
  if (variable.components().empty() && status_.ok()) {
    status_ = absl::InvalidArgumentError(absl::StrFormat(
        "add \"%s\": the variable was not made, or was moved from", key));
  }
  for (Shard& shard : ShardsOfVariable(key, variable)) {
    if (!IsEmpty(shard.box)) {
      functions_.push_back(FollowVariable(variable, shard));
    }
    AddShard(std::move(shard));
  }
}

void State::AddTyped(std::string_view key, const ValueRef& value,
                     TypeHandlerPtr handler) {
  if (value.address == nullptr) return AddNull(key);
  StateVersion::Change(*this);
  typed_.push_back({std::string(key), value, std::move(handler), -1});
}

void AddShard(State& state, Shard shard) { state.AddShard(std::move(shard)); }

void AddValue(State& state, std::string_view key, const ValueRef& value,
              TypeHandlerPtr handler) {
  state.AddTyped(key, value, std::move(handler));
}

void State::AddTensor(std::string_view key, Tensor* value) {
  if (value == nullptr) return AddNull(key);
  AddShard({.key = std::string(key),
            .dtype = value->dtype(),
            .global_shape = value->shape(),
            .box = WholeBox(value->shape()),
            .replica = kReplicaIsRank,
            .data = value->data(),
            .object = value,
            .access = &kTensorAccess});
}

void State::AddNull(std::string_view key) {
  AddError(key, absl::InvalidArgumentError("the pointer is null"));
}

void State::AddError(std::string_view key, const Status& status) {
  if (status_.ok()) status_ = AddPrefix(status, "add \"", key, "\"");
}

void State::AddText(std::string_view key, std::string* value) {
  AddShard({.key = std::string(key),
            .dtype = DType::kString,
            .replica = kReplicaIsRank,
            .text = value});
}

std::vector<Shard> ShardsOfVariable(std::string_view key,
                                    const ShardedVariable& variable) {
  std::vector<Shard> shards;
  for (const Component& component : variable) {
    Box box = variable.ComponentBox(component);
    // Every rank may list a component without elements.
    if (component.data == nullptr && !IsEmpty(box)) continue;
    shards.push_back({.key = std::string(key),
                      .dtype = variable.dtype(),
                      .global_shape = variable.shape(),
                      .box = std::move(box),
                      .data = component.data});
  }
  return shards;
}

std::shared_ptr<void> FollowVariable(ShardedVariable& variable, Shard& shard) {
  auto place = std::make_shared<ComponentPlace>(
      ComponentPlace{&variable, shard.dtype, shard.global_shape, shard.box});
  shard.object = place.get();
  shard.access = &kComponentAccess;
  shard.object_elements = NumElements(shard.box.shape);
  return place;
}

}  // namespace belay
