// The index of a save.
#include <memory>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "graph/stored_graph_conversion.h"
#include "io/index/index_file.h"
#include "pipeline/listing.h"
#include "plan/save/save_args.h"
#include "save/save_stages.h"

namespace belay {
namespace {

// The graph as columns, with the dtypes that its values are stored in.
StatusOr<StoredGraph> GraphToStore(const ObjectGraph& live,
                                   const SaveOptions& options,
                                   SavedCheckpoint& saved) {
  if (StoresAllAsTheyAre(options)) {
    return ToStoredGraph(live, saved.arrays, saved.values);
  }
  BELAY_ASSIGN_OR_RETURN(const ArgsByKey args, CompileArgs(options.args));
  ObjectGraph graph = live;
  for (GraphNode& node : graph.nodes) {
    for (GraphAttribute& attribute : node.attributes) {
      if (attribute.has_handler()) continue;
      BELAY_ASSIGN_OR_RETURN(
          attribute.dtype,
          StoredDType(args, options, attribute.key, attribute.dtype));
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

// How long files with filters are shows when they are written.
bool IndexCreation::IsDue() const {
  return frame_.context.is_root() && !is_created_ && !plan_.planned.has_filters;
}

Status IndexCreation::Prepare() {
  if (reuse_ || draft_) return absl::OkStatus();
  SavedCheckpoint& saved = plan_.planned.saved;
  saved.has_checksums = frame_.options.checksums;
  if (graph_ != nullptr) {
    BELAY_ASSIGN_OR_RETURN(saved.graph,
                           GraphToStore(*graph_, frame_.options, saved));
    LeaveLayoutsToGraph(saved);
  }
  BELAY_ASSIGN_OR_RETURN(draft_, DraftIndex(frame_.target.IndexPath(), saved));
  return absl::OkStatus();
}

Status IndexCreation::Create(LaterWrites* later) {
  if (is_created_) return absl::OkStatus();
  is_created_ = true;
  const std::string path = frame_.target.IndexPath();
  if (reuse_) {
    if (later == nullptr) return WriteNewIndex(path, *plan_.index);
    BELAY_RETURN_IF_ERROR(CreateEmptyIndex(path));
    later->push_back({.path = path,
                      .regions = {{0, plan_.index->bytes}},
                      .owner = plan_.index});
    return absl::OkStatus();
  }
  BELAY_RETURN_IF_ERROR(Prepare());
  plan_.index = std::make_shared<const IndexImage>(
      CompleteIndex(*std::move(draft_), plan_.planned.saved));
  return WriteNewIndex(path, *plan_.index);
}

}  // namespace belay
