// What a copy of a step takes along, and what it makes of it; see
// copy_checkpoint.h.

#ifndef BELAY_COPY_OPTIONS_H_
#define BELAY_COPY_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "belay/options.h"
#include "belay/transform.h"

namespace belay {

// An array that a copy has instead of those from which it is computed.
struct ConversionRule {
  // A regular expression: the rule makes one array for each stored key that it
  // matches as a whole. Empty: one array in all.
  std::string keys;
  // Of the array that is made, and what it is. In both \1 is what the first
  // group of `keys` matches.
  std::string key;
  Transform value;
};

struct CopyOptions {
  // Regular expressions, each for whole keys: only the values whose keys match
  // one; empty: all. A value of several arrays is copied whole, or not at all.
  // A save counter always comes along.
  std::vector<std::string> keys = {};
  // Of those, not the values whose keys match one of these.
  std::vector<std::string> leave_out = {};
  // Arrays that rules compute from are not copied themselves, unless a rule
  // makes them under their own key.
  std::vector<ConversionRule> rules = {};
  // A directory in which a file without a name holds what lies between reading
  // and writing, so that it need not fit into memory; empty: memory. What a
  // rule does not take as it is stored, such as a transposed array, is in
  // memory besides until all is read.
  std::string scratch = {};
  // How the copy is saved. `check_replicas` and `cache` are not used; without
  // `metadata` that of the source is copied.
  SaveOptions save = {};
  // Of the read, as in RestoreOptions.
  bool checksums = true;
  // Called on each rank with the bytes of this rank that are written, and with
  // all of them. May be empty.
  std::function<void(int64_t done, int64_t total)> progress = nullptr;
};

}  // namespace belay

#endif  // BELAY_COPY_OPTIONS_H_
