// What a copy of a step includes and how it is converted; see
// copy_checkpoint.h.

#ifndef BELAY_READER_COPY_OPTIONS_H_
#define BELAY_READER_COPY_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "belay/options.h"
#include "belay/values/transform.h"

namespace belay {

// An array that replaces those it is computed from in the copy.
struct ConversionRule {
  // A regular expression: the rule makes one array for each stored key that it
  // matches as a whole. Empty: one array in total.
  std::string keys;
  // The key and the value of the new array. In both, \1 stands for the match of
  // the first group of `keys`.
  std::string key;
  Transform value;
};

struct CopyOptions {
  // Regular expressions for whole keys: only values whose keys match one are
  // copied. Empty: all. A value that consists of several arrays is copied as a
  // whole or not at all. A save counter is always copied.
  std::vector<std::string> keys = {};
  // Of the selected values, omit those whose keys match one of these.
  std::vector<std::string> leave_out = {};
  // Arrays that rules compute from are not copied, unless a rule makes them
  // under their own key.
  std::vector<ConversionRule> rules = {};
  // Directory for an unnamed file that holds the data between reading and
  // writing, so that it need not fit into memory. Empty: use memory. Data that
  // a rule does not use as stored, such as a transposed array, is held in
  // memory until everything is read.
  std::string scratch = {};
  // How the copy is saved. `check_replicas` and `cache` are ignored. If
  // `metadata` is empty, the source's metadata is copied.
  SaveOptions save = {};
  // For the read, as in RestoreOptions.
  bool checksums = true;
  // Called on each rank with the bytes that this rank has written and its
  // total. May be empty.
  std::function<void(int64_t done, int64_t total)> progress = nullptr;
};

}  // namespace belay

#endif  // BELAY_READER_COPY_OPTIONS_H_
