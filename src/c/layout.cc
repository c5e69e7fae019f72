// Pieces with ghost cells, arrays laid out on a mesh, and sharding policies.
#include "belay/arrays/layout.h"

#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "belay/arrays/box.h"
#include "belay/arrays/device.h"
#include "belay/arrays/dtype.h"
#include "belay/arrays/memory.h"
#include "belay/belay_c.h"
#include "belay/state.h"
#include "belay/status.h"
#include "belay/values/sharding_policy.h"
#include "c/add.h"
#include "c/error.h"
#include "c/handles.h"
#include "c/options.h"
#include "core/status_macros.h"
#include "core/text.h"

namespace {

using belay::Box;
using belay::DType;
using belay::Layout;
using belay::MemoryLayout;
using belay::Shape;
using belay::Status;
using belay::StatusOr;
using belay::c::Add;
using belay::c::Call;
using belay::c::DTypeOf;
using belay::c::HasNonzero;
using belay::c::NullArgument;
using belay::c::NumbersOf;

std::vector<int64_t> Copy(int ndim, const int64_t* numbers) {
  return numbers == nullptr ? std::vector<int64_t>()
                            : std::vector<int64_t>(numbers, numbers + ndim);
}

// Returns the memory of a piece and its ghost cells. Its size is not known, so
// it is not checked.
StatusOr<belay::Memory> MemoryWith(const std::string& key, DType dtype,
                                   int ndim, const int64_t* strides,
                                   const belay_ghosts* ghosts, void* data) {
  if (ghosts != nullptr && belay::c::HasNonzero(ghosts->reserved)) {
    return belay::c::Mistake(key,
                             "the member reserved of belay_ghosts is not 0");
  }
  belay::Memory memory(data, dtype, -1, {data, 0});
  MemoryLayout layout{.strides = Copy(ndim, strides)};
  if (ghosts != nullptr) {
    layout.before = Copy(ndim, ghosts->before);
    layout.after = Copy(ndim, ghosts->after);
    layout.fill_ghosts = true;
    for (int i = 0; ghosts->periodic != nullptr && i < ndim; ++i) {
      layout.periodic.push_back(ghosts->periodic[i] != 0);
    }
  }
  if (ndim > 0 && (ghosts != nullptr || strides != nullptr)) {
    memory.layout = std::make_shared<const MemoryLayout>(std::move(layout));
  }
  return memory;
}

// Refuses a struct whose arrays are shorter than it says.
int CheckPiece(belay_state* state, const belay_piece* piece) {
  return Add(state, "", [&](const std::string&) -> Status {
    if (piece == nullptr) return NullArgument("piece");
    constexpr int kMaxAxes = std::size(belay_piece().shape);
    if (piece->ndim < 0 || piece->ndim > kMaxAxes) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "add pieces: wrong number of axes (need 0 to %d, found %d)", kMaxAxes,
          piece->ndim));
    }
    if (HasNonzero(piece->reserved)) {
      return absl::InvalidArgumentError(
          "add pieces: the member reserved of belay_piece is not 0");
    }
    return absl::OkStatus();
  });
}

StatusOr<Layout> LayoutOf(const char* text) {
  if (text == nullptr) return NullArgument("layout");
  return Layout::Parse(text);
}

// Returns the box of a rank's piece.
StatusOr<Box> BoxOf(const char* text, int ndim, const int64_t* global_shape,
                    int rank) {
  BELAY_ASSIGN_OR_RETURN(const Layout layout, LayoutOf(text));
  BELAY_ASSIGN_OR_RETURN(const auto whole,
                         NumbersOf(text, "global_shape", ndim, global_shape));
  return layout.LocalBox(whole, rank);
}

}  // namespace

int belay_state_add_piece_with_ghosts(
    belay_state* state, const char* key, int dtype, int ndim,
    const int64_t* global_shape, const int64_t* offset, const int64_t* shape,
    const int64_t* strides, const belay_ghosts* ghosts, void* data) {
  return Add(state, key, [&](const std::string& name) -> Status {
    BELAY_ASSIGN_OR_RETURN(const DType type, DTypeOf(name, dtype));
    BELAY_ASSIGN_OR_RETURN(const auto whole,
                           NumbersOf(name, "global_shape", ndim, global_shape));
    BELAY_ASSIGN_OR_RETURN(const auto begin,
                           NumbersOf(name, "offset", ndim, offset));
    BELAY_ASSIGN_OR_RETURN(const auto lengths,
                           NumbersOf(name, "shape", ndim, shape));
    BELAY_ASSIGN_OR_RETURN(const auto memory,
                           MemoryWith(name, type, ndim, strides, ghosts, data));
    state->state.AddPiece(name, whole, {begin, lengths}, memory);
    return absl::OkStatus();
  });
}

