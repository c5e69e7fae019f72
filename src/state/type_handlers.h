// Handlers of types: their registry, and how a restore chooses.

#ifndef BELAY_STATE_TYPE_HANDLERS_H_
#define BELAY_STATE_TYPE_HANDLERS_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <typeindex>
#include <unordered_map>
#include <vector>

#include "belay/handlers/type_handler_registry.h"
#include "belay/options.h"
#include "belay/status.h"
#include "core/keys.h"
#include "plan/stored_values.h"

namespace belay {

// The entries of a registry at one moment.

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

// Which arguments of a restore are for which value.

// The most that differs under any of these options.
Tolerance MostTolerance(const RestoreOptions& options);

// Says in a choice what a value is made of: a stored array as it is needs no
// computing.
void TakeFrom(const Transform& transform, RestoreChoice& choice);

// The arguments of a restore, ready to be asked for many keys. Borrows the
// options.
class RestoreChooser {
 public:
  // Errors: InvalidArgument - an expression that is none, or a stored_key with
  //   a group that its expression does not have; names the entry.
  static StatusOr<RestoreChooser> Create(const RestoreOptions& options);

  // Returns what becomes of the value that the program has under `key`.
  // Without an entry for it, it is as the options say.
  RestoreChoice Choose(std::string_view key) const;

  // The expressions of the entries.
  const KeyPatterns& patterns() const { return patterns_; }

 private:
  const RestoreOptions* options_ = nullptr;
  KeyPatterns patterns_;
};

// For the fingerprint of the options.
std::string EncodeArgs(const std::vector<RestoreArgsFor>& args);

}  // namespace belay

#endif  // BELAY_STATE_TYPE_HANDLERS_H_
