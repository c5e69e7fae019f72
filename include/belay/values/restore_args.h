// How individual values are restored; RestoreOptions applies to all values.
//
//   RestoreOptions options;
//   options.args = {{"encoder/(.*)", {.stored_key = "enc/\\1"}},  // renamed
//                   {ExactKey("head/w"), {.allow_missing = true}},
//                   {KeyPrefix("adam/"), {.skip = true}}};

#ifndef BELAY_VALUES_RESTORE_ARGS_H_
#define BELAY_VALUES_RESTORE_ARGS_H_

#include <optional>
#include <string>
#include <string_view>

#include "belay/arrays/box.h"
#include "belay/arrays/dtype.h"
#include "belay/arrays/layout.h"
#include "belay/values/transform.h"

namespace belay {

// How a value of the program is restored.
struct RestoreArgs {
  // Leave the program's value unchanged and read nothing. (Orbax's
  // placeholder.)
  bool skip = false;
  // The key in the checkpoint, if it differs from the program's: \1 stands for
  // the match of the first group of `keys`, \0 for the whole key.
  std::string stored_key;
  // If the value is not stored, leave the program's value unchanged, as its
  // default. RestoreResult::missing lists such values.
  bool allow_missing = false;
  // Unset: as in RestoreOptions.
  std::optional<bool> allow_dtype_cast;
  std::optional<bool> allow_shape_mismatch;
  // Compute the value from stored arrays instead. For arrays and numbers
  // without handlers; excludes `stored_key`. The result may differ from the
  // program's value in the same ways as a stored array.
  Transform transform;

  friend bool operator==(const RestoreArgs&, const RestoreArgs&) = default;
};

// Arguments for the program's values whose whole key matches `keys`, a regular
// expression in RE2's syntax.
struct RestoreArgsFor {
  std::string keys;
  RestoreArgs args;
};

// Returns an expression that matches only this key. Local.
std::string ExactKey(std::string_view key);

// Returns an expression that matches all keys with this prefix. Local.
std::string KeyPrefix(std::string_view prefix);

// How RestoreValues restores an array. For a string, only `skip` applies.
struct ArrayRestoreArgs {
  // Do not read it.
  bool skip = false;
  // Unset: as stored. RestoreOptions::allow_dtype_cast describes the
  // conversions.
  std::optional<DType> dtype;
  // Unset: as stored. A different shape is an error, unless `strict` is false.
  // Then elements keep their index, elements outside the shape are dropped, and
  // elements that are not stored are zero. The number of axes must be the same.
  std::optional<Shape> global_shape;
  bool strict = true;
  // The piece of this rank. Unset: every rank gets the whole array.
  std::optional<Layout> layout;
  // Use the layout it was saved with; see Layout::OnRanks. If none is stored,
  // every rank gets the whole array. Excludes `layout`.
  bool stored_layout = false;
};

// Arguments for the values whose whole key matches `keys`, a regular expression
// in RE2's syntax.
struct ArrayRestoreArgsFor {
  std::string keys;
  ArrayRestoreArgs args;
};

}  // namespace belay

#endif  // BELAY_VALUES_RESTORE_ARGS_H_
