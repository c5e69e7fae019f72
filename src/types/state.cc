#include "belay/state.h"

#include "absl/strings/str_format.h"
#include "base/text.h"
#include "belay/sharded_variable.h"
#include "belay/tensor.h"

namespace belay {
namespace {

constexpr size_t kMaxAxes = 32;  // HDF5's limit

}  // namespace

void State::AddShard(Shard shard) {
  if (shard.global_shape.size() > kMaxAxes && status_.ok()) {
    status_ = absl::InvalidArgumentError(
        absl::StrFormat("add \"%s\": too many axes (need at most %d, found %d)",
                        shard.key, kMaxAxes, shard.global_shape.size()));
  }
  if (!IsKnownDType(static_cast<uint8_t>(shard.dtype)) && status_.ok()) {
    status_ = absl::InvalidArgumentError(
        absl::StrFormat("add \"%s\": unknown dtype (found number %d)",
                        shard.key, static_cast<int>(shard.dtype)));
  }
  const bool has_memory = shard.dtype == DType::kString
                              ? shard.text != nullptr
                              : shard.data != nullptr || IsEmpty(shard.box);
  if (!has_memory && status_.ok()) {
    status_ = absl::InvalidArgumentError(
        absl::StrFormat("add \"%s\": the pointer is null", shard.key));
  }
  shards_.push_back(std::move(shard));
}

void State::AddLaidOutBytes(std::string_view key, DType dtype,
                            const Layout& layout, const Shape& global_shape,
                            int rank, void* data) {
  StatusOr<Box> box = layout.LocalBox(global_shape, rank);
  if (!box.ok()) {
    if (status_.ok()) {
      status_ = Status(
          box.status().code(),
          absl::StrFormat("add \"%s\": %s", key, box.status().message()));
    }
    return;
  }
  AddShard({.key = std::string(key),
            .dtype = dtype,
            .global_shape = global_shape,
            .box = *std::move(box),
            .replica = layout.Replica(rank),
            .data = data,
            .layout = layout.ToString()});
}

void State::AddFlatRangeBytes(std::string_view prefix, DType dtype,
                              const std::vector<FlatPiece>& pieces,
                              int64_t begin, int64_t end, void* data) {
  if (dtype == DType::kString || !IsKnownDType(static_cast<uint8_t>(dtype))) {
    if (status_.ok()) {
      status_ = absl::InvalidArgumentError(
          absl::StrFormat("add \"%s\": no dtype of a flat buffer (found %d)",
                          AbslView(prefix), static_cast<int>(dtype)));
    }
    return;
  }
  StatusOr<std::vector<FlatBox>> boxes = BoxesOfFlatRange(pieces, begin, end);
  if (!boxes.ok()) {
    if (status_.ok()) {
      status_ = Status(boxes.status().code(),
                       absl::StrFormat("add \"%s\": %s", AbslView(prefix),
                                       boxes.status().message()));
    }
    return;
  }
  for (FlatBox& part : *boxes) {
    const FlatPiece& piece = pieces[part.piece];
    void* const at = data == nullptr ? nullptr
                                     : static_cast<char*>(data) +
                                           part.position * DTypeSize(dtype);
    AddShard({.key = std::string(prefix) + piece.key,
              .dtype = dtype,
              .global_shape = piece.global_shape,
              .box = std::move(part.box),
              .replica = piece.replica,
              .data = at});
  }
}

void State::AddShardedVariable(std::string_view key,
                               ShardedVariable& variable) {
  if (variable.components().empty() && status_.ok()) {
    status_ = absl::InvalidArgumentError(absl::StrFormat(
        "add \"%s\": the variable was not made, or was moved from", key));
  }
  for (const Component& component : variable) {
    Box box = variable.ComponentBox(component);
    // Where there is nothing to hold, every rank may say that it holds it.
    if (component.data == nullptr && !IsEmpty(box)) continue;
    AddShard({.key = std::string(key),
              .dtype = variable.dtype(),
              .global_shape = variable.shape(),
              .box = std::move(box),
              .data = component.data});
  }
}

void State::AddValue(std::string_view key, const ValueRef& value,
                     TypeHandlerPtr handler) {
  if (value.address == nullptr) return AddNull(key);
  typed_.push_back({std::string(key), value, std::move(handler), -1});
}

void State::AddTensor(std::string_view key, Tensor* value) {
  if (value == nullptr) return AddNull(key);
  AddShard({.key = std::string(key),
            .dtype = value->dtype(),
            .global_shape = value->shape(),
            .box = WholeBox(value->shape()),
            .replica = kReplicaIsRank,
            .data = value->data()});
}

void State::AddNull(std::string_view key) {
  if (!status_.ok()) return;
  status_ = absl::InvalidArgumentError(
      absl::StrFormat("add \"%s\": the pointer is null", AbslView(key)));
}

void State::AddText(std::string_view key, std::string* value) {
  AddShard({.key = std::string(key),
            .dtype = DType::kString,
            .replica = kReplicaIsRank,
            .text = value});
}

}  // namespace belay
