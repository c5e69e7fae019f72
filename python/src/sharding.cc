#include "sharding.h"

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "arrays.h"
#include "belay/arrays/box.h"
#include "belay/arrays/device.h"
#include "belay/arrays/dtype.h"
#include "callbacks.h"
#include "errors.h"
#include "names.h"

namespace belay::python {
namespace {

py::object PieceOf(const ShardableTensor& piece) {
  return Imported("belay", "ShardableTensor")(
      NameOf(piece.key), std::string(DTypeName(piece.dtype)),
      TupleOf(piece.global_shape), TupleOf(piece.box.offset),
      TupleOf(piece.box.shape), DeviceText(piece.device), piece.bytes,
      piece.node);
}

// Throws a StatusError if `piece` is not a ShardableTensor.
ShardableTensor ListedTensor(py::handle piece) {
  if (!py::isinstance(piece, Imported("belay", "ShardableTensor"))) {
    ThrowInvalid(
        "a group has something else than pieces (need a "
        "belay.ShardableTensor, found " +
        Shown(piece) + ")");
  }
  const auto numbers = [&](const char* name) {
    return ShapeOf(py::handle(py::object(piece.attr(name))));
  };
  ShardableTensor tensor{
      .key = BytesOf(piece.attr("key")),
      .dtype = DTypeNamed(piece.attr("dtype")),
      .global_shape = numbers("global_shape"),
      .box = {.offset = numbers("offset"), .shape = numbers("shape")}};
  tensor.device =
      ValueOrThrow(ParseDevice(piece.attr("device").cast<std::string>()));
  tensor.bytes = piece.attr("bytes").cast<int64_t>();
  tensor.node = piece.attr("node").cast<int32_t>();
  // The bytes are computed, because the policy may have split the box.
  if (tensor.dtype != DType::kString) {
    const int64_t elements = ValueOrThrow(CheckedNumElements(tensor.box.shape));
    if (__builtin_mul_overflow(elements, DTypeSize(tensor.dtype),
                               &tensor.bytes)) {
      ThrowInvalid("key \"" + tensor.key + "\": the box has too many elements");
    }
  }
  return tensor;
}

StatusOr<Grouping> GroupingOf(const py::object& made) {
  const auto is_list = [](py::handle value) {
    return PyList_Check(value.ptr()) != 0 || PyTuple_Check(value.ptr()) != 0;
  };
  const auto refuse = [](py::handle found) {
    ThrowInvalid(
        "its function returned no groups (need a list of lists of pieces, "
        "found " +
        Shown(found) + ")");
  };
  try {
    if (!is_list(made)) refuse(made);
    Grouping grouping;
    for (const py::handle group : made) {
      if (!is_list(group)) refuse(group);
      ShardGroup& tensors = grouping.groups.emplace_back();
      for (const py::handle piece : group)
        tensors.push_back(ListedTensor(piece));
    }
    return grouping;
  } catch (const StatusError& error) {
    return error.status();
  }
}

ShardingPolicy PolicyOf(py::handle given) {
  const py::object function = given.attr("group");
  if (PyCallable_Check(function.ptr()) == 0) {
    ThrowNeeded("sharding_policy.group", "a function", function);
  }
  OptionReader reader(
      py::dict(py::arg("description") = given.attr("description"),
               py::arg("parameters") = given.attr("parameters")));
  ShardingPolicy policy;
  reader.Read("description", policy.description);
  std::map<std::string, std::string> parameters;
  reader.Read("parameters", parameters);
  policy.parameters.assign(parameters.begin(), parameters.end());
  policy.group =
      [call = Callback(function)](const std::vector<ShardableTensor>& pieces) {
        return call.Get<Grouping>(GroupingOf, [&] {
          py::list all;
          for (const ShardableTensor& piece : pieces)
            all.append(PieceOf(piece));
          return py::make_tuple(all);
        });
      };
  return policy;
}

}  // namespace

void ReadShardingPolicy(OptionReader& reader, ShardingPolicy& policy) {
  int64_t max_shard_size = 0;
  reader.Read("max_shard_size", max_shard_size);
  if (max_shard_size != 0) policy = MaxShardSize(max_shard_size);
  const py::object given = reader.Take("sharding_policy");
  if (!given) return;
  if (!py::isinstance(given, Imported("belay", "ShardingPolicy"))) {
    ThrowNeeded("sharding_policy", "a belay.ShardingPolicy", given);
  }
  if (max_shard_size != 0) {
    ThrowNeeded("max_shard_size", "nothing beside sharding_policy",
                py::int_(max_shard_size));
  }
  policy = PolicyOf(given);
}

}  // namespace belay::python
