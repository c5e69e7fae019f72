// belay's own handlers; state.h includes this.
//
//   std::optional      what it holds, or None
//   std::monostate     None
//   maps by name       Dict: a value for each key; may be empty
//   std::vector of others than numbers, std::deque, std::list
//                      List: a value for each element; may be empty
//   std::vector<std::string>, std::vector<bool>
//                      two arrays, or one
//
// A restore gives them the stored size and keys. A registry entry for such a
// type takes precedence.

#ifndef BELAY_HANDLERS_STANDARD_HANDLERS_H_
#define BELAY_HANDLERS_STANDARD_HANDLERS_H_

#include <concepts>
#include <cstddef>
#include <iterator>
#include <memory>
#include <optional>
#include <ranges>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "belay/arrays/dtype.h"
#include "belay/handlers/type_handler.h"
#include "belay/handlers/type_handler_registry.h"
#include "belay/state.h"
#include "belay/status.h"

namespace belay {

struct StandardHandlerOptions {
  // Store eight elements of a std::vector<bool> in a byte.
  bool pack_bools = false;
};

// Registers the handlers of std::vector<std::string> and std::vector<bool> with
// these options, in place of those in the registry. Local. Values that were
// stored with other options can still be restored.
// Errors: those of TypeHandlerRegistry::Add.
Status RegisterStandardHandlers(
    const StandardHandlerOptions& options,
    TypeHandlerRegistry& registry = GlobalTypeHandlerRegistry());

// Implementation details; for StandardHandler alone.
namespace standard {

// Encodes a key of a map as the name of a part, and decodes it: "." becomes
// "..", "/" becomes ".S", "" becomes ".E". Local.
std::string PartName(std::string_view key);
std::string KeyOfPart(std::string_view name);

// Returns whether a value was stored as `typestr`, or as arrays below its key.
// A single array has no keys, and restoring it would only empty a container.
// Local.
bool HasKeys(const StoredValue& stored, std::string_view typestr);

// Returns the names of the values directly inside a stored one, ascending.
// Local.
std::vector<std::string> NamesInside(const StoredValue& stored);

// None: nothing. Local.
class NoneHandler final : public Handler<std::monostate> {
 public:
  std::string typestr() const override { return std::string(kNoneTypestr); }
  bool HasFinalize() const override { return false; }
  Status ListForSave(std::monostate&, State&) const override {
    return absl::OkStatus();
  }
  Status ListForRestore(std::monostate&, const StoredValue& stored,
                        State&) const override;
};

// Adds what a value holds. A view that it holds is no mistake: each save and
// restore lists what is there then. Local.
template <typename T>
void AddHeld(std::string_view name, T& held, State& parts) {
  if constexpr (tracking::kIsView<T>) {
    parts.Add(name, T(held));
  } else {
    parts.Add(name, held);
  }
}

// What it holds, or None. Local.
template <typename T>
class OptionalHandler final : public Handler<std::optional<T>> {
 public:
  // Empty: stored as the value that it holds. Local.
  std::string typestr() const override { return ""; }
  bool HasFinalize() const override { return false; }
  bool Accepts(const StoredValue&) const override { return true; }
  Status ListForSave(std::optional<T>& value, State& parts) const override {
    if (value.has_value()) {
      AddHeld("", *value, parts);
    } else {
      parts.Add("", parts.Own(std::make_shared<std::monostate>()));
    }
    return absl::OkStatus();
  }
  Status ListForRestore(std::optional<T>& value, const StoredValue& stored,
                        State& parts) const override {
    if (stored.typestr == kNoneTypestr) {
      value.reset();
      return absl::OkStatus();
    }
    if (!value.has_value()) value.emplace();
    AddHeld("", *value, parts);
    return absl::OkStatus();
  }
};

// std::map<std::string, T> and similar types.
template <typename T>
concept NamedMap = requires(T& map, const std::string& key) {
  typename T::mapped_type;
  requires std::same_as<typename T::key_type, std::string>;
  map.extract(key);
  map.try_emplace(key);
};

// Dict. Local.
template <NamedMap M>
class MapHandler final : public Handler<M> {
 public:
  std::string typestr() const override { return std::string(kDictTypestr); }
  bool HasFinalize() const override { return false; }
  bool Accepts(const StoredValue& stored) const override {
    return HasKeys(stored, kDictTypestr);
  }
  Status ListForSave(M& map, State& parts) const override {
    for (auto& [key, value] : map) {
      AddHeld(PartName(key), value, parts);
    }
    return absl::OkStatus();
  }
  Status ListForRestore(M& map, const StoredValue& stored,
                        State& parts) const override {
    M found;
    for (const std::string& name : NamesInside(stored)) {
      const std::string key = KeyOfPart(name);
      // An existing value may know better how it is restored.
      auto old = map.extract(key);
      if (!old.empty()) found.insert(std::move(old));
      found.try_emplace(key);
    }
    map = std::move(found);
    return ListForSave(map, parts);
  }
};

// std::vector<T> and similar types, except those stored as arrays.
template <typename T>
concept PlainList =
    !ElementRange<T> && !NamedMap<T> && requires(T & list, size_t size) {
  list.resize(size);
  requires std::same_as < std::ranges::range_reference_t<T>,
  typename T::value_type& > ;
}
&&std::is_class_v<typename T::value_type>;

// List. Local.
template <PlainList L>
class ListHandler final : public Handler<L> {
 public:
  std::string typestr() const override { return std::string(kListTypestr); }
  bool HasFinalize() const override { return false; }
  bool Accepts(const StoredValue& stored) const override {
    return HasKeys(stored, kListTypestr);
  }
  Status ListForSave(L& list, State& parts) const override {
    size_t number = 0;
    for (auto& value : list) AddHeld(std::to_string(number++), value, parts);
    return absl::OkStatus();
  }
  Status ListForRestore(L& list, const StoredValue& stored,
                        State& parts) const override {
    list.resize(NamesInside(stored).size());
    return ListForSave(list, parts);
  }
};

// Two arrays: the concatenated strings, and their ends. Local.
class StringsHandler final : public Handler<std::vector<std::string>> {
 public:
  std::string typestr() const override { return "strings"; }
  bool HasFinalize() const override { return false; }
  Status ListForSave(std::vector<std::string>& value,
                     State& parts) const override;
  Status ListForRestore(std::vector<std::string>& value,
                        const StoredValue& stored, State& parts) const override;
  Status Received(std::vector<std::string>& value, const StoredValue& stored,
                  int round, State& more) const override;
};

// One array. Local.
class BoolsHandler final : public Handler<std::vector<bool>> {
 public:
  explicit BoolsHandler(bool packed = false) : packed_(packed) {}
  std::string typestr() const override { return "bools"; }
  bool HasFinalize() const override { return false; }
  Status ListForSave(std::vector<bool>& value, State& parts) const override;
  Status ListForRestore(std::vector<bool>& value, const StoredValue& stored,
                        State& parts) const override;
  Status Received(std::vector<bool>& value, const StoredValue& stored,
                  int round, State& more) const override;

