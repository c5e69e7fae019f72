// Sharding policies of programs in C.

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "belay/arrays/box.h"
#include "belay/arrays/device.h"
#include "belay/arrays/dtype.h"
#include "belay/belay_c.h"
#include "belay/values/sharding_policy.h"
#include "c/error.h"
#include "c/handles.h"
#include "c/option_reader.h"

namespace belay::c {
namespace {

// More groups than anybody can want, as for MaxShardSize.
constexpr int64_t kMostGroups = int64_t{1} << 22;

// A function of the program, as C++ wants it.
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
  if (group < 0 || group >= kMostGroups) {
    return absl::OutOfRangeError(
        absl::StrFormat("no such group (need one of %d, counted from 0, found "
                        "%d)",
                        kMostGroups, group));
  }
  if ((offset == nullptr) != (shape == nullptr)) {
    return NullArgument(offset == nullptr ? "offset" : "shape");
  }
  ShardableTensor part = grouping.pieces[static_cast<size_t>(piece)];
  if (offset != nullptr && part.dtype != DType::kString) {
    const size_t ndim = part.global_shape.size();
    part.box.offset.assign(offset, offset + ndim);
    part.box.shape.assign(shape, shape + ndim);
    const StatusOr<int64_t> elements = CheckedNumElements(part.box.shape);
    if (!elements.ok()) return elements.status();
    const int64_t size = DTypeSize(part.dtype);
    if (*elements > part.bytes / size) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "key \"%s\": the box is larger than the piece (need at most %d "
          "elements, found %d)",
          part.key, part.bytes / size, *elements));
    }
    part.bytes = *elements * size;
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
  return belay::c::Call([&]() -> belay::Status {
    if (options == nullptr) return belay::c::NullArgument("options");
    if (description == nullptr) return belay::c::NullArgument("description");
    if (group == nullptr) return belay::c::NullArgument("group");
    belay::ShardingPolicy policy{
        .description = description,
        .parameters = {},
        .group = belay::c::GroupFunction(group, context)};
    if (policy.description.empty()) {
      return absl::InvalidArgumentError(
          "the sharding policy has no description, which names it in errors "
          "(need a text, found \"\")");
    }
    if (parameters != nullptr) {
      policy.parameters = {{"parameters", parameters}};
    }
    options->values[belay::c::kPolicyOption] = policy.description;
    options->sharding_policy = std::move(policy);
    return absl::OkStatus();
  });
}

int belay_grouping_add(belay_grouping* grouping, int64_t group, int64_t piece,
                       const int64_t* offset, const int64_t* shape) {
  return belay::c::Call([&]() -> belay::Status {
    if (grouping == nullptr) return belay::c::NullArgument("grouping");
    belay::Status status =
        belay::c::AddToGroup(*grouping, group, piece, offset, shape);
    grouping->status.Update(status);
    return status;
  });
}
