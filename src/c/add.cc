// belay_state: values in the program's memory, with dtypes given as numbers.
#include "c/add.h"

#include <cstdarg>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "belay/arrays/box.h"
#include "belay/arrays/dtype.h"
#include "belay/arrays/memory.h"
#include "belay/belay_c.h"
#include "belay/extend/row_shards.h"
#include "belay/extend/shard.h"
#include "belay/state.h"
#include "belay/status.h"
#include "c/error.h"
#include "c/handles.h"
#include "core/status_macros.h"
#include "core/strided_copy.h"
#include "core/text.h"

namespace belay::c {

Status Mistake(const std::string& key, const std::string& text) {
  return absl::InvalidArgumentError(
      absl::StrFormat("add \"%s\": %s", key, text));
}

StatusOr<DType> DTypeOf(const std::string& key, int dtype) {
  if (dtype >= 0 && dtype <= UINT8_MAX && dtype != BELAY_STRING &&
      IsKnownDType(static_cast<uint8_t>(dtype))) {
    return static_cast<DType>(dtype);
  }
  return Mistake(key,
                 absl::StrFormat("unknown dtype (found number %d)", dtype));
}

StatusOr<Shape> NumbersOf(const std::string& key, const char* name, int ndim,
                          const int64_t* numbers) {
  if (ndim < 0) {
    return Mistake(key, absl::StrFormat("negative ndim (found %d)", ndim));
  }
  if (ndim > 0 && numbers == nullptr) {
    return Mistake(key, absl::StrFormat("the argument %s is null", name));
  }
  return ndim == 0 ? Shape() : Shape(numbers, numbers + ndim);
}

StatusOr<Memory> MemoryOf(DType dtype, const Shape& shape,
                          const int64_t* strides, void* data) {
  BELAY_ASSIGN_OR_RETURN(const int64_t elements, CheckedNumElements(shape));
  Memory memory(data, dtype, elements, {data, 0});
  if (strides != nullptr && !shape.empty()) {
    memory.size = -1;  // unknown: the memory has more elements than the box
    memory.layout = std::make_shared<const MemoryLayout>(MemoryLayout{
        .strides = std::vector<int64_t>(strides, strides + shape.size())});
  }
  return memory;
}

}  // namespace belay::c

namespace {

using belay::DType;
using belay::Shape;
using belay::Status;
using belay::StatusOr;
using belay::c::Add;
using belay::c::Call;
using belay::c::DTypeOf;
using belay::c::MemoryOf;
using belay::c::Mistake;
using belay::c::NumbersOf;

Status AddString(belay_state& state, const std::string& key, char* buffer,
                 int64_t capacity, char padding) {
  if (buffer == nullptr) return Mistake(key, "the argument buffer is null");
  if (capacity < 0) {
    return Mistake(key,
                   absl::StrFormat("negative capacity (found %d)", capacity));
  }
  state.strings.push_back({key, buffer, capacity, padding});
  state.state.Add(key, state.strings.back().value);
  return absl::OkStatus();
}

// Adds an array that every rank holds completely, using
// `add(name, lengths, memory)`.
template <typename AddArray>
int AddWhole(belay_state* state, const char* key, int dtype, int ndim,
             const int64_t* shape, const int64_t* strides, void* data,
             AddArray add) {
  return Add(state, key, [&](const std::string& name) -> Status {
    BELAY_ASSIGN_OR_RETURN(const DType type, DTypeOf(name, dtype));
    BELAY_ASSIGN_OR_RETURN(const Shape lengths,
                           NumbersOf(name, "shape", ndim, shape));
    BELAY_ASSIGN_OR_RETURN(const belay::Memory memory,
                           MemoryOf(type, lengths, strides, data));
    add(name, lengths, memory);
    return absl::OkStatus();
  });
}

}  // namespace

int belay_state_create(belay_state** result) {
  return Call({{"result", result}}, [&]() -> Status {
    *result = nullptr;
    *result = new belay_state();
    return absl::OkStatus();
  });
}

void belay_state_free(belay_state** state) {
  if (state != nullptr) delete std::exchange(*state, nullptr);
}

int belay_state_clear(belay_state* state) {
  return Call({{"state", state}}, [&]() -> Status {
    state->state = {};
    state->status = absl::OkStatus();
    state->strings.clear();
    state->rows.clear();
    return absl::OkStatus();
  });
}

int belay_state_add_array(belay_state* state, const char* key, int dtype,
                          int ndim, const int64_t* shape,
                          const int64_t* strides, void* data) {
  return AddWhole(state, key, dtype, ndim, shape, strides, data,
                  [&](const std::string& name, const Shape& lengths,
                      const belay::Memory& memory) {
                    state->state.AddReplicated(name, lengths, memory);
                  });
}

int belay_state_add_from_rank0(belay_state* state, const char* key, int dtype,
                               int ndim, const int64_t* shape,
                               const int64_t* strides, void* data) {
  return AddWhole(state, key, dtype, ndim, shape, strides, data,
                  [&](const std::string& name, const Shape& lengths,
                      const belay::Memory& memory) {
                    state->state.AddFromRank0(name, lengths, memory);
                  });
}

