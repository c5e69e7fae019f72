// How the values of matched objects are found in a checkpoint, and whether
// they fit.

#ifndef BELAY_GRAPH_MATCH_KEYS_H_
#define BELAY_GRAPH_MATCH_KEYS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "belay/arrays/shard.h"
#include "belay/objects/load_status.h"
#include "belay/values/transform.h"
#include "graph/graph_match.h"
#include "graph/live_graph.h"
#include "graph/object_graph.h"
#include "plan/stored_values.h"

namespace belay {

// How values of the program are found by the keys of a checkpoint.

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

// Whether a stored value can be given to one of the program.

// What the type of a value with a handler begins with in messages.
inline constexpr std::string_view kTypeText = "type ";

// The type of a value in messages: "f32 [4, 3]", "type sparse".
std::string TypeText(const GraphAttribute& attribute);

// The attribute of a value whose container takes the stored length, as it is
// then; nothing if it stays as it is.
std::optional<GraphAttribute> FittedTo(const GraphAttribute& stored,
                                       const std::vector<Shard>& shards,
                                       const GraphAttribute& needed);

// What a transform makes of stored values, which `find` gives by key, or null.
// Nothing if it cannot be made: reading says why.
std::optional<GraphAttribute> ResultOf(
    const Transform& transform,
    absl::FunctionRef<const GraphAttribute*(const std::string& key)> find);

// Whether the values of two attributes are of one kind. A handler says for
// itself what it makes of what is stored.
bool IsSameKind(const GraphAttribute& stored, const GraphAttribute& needed);

// Whether the value of an attribute can be given to another, of another kind.
bool Fits(const GraphAttribute& stored, const GraphAttribute& needed,
          Tolerance tolerance);

// What helps against the differences of these values: the options that let them
// pass, and which value none of them does. "" for no values.
std::string MismatchAdvice(const std::vector<DifferentValue>& values);

}  // namespace belay

#endif  // BELAY_GRAPH_MATCH_KEYS_H_
