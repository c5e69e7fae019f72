// Values of any structure, for a program that does not know their C++ types.
//
//   belay::ValueTree config;
//   state.Add("config", config);
//   ... Restore(...)
//   const belay::ValueTree* rate = config.Find("optimizer/rate");
//
// RestoreTree (restore_values.h) makes one of a whole step, and ReadTree
// (checkpoint_reader.h) without MPI.
// (Orbax's restore without an item.)

#ifndef BELAY_VALUE_TREE_H_
#define BELAY_VALUE_TREE_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "belay/tensor.h"
#include "belay/type_handler.h"

namespace belay {

// A value, and the values inside it. A State and a Tracker take one as they
// take a std::map: a restore makes it what is stored, a save stores it under
// the same typestr, on all ranks alike. Move only.
struct ValueTree {
  // Of an entry of a map its key, of an item of a list its number, else the
  // part of the key; "" of the root.
  std::string name;
  // As in StoredValue: "scalar", "array", "string", "None", "Dict", "List",
  // "group" (what has no value of its own), or that of the handler that has
  // stored it, whose parts are the items then.
  std::string typestr = std::string(kGroupTypestr);
  // The elements of a scalar or an array, and of a handler's only part.
  std::optional<Tensor> tensor = std::nullopt;
  // A string.
  std::optional<std::string> text = std::nullopt;
  // In the order of their names, those of a list in the order of their numbers.
  std::vector<ValueTree> items = {};

  bool is_none() const { return typestr == kNoneTypestr; }
  bool is_dict() const { return typestr == kDictTypestr; }
  bool is_list() const { return typestr == kListTypestr; }

  // Returns the value at a path of names with "/" between them, or null; "" is
  // this one. Local.
  const ValueTree* Find(std::string_view path) const;
  ValueTree* Find(std::string_view path);

  // Returns a line for each value: name, typestr, dtype and shape or the text.
  // Local.
  std::string ToString() const;
};

// What State::Add and Tracker::Value do with one. Local.
template <>
struct StandardHandler<ValueTree> {
  static TypeHandlerPtr Get();
};

}  // namespace belay

#endif  // BELAY_VALUE_TREE_H_
