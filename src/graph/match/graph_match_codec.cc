// What a rank says of its match as bytes, for messages to rank 0.
#include "bytes/wire.h"
#include "graph/match/graph_match.h"

namespace belay {
namespace {

void PutMismatches(WireWriter& out, const std::vector<Mismatch>& all) {
  out.Put<uint64_t>(all.size());
  for (const Mismatch& mismatch : all) {
    out.Put(mismatch.attribute);
    out.PutText(mismatch.key);
    out.PutText(mismatch.needed);
    out.PutText(mismatch.found);
  }
}

std::vector<Mismatch> GetMismatches(WireReader& in) {
  return in.GetAll<Mismatch>([&] {
    Mismatch mismatch;
    mismatch.attribute = in.Get<int64_t>();
    mismatch.key = in.GetText();
    mismatch.needed = in.GetText();
    mismatch.found = in.GetText();
    return mismatch;
  });
}

}  // namespace

std::string EncodeRankMatch(const RankMatch& match) {
  WireWriter out;
  out.Put<int32_t>(match.rank);
  out.Put<uint64_t>(match.nodes.size());
  for (const NodeMatch node : match.nodes) out.Put(node);
  out.Put<uint64_t>(match.used.size());
  for (const AttributeUse used : match.used) out.Put(used);
  out.Put<uint64_t>(match.renamed.size());
  for (const auto& [attribute, key] : match.renamed) {
    out.Put(attribute);
    out.PutText(key);
  }
  PutMismatches(out, match.mismatches);
  PutMismatches(out, match.conversions);
  out.PutTexts(match.missing);
  out.PutTexts(match.defaulted);
  out.PutTexts(match.unmatched_objects);
  out.PutTexts(match.warnings);
  return out.Take();
}

StatusOr<RankMatch> DecodeRankMatch(std::string_view bytes) {
  WireReader in(bytes);
  RankMatch match;
  match.rank = in.Get<int32_t>();
  bool is_known = true;
  match.nodes = in.GetAll<NodeMatch>([&] {
    const auto node = in.Get<uint8_t>();
    is_known = is_known && node <= static_cast<uint8_t>(NodeMatch::kBound);
    return static_cast<NodeMatch>(node);
  });
  match.used = in.GetAll<AttributeUse>([&] {
    const auto use = in.Get<uint8_t>();
    is_known = is_known && use <= static_cast<uint8_t>(AttributeUse::kUsed);
    return static_cast<AttributeUse>(use);
  });
  match.renamed = in.GetAll<std::pair<int64_t, std::string>>([&] {
    const auto attribute = in.Get<int64_t>();
    return std::pair(attribute, std::string(in.GetText()));
  });
  match.mismatches = GetMismatches(in);
  match.conversions = GetMismatches(in);
  match.missing = in.GetTexts();
  match.defaulted = in.GetTexts();
  match.unmatched_objects = in.GetTexts();
  match.warnings = in.GetTexts();
  if (!in.ok() || !in.done() || !is_known) {
    return absl::DataLossError(
        "read match of a rank \"\": the bytes are damaged");
  }
  return match;
}

}  // namespace belay
