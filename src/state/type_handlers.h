// The registry of type handlers, and how a restore chooses what to read.

#ifndef BELAY_STATE_TYPE_HANDLERS_H_
#define BELAY_STATE_TYPE_HANDLERS_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <typeindex>
#include <unordered_map>
#include <vector>

#include "belay/extend/type_handler_registry.h"
#include "belay/options.h"
#include "belay/status.h"
#include "core/keys.h"
#include "plan/stored_values.h"

namespace belay {

// A snapshot of the entries of a registry.

struct HandlerTable {
  struct Entry {
    std::type_index type;
    std::function<bool(std::type_index)> accepts;  // empty: `type` only
    TypeHandlerPtr handler;
    std::string typestr;
  };

  std::vector<Entry> entries;

  // Returns the first entry for a type, or null.
  const Entry* Find(std::type_index type) const;
  const Entry* FindTypestr(std::string_view typestr) const;
  // Adds an entry as TypeHandlerRegistry::Add does.
  Status Add(HandlerEntry added);
};

// Returns the entries of a registry, or of the global one if it is null.
std::shared_ptr<const HandlerTable> GetHandlers(
    const TypeHandlerRegistry* registry);

// Returns everything that any of these options tolerates.
Tolerance MostTolerance(const RestoreOptions& options);

// Sets the transform of a choice, or only the stored key if the transform is
// just a stored array.
void TakeFrom(const Transform& transform, RestoreChoice& choice);

// The arguments of a restore, compiled for many keys. Borrows the options.
class RestoreChooser {
 public:
  // Errors: InvalidArgument - an invalid expression, a stored key with a group
  //   that its expression does not have, or both stored_key and transform;
  //   names the entry.
  static StatusOr<RestoreChooser> Create(const RestoreOptions& options);

  // Returns the choice for the program's value under `key`.
  RestoreChoice Choose(std::string_view key) const;

  // The expressions of the entries.
  const KeyPatterns& patterns() const { return patterns_; }

 private:
  const RestoreOptions* options_ = nullptr;
  KeyPatterns patterns_;
};

// Encodes the arguments for the fingerprint of the options.
std::string EncodeArgs(const std::vector<RestoreArgsFor>& args);

}  // namespace belay

#endif  // BELAY_STATE_TYPE_HANDLERS_H_
