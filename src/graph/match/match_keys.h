// How values of the program are found by the keys of a checkpoint. Pure.

#ifndef BELAY_GRAPH_MATCH_MATCH_KEYS_H_
#define BELAY_GRAPH_MATCH_MATCH_KEYS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "graph/live_graph.h"
#include "graph/match/graph_match.h"
#include "graph/object_graph.h"
#include "plan/restore_choice.h"

namespace belay {

// Whether the arguments say what a value is restored from.
bool SaysWhere(const RestoreChoice& choice);

// The path as other programs may have written it: "model/dense/kernel".
std::string PlainName(const LiveGraph& live, const LiveValue& value);

absl::string_view WithoutSlash(absl::string_view key);

// Skips the live save counter if none is stored: SaveAs does not count.
void SkipAbsentSaveCounter(const ObjectGraph& saved, const LiveGraph& live,
                           std::vector<RestoreChoice>& choices);

// By live node, whether its arguments say enough of all its values and of those
// of the objects below it.
std::vector<bool> AreSettled(const LiveGraph& live,
                             const std::vector<RestoreChoice>& choices,
                             const std::vector<bool>& is_matched);

// By key, the stored node and the number of the attribute in it.
using AttributePlaces =
    absl::flat_hash_map<absl::string_view, std::pair<int32_t, size_t>>;

// Borrows from the graph.
AttributePlaces PlacesByKey(const ObjectGraph& saved);

struct SourceMatch {
  // The keys are those of the transform, in order. Empty: one is not stored.
  std::vector<std::pair<int32_t, size_t>> places;
  // What is computed has another type than the value; `attribute` is not set.
  std::optional<Mismatch> difference;
  bool fits = true;  // as far as the graph tells
};

// Finds what a value is computed from, by its arguments.
SourceMatch FindSources(const ObjectGraph& saved, const AttributePlaces& places,
                        const LiveValue& value, const GraphAttribute& own,
                        const RestoreChoice& choice);

}  // namespace belay

#endif  // BELAY_GRAPH_MATCH_MATCH_KEYS_H_
