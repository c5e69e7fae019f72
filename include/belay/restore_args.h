// How single values are restored, beside RestoreOptions, which is for all.
//
//   RestoreOptions options;
//   options.args = {{"encoder/(.*)", {.stored_key = "enc/\\1"}},  // renamed
//                   {ExactKey("head/w"), {.allow_missing = true}},
//                   {KeyPrefix("adam/"), {.skip = true}}};

#ifndef BELAY_RESTORE_ARGS_H_
#define BELAY_RESTORE_ARGS_H_

#include <optional>
#include <string>
#include <string_view>

#include "belay/box.h"
#include "belay/dtype.h"
#include "belay/layout.h"
#include "belay/transform.h"

namespace belay {

// How a value of the program is restored.
struct RestoreArgs {
  // Leave the program's value as it is, and read nothing. (Orbax's
  // placeholder.)
  bool skip = false;
  // The key in the checkpoint, where it is another one than the program's: \1
  // is what the first group of `keys` matches, \0 the whole key.
  std::string stored_key;
  // Where it is not stored, leave the program's value as it is: its default.
  // RestoreResult::missing lists such values.
  bool allow_missing = false;
  // Unset: what RestoreOptions says.
  std::optional<bool> allow_dtype_cast;
  std::optional<bool> allow_shape_mismatch;
  // Compute it from stored arrays instead. For arrays and numbers without
  // handlers; excludes `stored_key`. The result may differ from the program's
  // value as a stored array may.
  Transform transform;

  friend bool operator==(const RestoreArgs&, const RestoreArgs&) = default;
};

// Arguments for the program's values whose whole key matches `keys`, a regular
// expression in RE2's syntax.
struct RestoreArgsFor {
  std::string keys;
  RestoreArgs args;
};

// Returns an expression that matches this key alone. Local.
std::string ExactKey(std::string_view key);

// Returns an expression that matches all keys that begin so. Local.
std::string KeyPrefix(std::string_view prefix);

// How RestoreValues restores an array. A text is skipped or read; it has
// nothing else.
struct ArrayRestoreArgs {
  // Do not read it.
  bool skip = false;
  // Unset: as it is stored. What RestoreOptions::allow_dtype_cast says of
  // conversions holds.
  std::optional<DType> dtype;
  // Unset: as it is stored. Another shape is an error, unless `strict` is off:
  // then elements keep their place, what lies outside is left out, and what is
  // not stored is zero. The number of axes stays.
  std::optional<Shape> global_shape;
  bool strict = true;
  // The piece of this rank. Unset: all of it on every rank.
  std::optional<Layout> layout;
  // The layout that it was saved with, see Layout::OnRanks; all of it on every
  // rank where none is stored. Excludes `layout`.
  bool stored_layout = false;
};

// Arguments for the values whose whole key matches `keys`, a regular expression
// in RE2's syntax.
struct ArrayRestoreArgsFor {
  std::string keys;
  ArrayRestoreArgs args;
};

}  // namespace belay

#endif  // BELAY_RESTORE_ARGS_H_
