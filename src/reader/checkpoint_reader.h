// A checkpoint as a reader sees it.

#ifndef BELAY_READER_CHECKPOINT_READER_H_
#define BELAY_READER_CHECKPOINT_READER_H_

#include "belay/checkpoint_reader.h"
#include "graph/object_graph.h"
#include "plan/stored_arrays.h"

namespace belay {

// A checkpoint as a user sees it.

// Both take much memory where there are many arrays, or long keys. `entries`
// are those of `saved`.
std::vector<ArrayInfo> ArraysOf(const SavedCheckpoint& saved,
                                const std::vector<ArrayEntry>& entries);
CheckpointInfo InfoOf(const std::string& path, const SavedCheckpoint& saved,
                      const std::vector<ArrayEntry>& entries);

// Returns the graph of the stored objects.
// Errors: DataLoss - it is impossible; ResourceExhausted - the paths of its
//   objects take too much memory.
StatusOr<ObjectGraph> ReadObjectGraph(const SavedCheckpoint& saved);

}  // namespace belay

#endif  // BELAY_READER_CHECKPOINT_READER_H_
