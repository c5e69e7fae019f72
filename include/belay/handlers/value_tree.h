// Values of any structure, for a program that does not know their C++ types.
//
//   belay::ValueTree config;
//   state.Add("config", config);
//   ... Restore(...)
//   const belay::ValueTree* rate = config.Find("optimizer/rate");
//
// RestoreTree (restore_values.h) returns one for a whole step; ReadTree
// (checkpoint_reader.h) does so without MPI. (Orbax's restore without an item.)

#ifndef BELAY_HANDLERS_VALUE_TREE_H_
#define BELAY_HANDLERS_VALUE_TREE_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "belay/arrays/tensor.h"
#include "belay/extend/type_handler.h"

namespace belay {

// A value and the values inside it. A State and a Tracker accept one like a
// std::map: a restore fills it with the stored values, and a save stores them
// under the same typestr, equal on all ranks. Move only.
struct ValueTree {
  // The key of a map entry, the number of a list item, else the part of the
  // key; "" for the root.
  std::string name;
  // As in StoredValue: "scalar", "array", "string", "None", "Dict", "List",
  // "group" (no value of its own), or that of the handler that stored it; the
  // items are then its parts.
  std::string typestr = std::string(kGroupTypestr);
  // The elements of a scalar or an array, or of a handler's only part.
  std::optional<Tensor> tensor = std::nullopt;
  // The value of a string.
  std::optional<std::string> text = std::nullopt;
  // Ordered by name; the items of a list by number.
  std::vector<ValueTree> items = {};

  bool is_none() const { return typestr == kNoneTypestr; }
  bool is_dict() const { return typestr == kDictTypestr; }
  bool is_list() const { return typestr == kListTypestr; }

  // Returns the value at a path of names separated by "/", or null; "" is this
  // value. Local.
  const ValueTree* Find(std::string_view path) const;
  ValueTree* Find(std::string_view path);

  // Returns a line for each value: name, typestr, dtype and shape or the text.
  // Local.
  std::string ToString() const;
};

// What State::Add and Tracker::Value do with a ValueTree. Local.
template <>
struct StandardHandler<ValueTree> {
  static TypeHandlerPtr Get();
};

}  // namespace belay

#endif  // BELAY_HANDLERS_VALUE_TREE_H_
