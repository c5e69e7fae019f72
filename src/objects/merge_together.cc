#include "objects/merge_together.h"

#include <map>
#include <utility>
#include <vector>

#include "core/agreed.h"
#include "core/status_macros.h"
#include "core/wire.h"
#include "graph/merge.h"
#include "pipeline/listing.h"
#include "pipeline/stages.h"

namespace belay {
namespace {

// Rank 0 only.
StatusOr<MergedGraph> Merge(const Heard& heard) {
  std::map<Hash128, ObjectGraph> graphs;
  std::map<Hash128, uint64_t> numbers;
  std::vector<RankGraph> ranks;
  for (size_t rank = 0; rank < heard.ranks.size(); ++rank) {
    const Hash128 list = heard.ranks[rank][0];
    RankGraph& of_rank = ranks.emplace_back();
    of_rank.rank = static_cast<int>(rank);
    of_rank.fingerprint =
        numbers.try_emplace(list, numbers.size()).first->second;
    const auto [graph, is_new] = graphs.try_emplace(list);
    if (!is_new) continue;
    BELAY_ASSIGN_OR_RETURN(graph->second, GraphOfEntries(heard.lists.at(list)));
    of_rank.graph = &graph->second;
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
Agreed<bool> IsUpToDate(CommContext& context, const Status& mine, uint64_t own,
                        const MergeResult& merge) {
  const bool fits = merge.merged != 0 && merge.own == own;
  const uint64_t merged = fits ? merge.merged : 0;
  BELAY_ASSIGN_OR_RETURN_AGREED(
      const std::vector<bool> same,
      AgreeOnStructure(context, mine, std::vector<uint64_t>{merged}));
  return fits && same[0];
}

}  // namespace

Agreed<> MergeTogether(CommContext& context, const StatusOr<LiveGraph>& live,
                       MergeResult& merge) {
  const uint64_t own = live.ok() ? GraphFingerprint(live->graph) : 0;
  BELAY_ASSIGN_OR_RETURN_AGREED(const bool is_up_to_date,
                                IsUpToDate(context, live.status(), own, merge));
  if (is_up_to_date) return {};
  merge = {.sent_lists = std::move(merge.sent_lists)};
  BELAY_ASSIGN_OR_RETURN_AGREED(
      const RootMessage message,
      GatherLists(context, {GraphEntries(live->graph)}, merge.sent_lists,
                  [&](const Heard& heard) -> StatusOr<RootMessages> {
                    BELAY_ASSIGN_OR_RETURN(MergedGraph merged, Merge(heard));
                    RootMessages messages{.parts = EncodeParts(merged)};
                    merge.graph = std::move(merged.graph);
                    return messages;
                  }));
  DecodePart(message.part, merge);
  merge.own = own;
  return {};
}

}  // namespace belay
