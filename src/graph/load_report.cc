#include "graph/load_report.h"

#include <algorithm>
#include <map>
#include <optional>
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

// The report as bytes, for messages from rank 0.

template <typename Archive>
void Fields(Archive& archive, MatchedValue& value) {
  archive(value.stored_key, value.key);
}
template <typename Archive>
void Fields(Archive& archive, MissingValue& value) {
  archive(value.key, value.ranks);
}
template <typename Archive>
void Fields(Archive& archive, UnusedValue& value) {
  archive(value.stored_key, value.object, value.cause);
}
template <typename Archive>
void Fields(Archive& archive, DifferentValue& value) {
  archive(value.key, value.stored_key, value.needed, value.found, value.ranks);
}
template <typename Archive>
void Fields(Archive& archive, LoadReport& report) {
  archive(report.ranks, report.num_objects, report.matched, report.missing,
          report.unused, report.incompatible, report.converted, report.skipped,
          report.defaulted, report.deferred, report.unmatched_objects,
          report.warnings);
}

std::string EncodeLoadReport(const LoadReport& report) {
  return Encode(report);
}

StatusOr<LoadReport> DecodeLoadReport(std::string_view bytes) {
  std::optional<LoadReport> report = Decode<LoadReport>(bytes);
  if (report) return *std::move(report);
  return absl::DataLossError("read load report \"\": the bytes are damaged");
}

}  // namespace belay
