// The objects of a checkpoint, as the program described them when it saved
// (see trackable.h).

#ifndef BELAY_OBJECTS_OBJECT_INFO_H_
#define BELAY_OBJECTS_OBJECT_INFO_H_

#include <cstdint>
#include <string>
#include <vector>

#include "belay/cxx20.h"

namespace belay {

// A value of an object.
struct ObjectValue {
  std::string name;
  std::string key;      // of the array, for CheckpointReader
  std::string layout;   // as from Layout::ToString, or ""
  bool opaque = false;  // bytes that only the program can read
  // For a value that a handler stored: the handler's name. Its arrays are those
  // of CheckpointReader::Values.
  std::string typestr = {};
};

// An object that another one holds.
struct ObjectChild {
  std::string name;
  int64_t object = 0;
};

// State that an optimizer keeps for a variable, such as a momentum.
struct ObjectSlot {
  std::string name;
  int64_t variable = 0;  // an object
  int64_t object = 0;    // the slot's own
};

// Objects are numbered; 0 is the root. They may refer to each other in cycles.
struct ObjectInfo {
  // "(root).model.layers.0"; for a slot "(root).adam's state 'm' for
  // (root).model.w".
  std::string path;
  // Where the path comes from: the object that holds this one, or the variable
  // of a slot. Always a smaller number; -1 for the root.
  int64_t parent = -1;
  std::vector<ObjectValue> values;
  std::vector<ObjectChild> children;
  std::vector<ObjectSlot> slots;
};

}  // namespace belay

#endif  // BELAY_OBJECTS_OBJECT_INFO_H_
