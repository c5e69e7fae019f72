// belay's own handlers; state.h includes this.
//
//   std::optional      what it holds, or None
//   std::monostate     None
//   std::variant       the index of its alternative, and what it holds
//   std::pair, std::tuple, std::array of others than numbers
//                      List: a value for each element
//   maps by name or whole number
//                      Dict: a value for each key; may be empty
//   std::vector of others than numbers, std::deque, std::list
//                      List: a value for each element; may be empty
//   std::deque and std::list of numbers
//                      one array
//   std::vector<std::string>, std::vector<bool>
//                      two arrays, or one
//   durations and times of std::chrono, random engines
//                      time_handlers.h, random_handlers.h
//
// A restore gives containers the stored size and keys. A registry entry for
// such a type takes precedence.

#ifndef BELAY_HANDLERS_STANDARD_HANDLERS_H_
#define BELAY_HANDLERS_STANDARD_HANDLERS_H_

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <ranges>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "belay/arrays/dtype.h"
#include "belay/arrays/memory.h"
#include "belay/extend/type_handler.h"
#include "belay/extend/type_handler_registry.h"
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

// Reads a whole name as a decimal number; false if it is not a number. Local.
bool ReadNumber(std::string_view name, int64_t& number);
bool ReadNumber(std::string_view name, uint64_t& number);

// Returns whether a value was stored as `typestr`, or as arrays below its key.
// A single array has no keys, and restoring it would only empty a container.
// Local.
bool HasKeys(const StoredValue& stored, std::string_view typestr);

// Returns the names of the values directly inside a stored one, ascending.
// Local.
std::vector<std::string> NamesInside(const StoredValue& stored);

// Stores None. Local.
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

// Adds the value inside another one. It may be a view, because each save and
// restore lists it again. Local.
template <typename T>
void AddHeld(std::string_view name, T& held, State& parts) {
  if constexpr (tracking::kIsView<T>) {
    parts.Add(name, T(held));
  } else {
    parts.Add(name, held);
  }
}

// Stores the value inside, or None. Local.
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
      parts.Add("", Own(parts, std::make_shared<std::monostate>()));
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

// The error if the keys of a map are numbers and the stored ones are not.
// Local.
Status NoNumberError(std::string_view name);
// The error if the stored list has another length than the tuple. Local.
Status LengthError(size_t needed, size_t found);

// Encodes and decodes the key of a map. Local.
template <typename K>
struct MapKey {
  using Number = std::conditional_t<std::is_signed_v<K> || std::is_enum_v<K>,
                                    int64_t, uint64_t>;
  static std::string Encode(K key) {
    return std::to_string(static_cast<Number>(key));
  }
  // Returns false if no K has this name. Local.
  static bool Decode(std::string_view name, K& key) {
    Number number = 0;
    if (!ReadNumber(name, number)) return false;
    key = static_cast<K>(number);
    return static_cast<Number>(key) == number;
  }
};
// For keys that are strings. Local.
template <>
struct MapKey<std::string> {
  static std::string Encode(const std::string& key) { return PartName(key); }
  // Always returns true. Local.
  static bool Decode(std::string_view name, std::string& key) {
    key = KeyOfPart(name);
    return true;
  }
};

// std::map<std::string, T>, std::unordered_map<int, T> and similar types.
template <typename T>
concept KeyedMap = requires(T& map, const typename T::key_type& key) {
  typename T::mapped_type;
  requires std::same_as<typename T::key_type, std::string> ||
      std::integral<typename T::key_type> ||
      std::is_enum_v<typename T::key_type>;
  map.extract(key);
  map.try_emplace(key);
};

