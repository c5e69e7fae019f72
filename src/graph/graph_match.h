// Matches the objects and values of the program with those of a checkpoint.

#ifndef BELAY_GRAPH_GRAPH_MATCH_H_
#define BELAY_GRAPH_GRAPH_MATCH_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "belay/objects/load_status.h"
#include "belay/objects/trackable.h"
#include "belay/status.h"
#include "graph/live_graph.h"
#include "graph/object_graph.h"
#include "plan/stored_values.h"

namespace belay {

// The objects of the program at an earlier time, without their values.
struct KnownObjects {
  ObjectGraph graph;
  std::vector<ObjectId> ids;  // by node
};

// Objects are matched along the edges from the root, never by the text of keys:
// an object that a matched object holds under a name is matched with the one
// that the stored object held under that name. Objects that the program creates
// later are matched later, by calling again.

// The child of the root that belay counts saves with. A checkpoint may lack it.
inline constexpr std::string_view kSaveCounter = "save_counter";
// The key of its value. Arguments do not apply to it, since the program does
// not know of it.
const std::string& SaveCounterKey();

// A restore that the program requested, and the matches so far.
struct Restoration {
  // Increases from restore to restore.
  int64_t number = 1;
  // If `by_name`: one node whose attributes are all arrays.
  ObjectGraph saved;
  bool by_name = false;
  // By stored node: the matched object, or nobody.
  std::vector<ObjectId> bound = {};
};

// The values that a restore has read already.
struct RestoredNumbers {
  // All objects when this was updated last.
  KnownObjects objects;
  // By object and name of the value: the number of the restore.
  absl::flat_hash_map<std::pair<ObjectId, std::string>, int64_t> numbers;
};

enum class NodeMatch : uint8_t {
  kAbsent,    // nobody holds it
  kDeferred,  // its holder is there, it is not
  kBound,
};

enum class AttributeUse : uint8_t {
  kUnused,
  kSkipped,  // the program has a value for it, which the arguments leave alone
  kUsed,
};

// A value whose stored counterpart has another dtype or shape.
struct Mismatch {
  int64_t attribute = 0;  // of the stored graph, counted over all nodes
  std::string key;        // of the program's value
  std::string needed;
  std::string found;

  friend auto operator<=>(const Mismatch&, const Mismatch&) = default;
};
template <typename Archive>
void Fields(Archive& archive, Mismatch& mismatch) {
  archive(mismatch.attribute, mismatch.key, mismatch.needed, mismatch.found);
}

// The match as a rank reports it.
struct RankMatch {
  int rank = 0;
  std::vector<NodeMatch> nodes;  // by stored node
  // By stored attribute, counted over all nodes.
  std::vector<AttributeUse> used;
  // Used attributes whose key in the program differs.
  std::vector<std::pair<int64_t, std::string>> renamed;
  std::vector<Mismatch> mismatches;
  std::vector<Mismatch> conversions;  // the same of used ones
  std::vector<std::string> missing;   // keys of the program that are not stored
  // Keys that are not stored and may be absent.
  std::vector<std::string> defaulted;
  // Objects of the program that hold values and match nothing.
  std::vector<std::string> unmatched_objects;
  std::vector<std::string> warnings;
};
template <typename Archive>
void Fields(Archive& archive, RankMatch& match) {
  archive(match.rank, match.nodes, match.used, match.renamed, match.mismatches,
          match.conversions, match.missing, match.defaulted,
          match.unmatched_objects, match.warnings);
}

struct MatchResult {
  RankMatch rank_match;
  std::vector<int32_t> live_nodes;  // by stored node, or -1
  // The values to read, with their keys in the file: those that no restore of
  // this or a larger number has read.
  std::vector<KeyedValue> reads;
};

// Matches the objects. A stored object keeps the first object that it is
// matched with; another one causes a warning, unless it is empty here. Several
// stored objects may match one object: each value is read from the first that
// has it. `choices` is empty or has one element for each of live.values; a
// value with a stored_key is matched by that key alone.
MatchResult MatchObjects(const Restoration& restoration, const LiveGraph& live,
                         const RestoredNumbers& restored, int rank,
                         std::vector<RestoreChoice> choices = {});

// Records that the values were read, and forgets objects that are gone.
void RememberMatch(const LiveGraph& live, const MatchResult& match,
                   Restoration& restoration, RestoredNumbers& restored);

// Returns a graph for Restoration::by_name. Only key, dtype and shape of the
// arrays matter.
ObjectGraph GraphOfArrays(std::vector<GraphAttribute> arrays);

// The type of a value with a handler begins with this in messages.
inline constexpr std::string_view kTypeText = "type ";

// Returns which options let these differences pass, and the first value that no
// option helps. "" for no values.
std::string MismatchAdvice(const std::vector<DifferentValue>& values);

}  // namespace belay

#endif  // BELAY_GRAPH_GRAPH_MATCH_H_
