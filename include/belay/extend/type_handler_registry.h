// Registry of type handlers: which handler stores which C++ type.
//
//   Status status = RegisterTypeHandler<Mask>(std::make_shared<MaskHandler>());
//
// There is one global registry. A save or a restore may use another one
// (SaveOptions::handlers); then only its entries are used.
//
// Numbers, enums, strings, contiguous ranges of numbers, tensors and sharded
// variables need no handler. An entry for such a type takes precedence.

#ifndef BELAY_EXTEND_TYPE_HANDLER_REGISTRY_H_
#define BELAY_EXTEND_TYPE_HANDLER_REGISTRY_H_

#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeindex>
#include <typeinfo>
#include <utility>
#include <vector>

#include "belay/extend/type_handler.h"
#include "belay/status.h"

namespace belay {

struct HandlerTable;

struct HandlerOptions {
  // Returns whether the entry handles a type; empty: only its own type. A
  // handler for several types is a TypeHandler, which checks the type of each
  // value.
  std::function<bool(std::type_index)> accepts = {};
  // Replace an existing entry for this type instead of returning an error.
  // Without `accepts`, the entry keeps its set of types.
  bool override_existing = false;
};

// One entry of a registry.
struct HandlerEntry {
  std::type_index type;
  TypeHandlerPtr handler;
  HandlerOptions options = {};
};

// Returns the entry of a type. Local.
template <typename T>
HandlerEntry EntryFor(TypeHandlerPtr handler, HandlerOptions options = {}) {
  static_assert(std::is_same_v<T, std::remove_cvref_t<T>>,
                "belay stores values, no references, and none that are const");
  return {typeid(T), std::move(handler), std::move(options)};
}

// Entries in the order in which they were added; the first one for a type is
// used. May be used by many threads at the same time: a save uses the entries
// that existed when it began. Move only.
class TypeHandlerRegistry {
 public:
  TypeHandlerRegistry();
  ~TypeHandlerRegistry();
  TypeHandlerRegistry(TypeHandlerRegistry&&) noexcept;
  TypeHandlerRegistry& operator=(TypeHandlerRegistry&&) noexcept;

  // Appends an entry. With override_existing, it replaces the entry of the same
  // type. If the type is one of several that another entry accepts, the new
  // entry goes before that one, which stays in use for its other types. The
  // replaced handler is no longer found by its typestr. Local. One handler may
  // have several entries.
  // Errors: AlreadyExists - there is an entry for this type and it is not
  //   overridden, or another handler, or belay itself, uses this typestr;
  //   InvalidArgument - the handler is null, its typestr is empty or has a NUL
  //   byte, or `accepts` refuses the type of the entry or throws.
  Status Add(HandlerEntry entry);
  // The same. Local.
  template <typename T>
  Status Add(TypeHandlerPtr handler, HandlerOptions options = {}) {
    return Add(EntryFor<T>(std::move(handler), std::move(options)));
  }

  // Returns the handler for a type. Local.
  // Errors: NotFound - there is none; names the type.
  StatusOr<TypeHandlerPtr> Get(std::type_index type) const;
  // The same. Local.
  template <typename T>
  StatusOr<TypeHandlerPtr> Get() const {
    return Get(typeid(T));
  }

  // Returns the handler with that typestr. Local.
  // Errors: NotFound - there is none; names the existing ones.
  StatusOr<TypeHandlerPtr> GetByTypestr(std::string_view typestr) const;

  // Returns whether Get finds a handler. Local.
  bool Has(std::type_index type) const;
  // The same. Local.
  template <typename T>
  bool Has() const {
    return Has(typeid(T));
  }

  // Returns the typestrs of all entries, in their order. Local.
  std::vector<std::string> Typestrs() const;

 private:
  friend std::shared_ptr<const HandlerTable> GetHandlers(
      const TypeHandlerRegistry* registry);

  struct Impl;
  // The current entries.
  std::shared_ptr<const HandlerTable> table() const;

  std::unique_ptr<Impl> impl_;
};

// Returns a registry with only these entries. Local.
// Errors: those of Add.
StatusOr<TypeHandlerRegistry> CreateTypeHandlerRegistry(
    std::initializer_list<HandlerEntry> entries);

// Returns the global registry. Local.
TypeHandlerRegistry& GlobalTypeHandlerRegistry();

// As Add, Get and Has of the global registry. Local.
template <typename T>
Status RegisterTypeHandler(TypeHandlerPtr handler,
                           HandlerOptions options = {}) {
  return GlobalTypeHandlerRegistry().Add<T>(std::move(handler),
                                            std::move(options));
}
// Local.
template <typename T>
StatusOr<TypeHandlerPtr> GetTypeHandler() {
  return GlobalTypeHandlerRegistry().Get<T>();
}
// Local.
template <typename T>
bool HasTypeHandler() {
  return GlobalTypeHandlerRegistry().Has<T>();
}

}  // namespace belay

#endif  // BELAY_EXTEND_TYPE_HANDLER_REGISTRY_H_