 private:
  bool packed_;
};

// Returns the only instance of H. Local.
template <typename H>
TypeHandlerPtr Shared() {
  static const TypeHandlerPtr handler = std::make_shared<const H>();
  return handler;
}

}  // namespace standard

// Local.
template <>
struct StandardHandler<std::monostate> {
  static TypeHandlerPtr Get() {
    return standard::Shared<standard::NoneHandler>();
  }
};

// Local.
template <typename T>
struct StandardHandler<std::optional<T>> {
  static TypeHandlerPtr Get() {
    return standard::Shared<standard::OptionalHandler<T>>();
  }
};

// Local.
template <standard::NamedMap M>
struct StandardHandler<M> {
  static TypeHandlerPtr Get() {
    return standard::Shared<standard::MapHandler<M>>();
  }
};

// Local.
template <standard::PlainList L>
struct StandardHandler<L> {
  static TypeHandlerPtr Get() {
    return standard::Shared<standard::ListHandler<L>>();
  }
};

// Local.
template <>
struct StandardHandler<std::vector<std::string>> {
  static TypeHandlerPtr Get() {
    return standard::Shared<standard::StringsHandler>();
  }
};

// Local.
template <>
struct StandardHandler<std::vector<bool>> {
  static TypeHandlerPtr Get() {
    return standard::Shared<standard::BoolsHandler>();
  }
};

}  // namespace belay

#endif  // BELAY_HANDLERS_STANDARD_HANDLERS_H_
