// What is kept of a match for the next one.
#include "absl/container/flat_hash_set.h"
#include "graph/match/graph_match.h"

namespace belay {
namespace {

// Drops what was noted of objects that are no longer there.
void ForgetLost(const LiveGraph& live, RestoredNumbers& restored) {
  const std::vector<bool> is_known = FindKnown(restored.objects, live);
  absl::flat_hash_set<ObjectId> known;
  for (size_t i = 0; i < is_known.size(); ++i) {
    if (is_known[i]) known.insert(live.ids[i]);
  }
  absl::erase_if(restored.numbers, [&known](const auto& noted) {
    return !known.contains(noted.first.first);
  });
}

}  // namespace

void RememberMatch(const LiveGraph& live, const MatchResult& match,
                   Restoration& restoration, RestoredNumbers& restored) {
  restoration.bound.assign(match.live_nodes.size(), ObjectId());
  for (size_t i = 0; i < match.live_nodes.size(); ++i) {
    if (match.live_nodes[i] < 0) continue;
    restoration.bound[i] = live.ids[static_cast<size_t>(match.live_nodes[i])];
  }
  ForgetLost(live, restored);
  for (const KeyedValue& read : match.reads) {
    const LiveValue& value = live.values[read.value];
    restored.numbers[{live.ids[static_cast<size_t>(value.node)],
                      live.AttributeOf(value).name}] = restoration.number;
  }
  restored.objects = KnownObjectsOf(live);
}

}  // namespace belay
