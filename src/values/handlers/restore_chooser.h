// Which arguments of a restore are for which value. Pure.

#ifndef BELAY_VALUES_HANDLERS_RESTORE_CHOOSER_H_
#define BELAY_VALUES_HANDLERS_RESTORE_CHOOSER_H_

#include <string>
#include <string_view>
#include <vector>

#include "base/key_patterns.h"
#include "belay/options.h"
#include "belay/status.h"
#include "plan/restore_choice.h"

namespace belay {

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

#endif  // BELAY_VALUES_HANDLERS_RESTORE_CHOOSER_H_
