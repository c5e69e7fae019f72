// Trees of stored values: their structure, and memory for what they hold.

#ifndef BELAY_STATE_VALUE_TREE_H_
#define BELAY_STATE_VALUE_TREE_H_

#include <string>
#include <vector>

#include "belay/handlers/type_handler.h"
#include "belay/handlers/value_tree.h"
#include "belay/state.h"
#include "belay/status.h"

namespace belay {

// Trees of what is stored: their structure, and memory for what they hold.

// Makes `tree` what is stored, but for values and name: leaves have memory for
// theirs. The key of the parts is relative to that of `stored`; "" is the root
// of a whole checkpoint. Errors: InvalidArgument - names inside each other
// without end; throws
//   std::bad_alloc.
Status BuildTree(const StoredValue& stored, ValueTree& tree);

// A leaf of a tree, and where it is stored below the root: "a/b", or "" for the
// root itself.
struct TreeLeaf {
  std::string path;
  ValueTree* node = nullptr;
};
std::vector<TreeLeaf> LeavesOf(ValueTree& tree);

// Builds the tree, and adds its leaves to `state` under their paths.
// Errors: those of BuildTree and of the State.
Status AddTree(const StoredValue& stored, ValueTree& tree, State& state);

// All values of a checkpoint as one group with the key "".
StoredValue WholeCheckpoint(const std::vector<StoredValue>& all);

}  // namespace belay

#endif  // BELAY_STATE_VALUE_TREE_H_
