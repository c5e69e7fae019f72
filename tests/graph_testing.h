// Objects for the tests of the object graph.

#ifndef BELAY_TESTS_GRAPH_TESTING_H_
#define BELAY_TESTS_GRAPH_TESTING_H_

#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "belay/objects/trackable.h"
#include "graph/graph_match.h"
#include "graph/live_graph.h"
#include "graph/load_report.h"
#include "graph/merge.h"
#include "graph/object_graph.h"
#include "gtest/gtest.h"
#include "thing.h"

namespace belay {

// The graph of an object that describes itself without a mistake.
inline LiveGraph Tracked(const ObjectRef& root,
                         const std::vector<Attached>& attached = {}) {
  StatusOr<LiveGraph> live = TrackObjects(root, 0, attached);
  EXPECT_EQ(live.status(), absl::OkStatus());
  if (!live.ok()) return {};
  EXPECT_EQ(CheckGraph(live->graph), absl::OkStatus());
  return *std::move(live);
}

inline std::string MistakeOf(const ObjectRef& root) {
  const StatusOr<LiveGraph> live = TrackObjects(root, 0);
  return std::string(live.status().message());
}

// All keys, by node.
inline std::vector<std::string> KeysOf(const ObjectGraph& graph) {
  std::vector<std::string> keys;
  for (const GraphNode& node : graph.nodes) {
    for (const auto& attribute : node.attributes) keys.push_back(attribute.key);
  }
  return keys;
}

// The graphs of these ranks in this order, equal ones as one.
inline std::vector<RankGraph> ListRanks(
    const std::vector<const ObjectGraph*>& graphs,
    const std::vector<int>& order) {
  std::vector<RankGraph> ranks;
  for (const int rank : order) {
    RankGraph& one = ranks.emplace_back();
    one = {.rank = rank, .graph = graphs[static_cast<size_t>(rank)]};
    for (const RankGraph& other : ranks) {
      if (*other.graph == *one.graph) one.graph = other.graph;
    }
  }
  return ranks;
}

// "program key <- stored key" of what is to be read.
inline std::vector<std::string> ReadsOf(const LiveGraph& live,
                                        const MatchResult& match) {
  std::vector<std::string> texts;
  for (const KeyedValue& read : match.reads) {
    texts.push_back(live.GetAttribute(live.values[read.value]).key + " <- " +
                    read.key);
  }
  return texts;
}

inline LoadStatus StatusOf(
    const ObjectGraph& saved, const MatchResult& match,
    LoadStatus::Kind kind = LoadStatus::Kind::kObjectGraph) {
  StatusOr<LoadReport> report = MakeLoadReport(saved, {match.rank_match});
  EXPECT_EQ(report.status(), absl::OkStatus());
  return LoadStatus(kind, report.ok() ? *std::move(report) : LoadReport());
}

// A restore by one rank, as a program sees it: what is read gets the value that
// `stored` has under the key.
struct Restorer {
  RestoredNumbers restored;
  int64_t number = 0;

  Restoration Ask(const ObjectGraph& saved) {
    return {.number = ++number, .saved = saved};
  }

  // Matches what is there now, reads it and remembers.
  LoadStatus Continue(Restoration& restoration, const LiveGraph& live,
                      const std::map<std::string, float>& stored = {}) {
    const MatchResult match = MatchObjects(restoration, live, restored, 0);
    const State state = ListValues(live, match.reads);
    for (const Shard& shard : state.shards()) {
      const auto found = stored.find(shard.key);
      if (found == stored.end()) continue;
      *static_cast<float*>(shard.data) = found->second;
    }
    RememberMatch(live, match, restoration, restored);
    return StatusOf(restoration.saved, match);
  }
};

// What a save of these objects stores, for Restorer.
inline std::map<std::string, float> Stored(const LiveGraph& live) {
  std::map<std::string, float> stored;
  const State state = ListValues(live, OwnKeys(live));
  for (const Shard& shard : state.shards()) {
    if (shard.dtype != DType::kF32 || shard.data == nullptr) continue;
    stored[shard.key] = *static_cast<const float*>(shard.data);
  }
  return stored;
}

}  // namespace belay

#endif  // BELAY_TESTS_GRAPH_TESTING_H_