int belay_state_add_pieces(belay_state* state, int dtype,
                           const belay_piece* piece, ...) {
  va_list arguments;
  va_start(arguments, piece);
  int code = CheckPiece(state, piece);
  while (code == BELAY_OK) {
    const char* const key = va_arg(arguments, const char*);
    if (key == nullptr) break;
    void* const data = va_arg(arguments, void*);
    const bool has_ghosts =
        HasNonzero(piece->ghosts_before) || HasNonzero(piece->ghosts_after);
    const belay_ghosts ghosts = {.before = piece->ghosts_before,
                                 .after = piece->ghosts_after,
                                 .periodic = piece->periodic,
                                 .reserved = {}};
    code = belay_state_add_piece_with_ghosts(
        state, key, dtype, piece->ndim, piece->global_shape, piece->offset,
        piece->shape, HasNonzero(piece->strides) ? piece->strides : nullptr,
        has_ghosts ? &ghosts : nullptr, data);
  }
  va_end(arguments);
  return code;
}

int belay_state_add_laid_out(belay_state* state, const char* key, int dtype,
                             const char* layout, int ndim,
                             const int64_t* global_shape, int rank,
                             const int64_t* strides, const belay_ghosts* ghosts,
                             void* data) {
  return Add(state, key, [&](const std::string& name) -> Status {
    BELAY_ASSIGN_OR_RETURN(const DType type, DTypeOf(name, dtype));
    const StatusOr<Layout> laid_out = LayoutOf(layout);
    if (!laid_out.ok()) {
      return belay::AddPrefix(laid_out.status(), "add \"", name, "\"");
    }
    BELAY_ASSIGN_OR_RETURN(const auto whole,
                           NumbersOf(name, "global_shape", ndim, global_shape));
    BELAY_ASSIGN_OR_RETURN(const auto memory,
                           MemoryWith(name, type, ndim, strides, ghosts, data));
    state->state.AddLaidOut(name, *laid_out, whole, rank, memory);
    return absl::OkStatus();
  });
}

int belay_layout_box(const char* layout, int ndim, const int64_t* global_shape,
                     int rank, int64_t* offset, int64_t* shape) {
  return Call([&]() -> Status {
    BELAY_ASSIGN_OR_RETURN(const Box box,
                           BoxOf(layout, ndim, global_shape, rank));
    for (size_t i = 0; i < box.shape.size(); ++i) {
      if (offset != nullptr) offset[i] = box.offset[i];
      if (shape != nullptr) shape[i] = box.shape[i];
    }
    return absl::OkStatus();
  });
}

int belay_layout_on_ranks(const char* layout, int num_ranks, char* buffer,
                          int64_t capacity) {
  return Call([&]() -> Status {
    BELAY_ASSIGN_OR_RETURN(const Layout laid_out, LayoutOf(layout));
    if (num_ranks <= 0) {
      return absl::InvalidArgumentError(
          absl::StrFormat("layout \"%s\": no ranks (need at least 1, found %d)",
                          layout, num_ranks));
    }
    if (buffer == nullptr) return NullArgument("buffer");
    const std::string text = laid_out.OnRanks(num_ranks).ToString();
    const auto needed = static_cast<int64_t>(text.size()) + 1;
    if (needed > capacity) {
      return absl::OutOfRangeError(absl::StrFormat(
          "layout \"%s\": the buffer is too short (need %d bytes, found %d)",
          text, needed, capacity));
    }
    text.copy(buffer, text.size());
    buffer[text.size()] = '\0';
    return absl::OkStatus();
  });
}

// Sharding policies of programs in C.

namespace belay::c {
namespace {

// More groups than any policy needs; the same limit as for MaxShardSize.
constexpr int64_t kMaxGroups = int64_t{1} << 22;

// Adapts a C function of the program to the C++ interface.
class GroupFunction {
 public:
  GroupFunction(belay_group_function function, void* context)
      : function_(function), context_(context) {}