// Stores a Dict. Local.
template <KeyedMap M>
class MapHandler final : public Handler<M> {
 public:
  std::string typestr() const override { return std::string(kDictTypestr); }
  bool HasFinalize() const override { return false; }
  bool Accepts(const StoredValue& stored) const override {
    return HasKeys(stored, kDictTypestr);
  }
  Status ListForSave(M& map, State& parts) const override {
    for (auto& [key, value] : map) {
      AddHeld(Key::Encode(key), value, parts);
    }
    return absl::OkStatus();
  }
  Status ListForRestore(M& map, const StoredValue& stored,
                        State& parts) const override {
    const std::vector<std::string> names = NamesInside(stored);
    typename M::key_type key{};
    for (const std::string& name : names) {
      if (!Key::Decode(name, key)) return NoNumberError(name);
    }
    M found;
    for (const std::string& name : names) {
      Key::Decode(name, key);
      // Keep an existing value: it may hold what its restore needs.
      auto old = map.extract(key);
      if (!old.empty()) found.insert(std::move(old));
      found.try_emplace(key);
    }
    map = std::move(found);
    return ListForSave(map, parts);
  }

 private:
  using Key = MapKey<typename M::key_type>;
};

// Stores a tuple, a pair or an array as a List. Local.
template <typename T>
class TupleHandler final : public Handler<T> {
 public:
  std::string typestr() const override { return std::string(kListTypestr); }
  bool HasFinalize() const override { return false; }
  bool Accepts(const StoredValue& stored) const override {
    return HasKeys(stored, kListTypestr);
  }
  Status ListForSave(T& tuple, State& parts) const override {
    std::apply(
        [&](auto&... held) {
          [[maybe_unused]] size_t number = 0;
          (AddHeld(std::to_string(number++), held, parts), ...);
        },
        tuple);
    return absl::OkStatus();
  }
  Status ListForRestore(T& tuple, const StoredValue& stored,
                        State& parts) const override {
    const size_t length = NamesInside(stored).size();
    if (length != std::tuple_size_v<T>) {
      return LengthError(std::tuple_size_v<T>, length);
    }
    return ListForSave(tuple, parts);
  }
};

// Returns the restored index of the alternative, or an error if the variant has
// fewer alternatives. Local.
StatusOr<size_t> StoredAlternative(int64_t index, size_t alternatives);
// The error if a variant has no value, or if no variant is stored. Local.
Status NoVariantError(const StoredValue* stored);

// Stores the index of the alternative and its value. Local.
template <typename... Ts>
class VariantHandler final : public Handler<std::variant<Ts...>> {
 public:
  using V = std::variant<Ts...>;
  static_assert((std::is_default_constructible_v<Ts> && ...),
                "belay makes the alternative of a std::variant that is stored: "
                "each needs a default constructor");

  std::string typestr() const override { return "variant"; }
  bool HasFinalize() const override { return false; }
  bool Accepts(const StoredValue& stored) const override {
    return HasKeys(stored, typestr());
  }
  Status ListForSave(V& value, State& parts) const override {
    if (value.valueless_by_exception()) return NoVariantError(nullptr);
    parts.Add("index", Own(parts, std::make_shared<int64_t>(value.index())));
    return AddAlternative(value, parts);
  }
  Status ListForRestore(V&, const StoredValue& stored,
                        State& parts) const override {
    if (stored.Find("index") == nullptr) return NoVariantError(&stored);
    parts.Add("index", Own(parts, std::make_shared<int64_t>(-1)));
    return absl::OkStatus();
  }
  Status Received(V& value, const StoredValue&, int round,
                  State& more) const override {
    if (round > 0) return absl::OkStatus();
    const StatusOr<size_t> index =
        StoredAlternative(Owned<int64_t>(more, 0), sizeof...(Ts));
    if (!index.ok()) return index.status();
    if (value.index() != *index) {
      Emplace(value, *index, std::index_sequence_for<Ts...>());
    }
    return AddAlternative(value, more);
  }

 private:
  static Status AddAlternative(V& value, State& parts) {
    std::visit([&](auto& held) { AddHeld("value", held, parts); }, value);
    return absl::OkStatus();
  }
  template <size_t... kIndexes>
  static void Emplace(V& value, size_t index,
                      std::index_sequence<kIndexes...>) {
    ((index == kIndexes ? void(value.template emplace<kIndexes>()) : void()),
     ...);
  }
};

