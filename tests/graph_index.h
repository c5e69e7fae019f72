// Gives a step a graph, without the objects.

#ifndef BELAY_TESTS_GRAPH_INDEX_H_
#define BELAY_TESTS_GRAPH_INDEX_H_

#include <filesystem>
#include <string>
#include <utility>

#include "core/status_macros.h"
#include "create_index.h"
#include "format/paths.h"
#include "graph/object_graph.h"
#include "storage/index_file.h"

namespace belay {

// Writes the index of the step directory `dir` anew, with a graph of its
// arrays.
inline Status PutGraph(const std::string& dir, const ObjectGraph& graph) {
  BELAY_ASSIGN_OR_RETURN(SavedCheckpoint saved, ReadIndex(dir));
  BELAY_ASSIGN_OR_RETURN(saved.graph,
                         ToStoredGraph(graph, saved.arrays, saved.values));
  const std::string path = JoinPath(dir, IndexName());
  std::filesystem::remove(path);
  BELAY_ASSIGN_OR_RETURN(const IndexImage image, CreateIndex(path, saved));
  return FinishIndex(path, image, saved.step, saved.time, saved.checksums,
                     false);
}

}  // namespace belay

#endif  // BELAY_TESTS_GRAPH_INDEX_H_
