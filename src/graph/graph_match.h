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
  std::vector<ObjectId> ids;  // per node
};

// Objects are matched along the edges from the root, never by the text of keys:
// if two objects match, the objects that they hold under the same name match as
// well. Objects that the program creates later are matched by a later call.

// The child of the root in which belay counts saves. A checkpoint may lack it.
inline constexpr std::string_view kSaveCounter = "save_counter";
// The key of its value. Arguments do not apply to it, since the program does
// not know this value.
const std::string& SaveCounterKey();

// A restore that the program requested, and the matches so far.
struct Restoration {
  // Increases with each restore.
  int64_t number = 1;
  // If `by_name`: one node, whose attributes are all values of the checkpoint.
  ObjectGraph saved;
  bool by_name = false;
  // The object matched with each stored node, or ObjectId().
  std::vector<ObjectId> bound = {};
};

// The values that restores have read so far.
struct RestoredNumbers {
  // All objects at the time of the last update.
  KnownObjects objects;
  // The number of the restore for each object and value name.
  absl::flat_hash_map<std::pair<ObjectId, std::string>, int64_t> numbers;
};

enum class NodeMatch : uint8_t {
  kAbsent,    // no object of the program matches
  kDeferred,  // its holder is matched, so it can match later
  kBound,
};

enum class AttributeUse : uint8_t {
  kUnused,
  kSkipped,  // the program has a value for it, which the arguments leave alone
  kUsed,
};

// A value whose stored counterpart has another dtype or shape.
struct Mismatch {
  int64_t attribute = 0;  // number in the stored graph, over all nodes
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
  std::vector<NodeMatch> nodes;  // per stored node
  // Per stored attribute, counted over all nodes.
  std::vector<AttributeUse> used;
  // Used attributes whose key in the program differs.
  std::vector<std::pair<int64_t, std::string>> renamed;
  std::vector<Mismatch> mismatches;
  std::vector<Mismatch> conversions;  // differences of used attributes
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
  std::vector<int32_t> live_nodes;  // per stored node; -1: none
  // The values to read, with their keys in the file. Omits values that a
  // restore with this or a larger number has read.
  std::vector<KeyedValue> reads;
};

// Matches the objects. A stored object keeps the first object that it is
// matched with. A second object causes a warning, unless that object is empty
// on this rank. Several stored objects may match one object: each value is then
// read from the first stored object that has it. `choices` is empty or has one
// element for each of live.values. A value with a stored_key is matched only by
// that key.
MatchResult MatchObjects(const Restoration& restoration, const LiveGraph& live,
                         const RestoredNumbers& restored, int rank,
                         std::vector<RestoreChoice> choices = {});

// Records that the values were read, and forgets objects that no longer exist.
void RememberMatch(const LiveGraph& live, const MatchResult& match,
                   Restoration& restoration, RestoredNumbers& restored);

// Returns a graph for Restoration::by_name. Only key, dtype and shape of the
// arrays matter.
ObjectGraph GraphOfArrays(std::vector<GraphAttribute> arrays);

// In messages, the type of a value with a handler begins with this text.
inline constexpr std::string_view kTypeText = "type ";

// Names the options that allow these differences, and the first value that no
// option can convert. Returns "" for no values.
std::string MismatchAdvice(const std::vector<DifferentValue>& values);

}  // namespace belay

#endif  // BELAY_GRAPH_GRAPH_MATCH_H_