  StatusOr<Grouping> operator()(
      const std::vector<ShardableTensor>& pieces) const {
    std::vector<std::string> devices;
    devices.reserve(pieces.size());
    std::vector<belay_shardable_tensor> given;
    given.reserve(pieces.size());
    for (const ShardableTensor& piece : pieces) {
      devices.push_back(DeviceText(piece.device));
      given.push_back({.key = piece.key.c_str(),
                       .dtype = static_cast<int>(piece.dtype),
                       .ndim = static_cast<int>(piece.global_shape.size()),
                       .global_shape = piece.global_shape.data(),
                       .offset = piece.box.offset.data(),
                       .shape = piece.box.shape.data(),
                       .device = devices.back().c_str(),
                       .bytes = piece.bytes,
                       .node = piece.node});
    }
    belay_grouping grouping{.pieces = pieces};
    const int code = function_(context_, given.data(),
                               static_cast<int64_t>(given.size()), &grouping);
    if (!grouping.status.ok()) return grouping.status;
    if (code == BELAY_OK) return Grouping(std::move(grouping.groups));
    const bool is_known = *belay_code_name(code) != '\0';
    return Status(
        static_cast<absl::StatusCode>(is_known ? code : BELAY_UNKNOWN),
        absl::StrFormat("its function returned the code %d", code));
  }

 private:
  belay_group_function function_;
  void* context_;
};

// Puts a piece, or a box of it, into a group.
Status AddToGroup(belay_grouping& grouping, int64_t group, int64_t piece,
                  const int64_t* offset, const int64_t* shape) {
  const auto count = static_cast<int64_t>(grouping.pieces.size());
  if (piece < 0 || piece >= count) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "no such piece (need one of %d, counted from 0, found %d)", count,
        piece));
  }
  if (group < 0 || group >= kMaxGroups) {
    return absl::OutOfRangeError(
        absl::StrFormat("no such group (need one of %d, counted from 0, found "
                        "%d)",
                        kMaxGroups, group));
  }
  if ((offset == nullptr) != (shape == nullptr)) {
    return NullArgument(offset == nullptr ? "offset" : "shape");
  }
  ShardableTensor part = grouping.pieces[static_cast<size_t>(piece)];
  if (offset != nullptr && part.dtype != DType::kString) {
    const size_t ndim = part.global_shape.size();
    part.box.offset.assign(offset, offset + ndim);
    part.box.shape.assign(shape, shape + ndim);
    BELAY_ASSIGN_OR_RETURN(const int64_t elements,
                           CheckedNumElements(part.box.shape));
    const int64_t size = DTypeSize(part.dtype);
    if (elements > part.bytes / size) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "key \"%s\": the box is larger than the piece (need at most %d "
          "elements, found %d)",
          part.key, part.bytes / size, elements));
    }
    part.bytes = elements * size;
  }
  if (std::ssize(grouping.groups) <= group) {
    grouping.groups.resize(static_cast<size_t>(group) + 1);
  }
  grouping.groups[static_cast<size_t>(group)].push_back(std::move(part));
  return absl::OkStatus();
}

}  // namespace
}  // namespace belay::c

int belay_options_set_sharding_policy(belay_options* options,
                                      const char* description,
                                      const char* parameters,
                                      belay_group_function group,
                                      void* context) {
  return belay::c::Call(
      {{"options", options},
       {"description", description},
       {"group", reinterpret_cast<const void*>(group)}},
      [&]() -> belay::Status {
        belay::ShardingPolicy policy{
            .description = description,
            .parameters = {},
            .group = belay::c::GroupFunction(group, context)};
        if (policy.description.empty()) {
          return absl::InvalidArgumentError(
              "the sharding policy has no description, which names it in "
              "errors (need a text, found \"\")");
        }
        if (parameters != nullptr) {
          policy.parameters = {{"parameters", parameters}};
        }
        options->texts[belay::OptionReader::kPolicyOption] = policy.description;
        options->sharding_policy = std::move(policy);
        return absl::OkStatus();
      });
}

int belay_grouping_add(belay_grouping* grouping, int64_t group, int64_t piece,
                       const int64_t* offset, const int64_t* shape) {
  return belay::c::Call({{"grouping", grouping}}, [&]() -> belay::Status {
    belay::Status status =
        belay::c::AddToGroup(*grouping, group, piece, offset, shape);
    grouping->status.Update(status);
    return status;
  });
}
