// belay_state: values in memory of the program, whose dtype is a number.

#include "belay/state.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "belay/arrays/box.h"
#include "belay/arrays/dtype.h"
#include "belay/arrays/memory.h"
#include "belay/belay_c.h"
#include "belay/rows.h"
#include "belay/status.h"
#include "c/add.h"
#include "c/error.h"
#include "c/handles.h"

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

// As many numbers as the array has axes.
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

// The elements of a box at this address.
StatusOr<Memory> MemoryOf(DType dtype, const Shape& shape,
                          const int64_t* strides, void* data) {
  const StatusOr<int64_t> elements = CheckedNumElements(shape);
  if (!elements.ok()) return elements.status();
  Memory memory(data, dtype, *elements, {data, 0});
  if (strides != nullptr && !shape.empty()) {
    memory.size = -1;  // it holds more than the box
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
using belay::c::NullArgument;
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

// Adds an array that every rank holds whole, by `add(name, lengths, memory)`.
template <typename AddArray>
int AddWhole(belay_state* state, const char* key, int dtype, int ndim,
             const int64_t* shape, const int64_t* strides, void* data,
             AddArray add) {
  return Add(state, key, [&](const std::string& name) -> Status {
    const StatusOr<DType> type = DTypeOf(name, dtype);
    if (!type.ok()) return type.status();
    const StatusOr<Shape> lengths = NumbersOf(name, "shape", ndim, shape);
    if (!lengths.ok()) return lengths.status();
    const StatusOr<belay::Memory> memory =
        MemoryOf(*type, *lengths, strides, data);
    if (!memory.ok()) return memory.status();
    add(name, *lengths, *memory);
    return absl::OkStatus();
  });
}

}  // namespace

int belay_state_create(belay_state** result) {
  return Call([&]() -> Status {
    if (result == nullptr) return NullArgument("result");
    *result = nullptr;
    *result = new belay_state();
    return absl::OkStatus();
  });
}

void belay_state_free(belay_state** state) {
  if (state != nullptr) delete std::exchange(*state, nullptr);
}

int belay_state_clear(belay_state* state) {
  return Call([&]() -> Status {
    if (state == nullptr) return NullArgument("state");
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

int belay_state_add_piece(belay_state* state, const char* key, int dtype,
                          int ndim, const int64_t* global_shape,
                          const int64_t* offset, const int64_t* shape,
                          const int64_t* strides, void* data) {
  return Add(state, key, [&](const std::string& name) -> Status {
    const StatusOr<DType> type = DTypeOf(name, dtype);
    if (!type.ok()) return type.status();
    const auto whole = NumbersOf(name, "global_shape", ndim, global_shape);
    if (!whole.ok()) return whole.status();
    const auto begin = NumbersOf(name, "offset", ndim, offset);
    if (!begin.ok()) return begin.status();
    const auto lengths = NumbersOf(name, "shape", ndim, shape);
    if (!lengths.ok()) return lengths.status();
    const StatusOr<belay::Memory> memory =
        MemoryOf(*type, *lengths, strides, data);
    if (!memory.ok()) return memory.status();
    state->state.AddPiece(name, *whole, {*begin, *lengths}, *memory);
    return absl::OkStatus();
  });
}

int belay_state_add_per_rank(belay_state* state, const char* key, int dtype,
                             int64_t count, void* data, int other_ranks) {
  return Add(state, key, [&](const std::string& name) -> Status {
    const StatusOr<DType> type = DTypeOf(name, dtype);
    if (!type.ok()) return type.status();
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
        {.dtype = *type}, data, count,
        {.is_per_rank = true,
         .other_ranks = static_cast<belay::OtherRanks>(other_ranks)});
    shard.key = name;
    state->state.AddShard(std::move(shard));
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
  return Call([&]() -> Status {
    if (state == nullptr) return NullArgument("state");
    const bool is_known = code != BELAY_OK && *belay_code_name(code) != '\0';
    Status status(
        static_cast<absl::StatusCode>(is_known ? code : BELAY_UNKNOWN),
        message != nullptr ? message : "");
    state->status.Update(status);
    return status;
  });
}
