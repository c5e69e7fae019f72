// Which objects of the program are those of a checkpoint.

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

// Which objects of the program are those that were there before.

// The objects of the program as they once were, without their values.
struct KnownObjects {
  ObjectGraph graph;
  std::vector<ObjectId> ids;  // by node
};

KnownObjects KnownObjectsOf(const LiveGraph& live);

// For each node of `live`, whether it is an object of `before`. Memory is used
// again, so an address alone does not say so: a path that led to the object has
// to lead to it still, through objects that are known as well. A new object
// with both the address and a path of one that is gone cannot be told from it.
std::vector<bool> FindKnown(const KnownObjects& before, const LiveGraph& live);

// Which stored value belongs to which value of the program.
//
// Objects are matched along the edges from the root, never by the text of keys:
// the root is the root, and what a matched object holds under a name is what
// the stored one held under that name. Objects of the program that come into
// being later are matched later, by calling again.

// A child of the root under this name may be absent from a checkpoint.
inline constexpr std::string_view kSaveCounter = "save_counter";
// The key of its value. The arguments of saves and restores are not for it: the
// program does not know that it is there.
const std::string& SaveCounterKey();

// One restore that was asked for, and what came of it so far.
struct Restoration {
  // Of two restores the later one has the larger number.
  int64_t number = 1;
  // If `by_name`, one node whose attributes have the keys of all arrays.
  ObjectGraph saved;
  bool by_name = false;
  // By stored node: the object that it was matched with, or nobody.
  std::vector<ObjectId> bound = {};
};

// What has its value from a restore already.
struct RestoredNumbers {
  // All objects, as they were when something was last noted here.
  KnownObjects objects;
  // By object and name of the value: the number of the restore.
  absl::flat_hash_map<std::pair<ObjectId, std::string>, int64_t> numbers;
};

// What is found out about a stored node.
enum class NodeMatch : uint8_t {
  kAbsent,    // nobody holds it
  kDeferred,  // its holder is there, it is not
  kBound,
};

// What becomes of a stored attribute.
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
};

// What a rank tells the others of its match.
struct RankMatch {
  int rank = 0;
  std::vector<NodeMatch> nodes;  // by stored node
  // By stored attribute, counted over all nodes.
  std::vector<AttributeUse> used;
  // Used attributes whose key is another one in the program.
  std::vector<std::pair<int64_t, std::string>> renamed;
  std::vector<Mismatch> mismatches;
  std::vector<Mismatch> conversions;  // the same of used ones
  std::vector<std::string> missing;   // keys of the program that are not stored
  // The same where the arguments allow it.
  std::vector<std::string> defaulted;
  // Objects of the program that hold values and match nothing.
  std::vector<std::string> unmatched_objects;
  std::vector<std::string> warnings;
};

struct MatchResult {
  RankMatch rank_match;
  std::vector<int32_t> live_nodes;  // by stored node, or -1
  // What to read now: values that no restore of this or a larger number has
  // read yet, and the keys that they have in the file.
  std::vector<KeyedValue> reads;
};

// Matches the objects. The first object that a stored one is matched with
// stays; another one is a warning, unless it is empty here. Several stored
// objects may be matched with one object: each value is read from the first
// that has it. What was noted of an object holds for as long as it has its
// address and a path of those that it had: see FindKnown. `choices` has one for
// each of live.values, or is empty; a value with a stored_key is matched by
// that key alone.
MatchResult MatchObjects(const Restoration& restoration, const LiveGraph& live,
                         const RestoredNumbers& restored, int rank,
                         std::vector<RestoreChoice> choices = {});

// Notes that what MatchObjects said was read, and forgets objects that are
// gone.
void RememberMatch(const LiveGraph& live, const MatchResult& match,
                   Restoration& restoration, RestoredNumbers& restored);

// A graph for Restoration::by_name, for files that have none. Only key, dtype
// and shape of the arrays count.
ObjectGraph GraphOfArrays(std::vector<GraphAttribute> arrays);

// The type of a value with a handler begins with this in messages.
inline constexpr std::string_view kTypeText = "type ";

// Returns which options let these differences pass, and the first value that no
// option helps. "" for no values.
std::string MismatchAdvice(const std::vector<DifferentValue>& values);

// What a rank tells as bytes, and back.
// Errors: DataLoss - not such bytes.
std::string EncodeRankMatch(const RankMatch& match);
StatusOr<RankMatch> DecodeRankMatch(std::string_view bytes);

}  // namespace belay

#endif  // BELAY_GRAPH_GRAPH_MATCH_H_
