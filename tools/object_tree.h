// Prints the objects of a checkpoint as a tree.

#ifndef BELAY_TOOLS_OBJECT_TREE_H_
#define BELAY_TOOLS_OBJECT_TREE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "belay/checkpoint_reader.h"
#include "belay/objects/object_info.h"

namespace belay::tools {

struct TreeOptions {
  std::optional<int64_t> depth;  // number of levels below the root; unset: all
  bool values = true;            // false: only objects that hold something
  bool color = false;
};

// Returns a line for each object and value, with the total bytes of everything
// below it. An object that is held more than once is shown at its path, and as
// a reference elsewhere. `arrays` are those of the checkpoint, ascending by
// key.
std::string ObjectTreeText(const std::vector<ObjectInfo>& objects,
                           const std::vector<ArrayInfo>& arrays,
                           const TreeOptions& options);

}  // namespace belay::tools

#endif  // BELAY_TOOLS_OBJECT_TREE_H_
