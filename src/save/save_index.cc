#include "base/status_macros.h"
#include "graph/stored_graph_conversion.h"
#include "io/index/index_file.h"
#include "pipeline/listing.h"
#include "plan/save/save_args.h"
#include "save/save_run.h"

namespace belay {
namespace {

// The graph as columns, with the dtypes that its values are stored in.
StatusOr<StoredGraph> GraphToStore(SaveRun& run) {
  SavedCheckpoint& saved = run.cache.planned.saved;
  if (StoresAllAsTheyAre(run.options)) {
    return ToStoredGraph(*run.graph, saved.arrays, saved.values);
  }
  BELAY_ASSIGN_OR_RETURN(const ArgsByKey args, CompileArgs(run.options.args));
  ObjectGraph graph = *run.graph;
  for (GraphNode& node : graph.nodes) {
    for (GraphAttribute& attribute : node.attributes) {
      if (attribute.has_handler()) continue;
      BELAY_ASSIGN_OR_RETURN(
          attribute.dtype,
          StoredDType(args, run.options, attribute.key, attribute.dtype));
    }
  }
  return ToStoredGraph(graph, saved.arrays, saved.values);
}

// The index says once how an array is laid out: where its object is, if it has
// one.
void LeaveLayoutsToGraph(SavedCheckpoint& saved) {
  const StoredGraph& graph = saved.graph;
  for (size_t i = 0; i < graph.attribute_array.size(); ++i) {
    if (!graph.attribute_layout[i].empty()) {
      saved.arrays[graph.attribute_array[i]].layout.clear();
    }
  }
}

}  // namespace

Status PrepareIndex(SaveRun& run) {
  run.has_index = true;
  if (run.reuse) return CreateIndexFromImage(run.IndexPath(), run.cache.index);
  SavedCheckpoint& saved = run.cache.planned.saved;
  saved.has_checksums = run.options.checksums;
  if (run.graph != nullptr) {
    BELAY_ASSIGN_OR_RETURN(saved.graph, GraphToStore(run));
    LeaveLayoutsToGraph(saved);
  }
  BELAY_ASSIGN_OR_RETURN(run.cache.index, CreateIndex(run.IndexPath(), saved));
  return absl::OkStatus();
}

}  // namespace belay
