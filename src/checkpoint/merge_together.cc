#include "checkpoint/merge_together.h"

#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/status_macros.h"
#include "base/wire.h"
#include "checkpoint/stations.h"
#include "graph/merge.h"

namespace belay {
namespace {

uint64_t NumberIn(const std::string& bytes) {
  return WireReader(bytes).Get<uint64_t>();
}

// Which ranks have a graph that no lower rank has.
std::vector<bool> FirstsOfTheirKind(const std::vector<uint64_t>& fingerprints) {
  absl::flat_hash_map<uint64_t, size_t> firsts;
  std::vector<bool> is_first;
  for (size_t rank = 0; rank < fingerprints.size(); ++rank) {
    is_first.push_back(firsts.emplace(fingerprints[rank], rank).second);
  }
  return is_first;
}

// What rank 0 gathers; empty elsewhere.
struct Gathered {
  std::vector<uint64_t> fingerprints;
  std::vector<std::string> graphs;  // of the firsts, else ""
};

// Collective; agreed.
StatusOr<Gathered> GatherGraphs(Team& team, const ObjectGraph& graph,
                                uint64_t fingerprint) {
  WireWriter own;
  own.Put(fingerprint);
  BELAY_ASSIGN_OR_RETURN_AGREED(const std::vector<std::string> numbers,
                                Gather(team, own.bytes()));
  Gathered gathered;
  std::vector<std::string> parts;
  if (team.is_root()) {
    for (const std::string& bytes : numbers) {
      gathered.fingerprints.push_back(NumberIn(bytes));
    }
    for (const bool is_first : FirstsOfTheirKind(gathered.fingerprints)) {
      parts.emplace_back(1, is_first ? '\1' : '\0');
    }
  }
  BELAY_ASSIGN_OR_RETURN_AGREED(const std::string part, Scatter(team, parts));
  const bool is_first = part[0] != '\0';
  const std::string encoded = is_first ? EncodeGraph(graph) : "";
  team.agreement_bytes += std::ssize(encoded);
  BELAY_ASSIGN_OR_RETURN_AGREED(gathered.graphs, Gather(team, encoded));
  return gathered;
}

// Rank 0 only.
StatusOr<MergedGraph> Merge(const Gathered& gathered) {
  std::vector<ObjectGraph> graphs(gathered.graphs.size());
  std::vector<RankGraph> ranks;
  for (size_t rank = 0; rank < graphs.size(); ++rank) {
    RankGraph of_rank{.rank = static_cast<int>(rank),
                      .fingerprint = gathered.fingerprints[rank]};
    if (!gathered.graphs[rank].empty()) {
      BELAY_ASSIGN_OR_RETURN(graphs[rank], DecodeGraph(gathered.graphs[rank]));
      of_rank.graph = &graphs[rank];
    }
    ranks.push_back(of_rank);
  }
  return MergeGraphs(ranks);
}

// What rank 0 tells each rank of the merged graph.
std::vector<std::string> EncodeParts(const MergedGraph& merged) {
  const uint64_t fingerprint = GraphFingerprint(merged.graph);
  std::vector<std::string> parts;
  for (const auto& renames : merged.renames) {
    WireWriter out;
    out.Put(fingerprint);
    out.Put<uint64_t>(renames.size());
    for (const auto& [key, renamed] : renames) {
      out.PutText(key);
      out.PutText(renamed);
    }
    parts.push_back(out.Take());
  }
  return parts;
}

void DecodePart(const std::string& bytes, MergeResult& merge) {
  WireReader in(bytes);
  merge.merged = in.Get<uint64_t>();
  const auto size = in.Get<uint64_t>();
  for (uint64_t i = 0; i < size; ++i) {
    std::string key(in.GetText());
    merge.renames.emplace(std::move(key), in.GetText());
  }
}

// Whether all ranks have merged what they have now, together. Collective;
// agreed.
StatusOr<bool> IsUpToDate(Team& team, const Status& mine, uint64_t own,
                          const MergeResult& merge) {
  const bool fits = merge.merged != 0 && merge.own == own;
  const uint64_t merged = fits ? merge.merged : 0;
  BELAY_ASSIGN_OR_RETURN_AGREED(
      const std::vector<bool> same,
      AgreeOnStructure(team, mine, std::vector<uint64_t>{merged}));
  return fits && same[0];
}

}  // namespace

Status MergeTogether(Team& team, const StatusOr<LiveGraph>& live,
                     MergeResult& merge) {
  const uint64_t own = live.ok() ? GraphFingerprint(live->graph) : 0;
  BELAY_ASSIGN_OR_RETURN_AGREED(const bool is_up_to_date,
                                IsUpToDate(team, live.status(), own, merge));
  if (is_up_to_date) return absl::OkStatus();
  merge = {};
  BELAY_ASSIGN_OR_RETURN_AGREED(const Gathered gathered,
                                GatherGraphs(team, live->graph, own));
  std::vector<std::string> parts;
  BELAY_RETURN_IF_AGREED(OnRoot(team, [&] {
    BELAY_ASSIGN_OR_RETURN(MergedGraph merged, Merge(gathered));
    parts = EncodeParts(merged);
    merge.graph = std::move(merged.graph);
    return absl::OkStatus();
  }));
  BELAY_ASSIGN_OR_RETURN_AGREED(const std::string part, Scatter(team, parts));
  DecodePart(part, merge);
  merge.own = own;
  return absl::OkStatus();
}

}  // namespace belay
