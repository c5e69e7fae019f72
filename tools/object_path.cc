#include "object_path.h"

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "belay/objects/trackable.h"

namespace belay::tools {
namespace {

constexpr std::string_view kRoot = "(root)";

// Follows a path from object to object. Names may contain dots, so a path may
// have several meanings.
class Walk {
 public:
  explicit Walk(const std::vector<ObjectInfo>& objects) : objects_(objects) {}

  // Handles a path that ends at the object.
  void EndAt(int64_t number) {
    for (const ObjectValue& value : At(number).values) {
      if (value.name == kVariableValue) keys_.insert(value.key);
    }
  }

  // `rest` is the remaining path below the object.
  void From(int64_t number, std::string_view rest) {
    if (!seen_.emplace(number, rest.size()).second) return;
    const ObjectInfo& object = At(number);
    for (const ObjectValue& value : object.values) {
      if (rest == value.name) keys_.insert(value.key);
    }
    for (const ObjectChild& child : object.children) {
      Step(child.object, child.name, rest);
    }
    for (const ObjectSlot& slot : object.slots) {
      Step(slot.object,
           absl::StrCat(slot.name, " for ", At(slot.variable).path), rest);
    }
  }

  std::vector<std::string> Keys() const { return {keys_.begin(), keys_.end()}; }

 private:
  const ObjectInfo& At(int64_t number) const {
    return objects_[static_cast<size_t>(number)];
  }

  void Step(int64_t object, std::string_view name, std::string_view rest) {
    if (!rest.starts_with(name)) return;
    rest.remove_prefix(name.size());
    if (rest.empty()) return EndAt(object);
    if (rest.starts_with('.')) From(object, rest.substr(1));
  }

  const std::vector<ObjectInfo>& objects_;
  // Visited objects, with the remaining length of the path.
  std::set<std::pair<int64_t, size_t>> seen_;
  std::set<std::string> keys_;
};

}  // namespace

std::vector<std::string> KeysAt(const std::vector<ObjectInfo>& objects,
                                std::string_view path) {
  if (objects.empty()) return {};
  Walk walk(objects);
  walk.From(0, path);
  if (path.starts_with(kRoot)) {
    const std::string_view rest = path.substr(kRoot.size());
    if (rest.empty()) walk.EndAt(0);
    if (rest.starts_with('.')) walk.From(0, rest.substr(1));
  }
  for (size_t i = 1; i < objects.size(); ++i) {  // slots, as in messages
    if (objects[i].path == path) walk.EndAt(static_cast<int64_t>(i));
  }
  return walk.Keys();
}

}  // namespace belay::tools
