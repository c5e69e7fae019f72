// Trees of stored values: their structure, and memory for their leaves.

#ifndef BELAY_STATE_VALUE_TREE_H_
#define BELAY_STATE_VALUE_TREE_H_

#include <string>
#include <vector>

#include "belay/extend/type_handler.h"
#include "belay/handlers/value_tree.h"
#include "belay/state.h"
#include "belay/status.h"

namespace belay {

// Gives `tree` the structure of `stored`, and allocates its leaves. Keeps the
// name of the tree. The key "" is the root of a whole checkpoint. Throws
// std::bad_alloc.
// Errors: InvalidArgument - names are nested too deeply.
Status BuildTree(const StoredValue& stored, ValueTree& tree);

// A leaf of a tree, and its path below the root: "a/b", or "" for the root.
struct TreeLeaf {
  std::string path;
  ValueTree* node = nullptr;
};
std::vector<TreeLeaf> ListLeaves(ValueTree& tree);

// Builds the tree, and adds its leaves to `state` under their paths.
Status AddTree(const StoredValue& stored, ValueTree& tree, State& state);

// Returns all values of a checkpoint as one group with the key "".
StoredValue WholeCheckpoint(const std::vector<StoredValue>& all);

}  // namespace belay

#endif  // BELAY_STATE_VALUE_TREE_H_