// std::vector<T> and similar types, except those stored as arrays.
template <typename T>
concept PlainList =
    !ElementRange<T> && !KeyedMap<T> && requires(T & list, size_t size) {
  list.resize(size);
  requires std::same_as < std::ranges::range_reference_t<T>,
  typename T::value_type& > ;
}
&&std::is_class_v<typename T::value_type> && !Element<typename T::value_type>;

// Stores a List. Local.
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

// std::deque and std::list of numbers, and similar types.
template <typename T>
concept NumberList = !ElementRange<T> &&
                     requires(T & list, const typename T::value_type* value) {
  requires Element<typename T::value_type>;
  list.push_back(*value);
  list.assign(value, value);
  requires std::same_as < std::ranges::range_reference_t<T>,
  typename T::value_type& > ;
};

// Returns the length of a stored array of one axis, or an error. Local.
StatusOr<int64_t> StoredLength(const StoredValue& stored);

// Stores one array, through a copy. Local.
template <NumberList L>
class NumberListHandler final : public Handler<L> {
 public:
  // Empty: stored as a plain array. Local.
  std::string typestr() const override { return ""; }
  bool HasFinalize() const override { return false; }
  Status ListForSave(L& list, State& parts) const override {
    Copy& copy = AddCopy(std::ranges::distance(list), parts);
    T* next = copy.values.get();
    for (const T& value : list) *next++ = value;
    return absl::OkStatus();
  }
  Status ListForRestore(L&, const StoredValue& stored,
                        State& parts) const override {
    const StatusOr<int64_t> length = StoredLength(stored);
    if (!length.ok()) return length.status();
    AddCopy(*length, parts);
    return absl::OkStatus();
  }
  Status Received(L& list, const StoredValue&, int,
                  State& more) const override {
    const Copy& copy = Owned<Copy>(more, 0);
    list.assign(copy.values.get(), copy.values.get() + copy.length);
    return absl::OkStatus();
  }

 private:
  using T = typename L::value_type;
  struct Copy {
    int64_t length;
    std::unique_ptr<T[]> values =
        std::make_unique<T[]>(static_cast<size_t>(length));
  };
  static Copy& AddCopy(int64_t length, State& parts) {
    Copy& copy = Own(parts, std::shared_ptr<Copy>(new Copy{.length = length}));
    parts.AddReplicated("", Shape{length}, AtAddress(copy.values.get()));
    return copy;
  }
};

// Stores two arrays: the concatenated strings, and their ends. Local.
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

// Stores one array. Local.
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
template <standard::KeyedMap M>
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
template <standard::NumberList L>
struct StandardHandler<L> {
  static TypeHandlerPtr Get() {
    return standard::Shared<standard::NumberListHandler<L>>();
  }
};

// Local.
template <typename A, typename B>
struct StandardHandler<std::pair<A, B>> {
  static TypeHandlerPtr Get() {
    return standard::Shared<standard::TupleHandler<std::pair<A, B>>>();
  }
};

// Local.
template <typename... Ts>
struct StandardHandler<std::tuple<Ts...>> {
  static TypeHandlerPtr Get() {
    return standard::Shared<standard::TupleHandler<std::tuple<Ts...>>>();
  }
};

// Local.
template <typename T, size_t kLength>
struct StandardHandler<std::array<T, kLength>> {
  static TypeHandlerPtr Get() {
    return standard::Shared<standard::TupleHandler<std::array<T, kLength>>>();
  }
};

// Local.
template <typename... Ts>
struct StandardHandler<std::variant<Ts...>> {
  static TypeHandlerPtr Get() {
    return standard::Shared<standard::VariantHandler<Ts...>>();
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

#include "belay/extend/state.h"
#include "belay/handlers/random_handlers.h"  // IWYU pragma: export
#include "belay/handlers/time_handlers.h"    // IWYU pragma: export

#endif  // BELAY_HANDLERS_STANDARD_HANDLERS_H_