int belay_state_add_scalar(belay_state* state, const char* key, int dtype,
                           void* data) {
  return belay_state_add_array(state, key, dtype, 0, nullptr, nullptr, data);
}

int belay_state_add_scalars(belay_state* state, int dtype, ...) {
  va_list arguments;
  va_start(arguments, dtype);
  int code = BELAY_OK;
  while (code == BELAY_OK) {
    const char* const key = va_arg(arguments, const char*);
    if (key == nullptr) break;
    code = belay_state_add_scalar(state, key, dtype, va_arg(arguments, void*));
  }
  va_end(arguments);
  return code;
}

int belay_state_add_piece(belay_state* state, const char* key, int dtype,
                          int ndim, const int64_t* global_shape,
                          const int64_t* offset, const int64_t* shape,
                          const int64_t* strides, void* data) {
  return Add(state, key, [&](const std::string& name) -> Status {
    BELAY_ASSIGN_OR_RETURN(const DType type, DTypeOf(name, dtype));
    BELAY_ASSIGN_OR_RETURN(const auto whole,
                           NumbersOf(name, "global_shape", ndim, global_shape));
    BELAY_ASSIGN_OR_RETURN(const auto begin,
                           NumbersOf(name, "offset", ndim, offset));
    BELAY_ASSIGN_OR_RETURN(const auto lengths,
                           NumbersOf(name, "shape", ndim, shape));
    BELAY_ASSIGN_OR_RETURN(const belay::Memory memory,
                           MemoryOf(type, lengths, strides, data));
    state->state.AddPiece(name, whole, {begin, lengths}, memory);
    return absl::OkStatus();
  });
}

int belay_state_add_per_rank(belay_state* state, const char* key, int dtype,
                             int64_t count, void* data, int other_ranks) {
  return Add(state, key, [&](const std::string& name) -> Status {
    BELAY_ASSIGN_OR_RETURN(const DType type, DTypeOf(name, dtype));
    if (count < 0) {
      return Mistake(name, absl::StrFormat("negative count (found %d)", count));
    }
    if (count > 0 && data == nullptr) {
      return Mistake(name, "the argument data is null");
    }
    if (other_ranks < BELAY_OTHER_RANKS_ERROR ||
        other_ranks > BELAY_OTHER_RANKS_FIRST) {
      return Mistake(
          name, absl::StrFormat("unknown other_ranks (found %d)", other_ranks));
    }
    belay::Shard shard = belay::rows::ShardOf(
        {.dtype = type}, data, count,
        {.is_per_rank = true,
         .other_ranks = static_cast<belay::OtherRanks>(other_ranks)});
    shard.key = name;
    AddShard(state->state, std::move(shard));
    return absl::OkStatus();
  });
}

int belay_state_add_string(belay_state* state, const char* key, char* buffer,
                           int64_t capacity) {
  return Add(state, key, [&](const std::string& name) {
    return AddString(*state, name, buffer, capacity, '\0');
  });
}

int belay_state_add_padded_string(belay_state* state, const char* key,
                                  char* buffer, int64_t capacity) {
  return Add(state, key, [&](const std::string& name) {
    return AddString(*state, name, buffer, capacity, ' ');
  });
}

int belay_state_fail(belay_state* state, int code, const char* message) {
  return Call({{"state", state}}, [&]() -> Status {
    const bool is_known = code != BELAY_OK && *belay_code_name(code) != '\0';
    Status status(
        static_cast<absl::StatusCode>(is_known ? code : BELAY_UNKNOWN),
        message != nullptr ? message : "");
    state->status.Update(status);
    return status;
  });
}

// New addresses for values that have moved.

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

// The current form of an array.
struct Found {
  int dtype = 0;
  Shape shape;
  std::optional<Shape> strides;
};

Status AddressMistake(const std::string& key, const std::string& text) {
  return absl::InvalidArgumentError(
      absl::StrFormat("set the address of \"%s\": %s", key, text));
}

// Returns the index of the shard that piece number `piece` of `key` refers to.
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

// Returns the shape of the box with its ghost cells.
Shape HeldShape(const Shard& shard) {
  Shape held = shard.box.shape;
  if (shard.ghosts == nullptr) return held;
  for (size_t axis = 0; axis < held.size(); ++axis) {
    held[axis] += shard.ghosts->before[axis] + shard.ghosts->after[axis];
  }
  return held;
}

// Checks that a reallocated array has the form of the array that was added.
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

// Sets the address of a string in a buffer of the program.
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
  BELAY_ASSIGN_OR_RETURN(const size_t number,
                         FindShard(state.state, key, piece));
  const Shard& shard = state.state.shards()[number];
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
    BELAY_RETURN_IF_ERROR(CheckSame(shard, *found));
  }
  SetAddress(state.state, number, data);
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
    BELAY_ASSIGN_OR_RETURN(const Shape lengths,
                           NumbersOf(name, "shape", ndim, shape));
    Found found{.dtype = dtype, .shape = lengths};
    if (strides != nullptr) found.strides.emplace(strides, strides + ndim);
    return SetAddress(*state, name, piece, &found, data);
  });
}
