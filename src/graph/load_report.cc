#include "graph/load_report.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "absl/strings/str_format.h"
#include "core/text.h"
#include "core/wire.h"

namespace belay {
namespace {

// A stored attribute among those of all nodes.
struct Place {
  int32_t node = 0;
  const GraphAttribute* attribute = nullptr;
};

std::vector<Place> PlacesOf(const ObjectGraph& saved) {
  std::vector<Place> places;
  for (size_t i = 0; i < saved.nodes.size(); ++i) {
    for (const GraphAttribute& attribute : saved.nodes[i].attributes) {
      places.push_back({static_cast<int32_t>(i), &attribute});
    }
  }
  return places;
}

Status CheckSizes(const RankMatch& rank, size_t num_nodes,
                  size_t num_attributes) {
  bool fits = rank.nodes.size() == num_nodes;
  fits = fits && rank.used.size() == num_attributes;
  const auto is_place = [num_attributes](int64_t place) {
    return place >= 0 && static_cast<size_t>(place) < num_attributes;
  };
  for (const auto& [place, key] : rank.renamed) fits = fits && is_place(place);
  for (const auto* all : {&rank.mismatches, &rank.conversions}) {
    for (const Mismatch& mismatch : *all) {
      fits = fits && is_place(mismatch.attribute);
    }
  }
  if (fits) return absl::OkStatus();
  return absl::DataLossError(absl::StrFormat(
      "report restore \"rank %d\": it matched another object graph (need %d "
      "nodes and %d values, found %d and %d)",
      rank.rank, num_nodes, num_attributes, rank.nodes.size(),
      rank.used.size()));
}

// Attribute, key, needed and found, and the ranks.
using Differences =
    std::map<std::tuple<int64_t, std::string, std::string, std::string>,
             std::vector<int>>;

void Collect(int rank, const std::vector<Mismatch>& from, Differences& to) {
  for (const Mismatch& mismatch : from) {
    to[{mismatch.attribute, mismatch.key, mismatch.needed, mismatch.found}]
        .push_back(rank);
  }
}

class Reporter {
 public:
  Reporter(const ObjectGraph& saved, const std::vector<RankMatch>& ranks)
      : saved_(saved), ranks_(ranks), places_(PlacesOf(saved)) {}

  StatusOr<LoadReport> Run() {
    nodes_.assign(saved_.nodes.size(), NodeMatch::kAbsent);
    used_.assign(places_.size(), AttributeUse::kUnused);
    for (const RankMatch& rank : ranks_) {
      Status status = CheckSizes(rank, nodes_.size(), places_.size());
      if (!status.ok()) return status;
      Add(rank);
    }
    std::sort(report_.ranks.begin(), report_.ranks.end());
    AddTexts();
    AddDifferent();
    AddStored();
    return std::move(report_);
  }

 private:
  void Add(const RankMatch& rank) {
    report_.ranks.push_back(rank.rank);
    for (size_t i = 0; i < nodes_.size(); ++i) {
      nodes_[i] = std::max(nodes_[i], rank.nodes[i]);
    }
    for (size_t i = 0; i < used_.size(); ++i) {
      used_[i] = std::max(used_[i], rank.used[i]);
    }
    for (const auto& [place, key] : rank.renamed) renamed_.emplace(place, key);
    for (const std::string& key : rank.missing) {
      missing_[key].push_back(rank.rank);
    }
    Collect(rank.rank, rank.mismatches, mismatches_);
    Collect(rank.rank, rank.conversions, conversions_);
  }

  // What ranks say in words, each once, in the order of the ranks.
  void AddTexts() {
    const auto add = [](const std::vector<std::string>& texts,
                        std::map<std::string, bool>& known,
                        std::vector<std::string>& to) {
      for (const std::string& text : texts) {
        if (known.emplace(text, true).second) to.push_back(text);
      }
    };
    std::map<std::string, bool> known_objects, known_warnings, known_defaults;
    for (const RankMatch& rank : ranks_) {
      add(rank.defaulted, known_defaults, report_.defaulted);
      add(rank.unmatched_objects, known_objects, report_.unmatched_objects);
      add(rank.warnings, known_warnings, report_.warnings);
    }
    for (auto& [key, ranks] : missing_) report_.missing.push_back({key, ranks});
  }

  void AddDifferent() {
    report_.incompatible = ValuesOf(mismatches_);
    report_.converted = ValuesOf(conversions_);
    for (const auto& [what, ranks] : mismatches_) {
      is_incompatible_.emplace(static_cast<size_t>(std::get<0>(what)), true);
    }
  }

  std::vector<DifferentValue> ValuesOf(const Differences& differences) const {
    std::vector<DifferentValue> values;
    for (const auto& [what, ranks] : differences) {
      const auto& [place, key, needed, found] = what;
      const auto at = static_cast<size_t>(place);
      values.push_back({.key = key,
                        .stored_key = places_[at].attribute->key,
                        .needed = needed,
                        .found = found,
                        .ranks = ranks});
    }
    return values;
  }

