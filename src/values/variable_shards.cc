#include "values/variable_shards.h"

#include <string>
#include <utility>

#include "belay/arrays/box.h"

namespace belay {
namespace {

// Which component of a variable a shard is.
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

std::vector<Shard> ShardsOfVariable(std::string_view key,
                                    const ShardedVariable& variable) {
  std::vector<Shard> shards;
  for (const Component& component : variable) {
    Box box = variable.ComponentBox(component);
    // Where there is nothing to hold, every rank may say that it holds it.
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
