// How single values are restored, beside RestoreOptions, which is for all.

#ifndef BELAY_RESTORE_ARGS_H_
#define BELAY_RESTORE_ARGS_H_

#include <optional>
#include <string>

#include "belay/box.h"
#include "belay/dtype.h"
#include "belay/layout.h"

namespace belay {

// How RestoreValues restores an array. A text is skipped or read; it has nothing else.
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
