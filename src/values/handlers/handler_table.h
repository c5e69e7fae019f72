// The entries of a registry at one moment. Pure.

#ifndef BELAY_VALUES_HANDLERS_HANDLER_TABLE_H_
#define BELAY_VALUES_HANDLERS_HANDLER_TABLE_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <typeindex>
#include <unordered_map>
#include <vector>

#include "belay/handlers/type_handler_registry.h"

namespace belay {

struct HandlerTable {
  struct Entry {
    std::type_index type;
    std::function<bool(std::type_index)> accepts;  // empty: `type` only
    TypeHandlerPtr handler;
    std::string typestr;
  };

  std::vector<Entry> entries;
  // What Find looks at: of the entries for one type the first ones, and those
  // that have to be asked.
  std::unordered_map<std::type_index, size_t> by_type = {};
  std::vector<size_t> asked = {};

  // The first entry for a type, or null.
  const Entry* Find(std::type_index type) const;
  const Entry* FindTypestr(std::string_view typestr) const;
  // Adds an entry as TypeHandlerRegistry::Add does.
  Status Add(HandlerEntry added);

 private:
  void Index();
};

// The entries of a registry, or if it is null of that of the program.
std::shared_ptr<const HandlerTable> HandlersOf(
    const TypeHandlerRegistry* registry);

}  // namespace belay

#endif  // BELAY_VALUES_HANDLERS_HANDLER_TABLE_H_