  void AddStored() {
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (i > 0 && nodes_[i] == NodeMatch::kBound) ++report_.num_objects;
      if (nodes_[i] == NodeMatch::kDeferred) {
        report_.deferred.push_back(PrettyName(saved_, static_cast<int32_t>(i)));
      }
    }
    for (size_t i = 0; i < places_.size(); ++i) {
      const auto& [node, attribute] = places_[i];
      if (used_[i] == AttributeUse::kUsed) {
        const auto renamed = renamed_.find(static_cast<int64_t>(i));
        report_.matched.push_back({.stored_key = attribute->key,
                                   .key = renamed == renamed_.end()
                                              ? attribute->key
                                              : renamed->second});
      } else if (used_[i] == AttributeUse::kSkipped) {
        report_.skipped.push_back(attribute->key);
      } else if (!is_incompatible_.contains(i)) {
        report_.unused.push_back({.stored_key = attribute->key,
                                  .object = PrettyName(saved_, node),
                                  .cause = CauseOf(node)});
      }
    }
  }

  UnusedValue::Cause CauseOf(int32_t node) const {
    const auto at = static_cast<size_t>(node);
    if (nodes_[at] == NodeMatch::kBound) return UnusedValue::Cause::kAttribute;
    return saved_.nodes[at].is_slot() ? UnusedValue::Cause::kSlot
                                      : UnusedValue::Cause::kObject;
  }

  const ObjectGraph& saved_;
  const std::vector<RankMatch>& ranks_;
  const std::vector<Place> places_;
  std::vector<NodeMatch> nodes_;
  std::vector<AttributeUse> used_;
  std::map<int64_t, std::string> renamed_;
  std::map<std::string, std::vector<int>> missing_;
  Differences mismatches_;
  Differences conversions_;
  std::map<size_t, bool> is_incompatible_;
  LoadReport report_;
};

}  // namespace

StatusOr<LoadReport> MakeLoadReport(const ObjectGraph& saved,
                                    const std::vector<RankMatch>& ranks) {
  return Reporter(saved, ranks).Run();
}

// A report as bytes, for messages from rank 0.

namespace {

template <typename T, typename Put>
void PutAll(WireWriter& out, const std::vector<T>& all, Put&& put) {
  out.Put<uint64_t>(all.size());
  for (const T& one : all) put(one);
}

void PutRanks(WireWriter& out, const std::vector<int>& ranks) {
  PutAll(out, ranks, [&](int rank) { out.Put<int32_t>(rank); });
}

std::vector<int> GetRanks(WireReader& in) {
  return in.GetAll<int>([&] { return static_cast<int>(in.Get<int32_t>()); });
}

void PutDifferent(WireWriter& out, const std::vector<DifferentValue>& values) {
  PutAll(out, values, [&](const DifferentValue& value) {
    out.PutText(value.key);
    out.PutText(value.stored_key);
    out.PutText(value.needed);
    out.PutText(value.found);
    PutRanks(out, value.ranks);
  });
}

std::vector<DifferentValue> GetDifferent(WireReader& in) {
  const auto text = [&] { return std::string(in.GetText()); };
  // Braces: from left to right.
  return in.GetAll<DifferentValue>([&] {
    return DifferentValue{.key = text(),
                          .stored_key = text(),
                          .needed = text(),
                          .found = text(),
                          .ranks = GetRanks(in)};
  });
}

}  // namespace

std::string EncodeLoadReport(const LoadReport& report) {
  WireWriter out;
  PutRanks(out, report.ranks);
  out.Put(report.num_objects);
  PutAll(out, report.matched, [&](const MatchedValue& value) {
    out.PutText(value.stored_key);
    out.PutText(value.key);
  });
  PutAll(out, report.missing, [&](const MissingValue& value) {
    out.PutText(value.key);
    PutRanks(out, value.ranks);
  });
  PutAll(out, report.unused, [&](const UnusedValue& value) {
    out.PutText(value.stored_key);
    out.PutText(value.object);
    out.Put(value.cause);
  });
  PutDifferent(out, report.incompatible);
  PutDifferent(out, report.converted);
  out.PutTexts(report.skipped);
  out.PutTexts(report.defaulted);
  out.PutTexts(report.deferred);
  out.PutTexts(report.unmatched_objects);
  out.PutTexts(report.warnings);
  return out.Take();
}

StatusOr<LoadReport> DecodeLoadReport(std::string_view bytes) {
  WireReader in(bytes);
  const auto text = [&] { return std::string(in.GetText()); };
  LoadReport report;
  report.ranks = GetRanks(in);
  report.num_objects = in.Get<int64_t>();
  // Braces: from left to right.
  report.matched = in.GetAll<MatchedValue>(
      [&] { return MatchedValue{.stored_key = text(), .key = text()}; });
  report.missing = in.GetAll<MissingValue>(
      [&] { return MissingValue{.key = text(), .ranks = GetRanks(in)}; });
  report.unused = in.GetAll<UnusedValue>([&] {
    return UnusedValue{.stored_key = text(),
                       .object = text(),
                       .cause = in.Get<UnusedValue::Cause>()};
  });
  report.incompatible = GetDifferent(in);
  report.converted = GetDifferent(in);
  report.skipped = in.GetTexts();
  report.defaulted = in.GetTexts();
  report.deferred = in.GetTexts();
  report.unmatched_objects = in.GetTexts();
  report.warnings = in.GetTexts();
  if (!in.ok() || !in.done()) {
    return absl::DataLossError("read load report \"\": the bytes are damaged");
  }
  return report;
}

}  // namespace belay
