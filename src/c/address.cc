// Values that a belay_state has by their address and that have moved.

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/str_format.h"
#include "base/text.h"
#include "belay/arrays/box.h"
#include "belay/arrays/dtype.h"
#include "belay/arrays/shard.h"
#include "belay/belay_c.h"
#include "belay/state.h"
#include "belay/status.h"
#include "c/add.h"
#include "c/error.h"
#include "c/handles.h"
#include "geometry/strided_copy.h"

namespace {

using belay::DenseStrides;
using belay::DType;
using belay::Shape;
using belay::ShapeText;
using belay::Shard;
using belay::Status;
using belay::StatusOr;
using belay::c::Add;
using belay::c::BufferedString;
using belay::c::NumbersOf;

// What an array is now.
struct Found {
  int dtype = 0;
  Shape shape;
  std::optional<Shape> strides;
};

Status AddressMistake(const std::string& key, const std::string& text) {
  return absl::InvalidArgumentError(
      absl::StrFormat("set the address of \"%s\": %s", key, text));
}

// The shard that the call with this number has added.
StatusOr<size_t> FindShard(const belay::State& state, const std::string& key,
                           int64_t piece) {
  int64_t count = 0;
  for (size_t i = 0; i < state.shards().size(); ++i) {
    if (state.shards()[i].key == key && count++ == piece) return i;
  }
  if (count == 0) {
    return absl::NotFoundError(absl::StrFormat(
        "set the address of \"%s\": the state has no such key", key));
  }
  return absl::NotFoundError(absl::StrFormat(
      "set the address of \"%s\": no such piece (need 0 to %d, found %d)", key,
      count - 1, piece));
}

// The lengths with the ghost cells.
Shape HeldShape(const Shard& shard) {
  Shape held = shard.box.shape;
  if (shard.ghosts == nullptr) return held;
  for (size_t axis = 0; axis < held.size(); ++axis) {
    held[axis] += shard.ghosts->before[axis] + shard.ghosts->after[axis];
  }
  return held;
}

// An array that was allocated anew must be as the one that was added.
Status CheckSame(const Shard& shard, const Found& found) {
  const std::string again =
      "; clear the state and add what the program has now";
  if (found.dtype != static_cast<int>(shard.dtype)) {
    return AddressMistake(
        shard.key, belay::Cat("another dtype than was added (need ",
                              belay::DTypeName(shard.dtype), ", found ",
                              belay::DTypeName(static_cast<DType>(found.dtype)),
                              ")", again));
  }
  const Shape held = HeldShape(shard);
  if (found.shape != held) {
    return AddressMistake(
        shard.key,
        belay::Cat("another shape than was added (need ", ShapeText(held),
                   ", found ", ShapeText(found.shape), ")", again));
  }
  if (belay::IsEmpty(shard.box)) return absl::OkStatus();
  const Shape needed =
      shard.strides.empty() ? DenseStrides(held) : shard.strides;
  const Shape strides = found.strides.value_or(DenseStrides(held));
  for (size_t axis = 0; axis < held.size(); ++axis) {
    if (held[axis] == 1 || strides[axis] == needed[axis]) continue;
    return AddressMistake(
        shard.key, belay::Cat("the strides differ from those that were added "
                              "(need ",
                              ShapeText(needed), ", found ", ShapeText(strides),
                              ")", again));
  }
  return absl::OkStatus();
}

// A string in a buffer of the program.
Status SetBuffer(BufferedString& string, const Found* found, void* data) {
  if (found != nullptr && (found->dtype != BELAY_STRING ||
                           found->shape != Shape{string.capacity})) {
    return AddressMistake(
        string.key, absl::StrFormat("another buffer than was added (need a "
                                    "string of %d bytes, found %s); clear the "
                                    "state and add what the program has now",
                                    string.capacity, ShapeText(found->shape)));
  }
  string.buffer = static_cast<char*>(data);
  return absl::OkStatus();
}

Status SetAddress(belay_state& state, const std::string& key, int64_t piece,
                  const Found* found, void* data) {
  const StatusOr<size_t> number = FindShard(state.state, key, piece);
  if (!number.ok()) return number.status();
  const Shard& shard = state.state.shards()[*number];
  if (shard.object != nullptr) {
    return AddressMistake(
        key,
        "it has rows, which say themselves where they are with the "
        "function resize; otherwise clear the state and add them "
        "again");
  }
  if (data == nullptr &&
      (shard.text != nullptr || !belay::IsEmpty(shard.box))) {
    return AddressMistake(key, "the pointer is null");
  }
  for (BufferedString& string : state.strings) {
    if (shard.text == &string.value) return SetBuffer(string, found, data);
  }
  if (found != nullptr) {
    Status status = CheckSame(shard, *found);
    if (!status.ok()) return status;
  }
  state.state.SetAddress(*number, data);
  return absl::OkStatus();
}

}  // namespace

int belay_state_set_address(belay_state* state, const char* key, int64_t piece,
                            void* data) {
  return Add(state, key, [&](const std::string& name) {
    return SetAddress(*state, name, piece, nullptr, data);
  });
}

int belay_state_set_array(belay_state* state, const char* key, int64_t piece,
                          int dtype, int ndim, const int64_t* shape,
                          const int64_t* strides, void* data) {
  return Add(state, key, [&](const std::string& name) -> Status {
    const StatusOr<Shape> lengths = NumbersOf(name, "shape", ndim, shape);
    if (!lengths.ok()) return lengths.status();
    Found found{.dtype = dtype, .shape = *lengths};
    if (strides != nullptr) found.strides.emplace(strides, strides + ndim);
    return SetAddress(*state, name, piece, &found, data);
  });
}
