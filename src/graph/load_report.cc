#include "graph/load_report.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "belay/objects/trackable.h"
#include "core/keys.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "core/wire.h"

namespace belay {
namespace {

// A stored attribute and its node.
struct Place {
  int32_t node = 0;
  const GraphAttribute* attribute = nullptr;
};

std::vector<Place> ListPlaces(const ObjectGraph& saved) {
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
  bool fits =
      rank.nodes.size() == num_nodes && rank.used.size() == num_attributes;
  for (const NodeMatch match : rank.nodes) {
    fits = fits && match <= NodeMatch::kBound;
  }
  for (const AttributeUse use : rank.used) {
    fits = fits && use <= AttributeUse::kUsed;
  }
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

using Differences = std::map<Mismatch, std::vector<int>>;  // with their ranks

class Reporter {
 public:
  Reporter(const ObjectGraph& saved, const std::vector<RankMatch>& ranks)
      : saved_(saved), ranks_(ranks), places_(ListPlaces(saved)) {}

  StatusOr<LoadReport> Run() {
    nodes_.assign(saved_.nodes.size(), NodeMatch::kAbsent);
    used_.assign(places_.size(), AttributeUse::kUnused);
    for (const RankMatch& rank : ranks_) {
      BELAY_RETURN_IF_ERROR(CheckSizes(rank, nodes_.size(), places_.size()));
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
    for (const Mismatch& one : rank.mismatches) {
      mismatches_[one].push_back(rank.rank);
    }
    for (const Mismatch& one : rank.conversions) {
      conversions_[one].push_back(rank.rank);
    }
  }

  // Adds each text once, in the order of the ranks.
  void AddTexts() {
    const auto add = [](const std::vector<std::string>& texts,
                        std::set<std::string>& known,
                        std::vector<std::string>& to) {
      for (const std::string& text : texts) {
        if (known.insert(text).second) to.push_back(text);
      }
    };
    std::set<std::string> known_objects, known_warnings, known_defaults;
    for (const RankMatch& rank : ranks_) {
      add(rank.defaulted, known_defaults, report_.defaulted);
      add(rank.unmatched_objects, known_objects, report_.unmatched_objects);
      add(rank.warnings, known_warnings, report_.warnings);
    }
    for (auto& [key, ranks] : missing_) report_.missing.push_back({key, ranks});
  }

  void AddDifferent() {
    report_.incompatible = MakeValues(mismatches_);
    report_.converted = MakeValues(conversions_);
    for (const auto& [one, ranks] : mismatches_) {
      incompatible_.insert(static_cast<size_t>(one.attribute));
    }
  }

  std::vector<DifferentValue> MakeValues(const Differences& differences) const {
    std::vector<DifferentValue> values;
    for (const auto& [one, ranks] : differences) {
      const auto at = static_cast<size_t>(one.attribute);
      values.push_back({.key = one.key,
                        .stored_key = places_[at].attribute->key,
                        .needed = one.needed,
                        .found = one.found,
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
      } else if (!incompatible_.contains(i)) {
        report_.unused.push_back({.stored_key = attribute->key,
                                  .object = PrettyName(saved_, node),
                                  .cause = FindCause(node)});
      }
    }
  }

  UnusedValue::Cause FindCause(int32_t node) const {
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
  std::set<size_t> incompatible_;
  LoadReport report_;
};

// --- Load status ---

constexpr size_t kShown = 10;

using Lines = std::vector<std::string>;

std::string Count(size_t number, std::string_view one, std::string_view many) {
  return Cat(number, " ", number == 1 ? one : many);
}

// Joins at most ten lines, such as "a; b; and 3 more". Escapes them, because
// names come from files.
std::string Shown(Lines lines, std::string_view separator) {
  for (size_t i = 0; i < std::min(lines.size(), kShown); ++i) {
    lines[i] = PrintableLine(lines[i]);
  }
  return JoinFirst(lines, kShown, separator);
}

template <typename T, typename Line>
Lines MakeLines(const std::vector<T>& values, const Line& line) {
  Lines lines;
  for (const T& value : values) lines.push_back(line(value));
  return lines;
}

Lines IncompatibleLines(const LoadReport& report) {
  return MakeLines(report.incompatible, [&](const DifferentValue& value) {
    return Cat("\"", value.key, "\": incompatible (need ", value.needed,
               ", found ", value.found, ")", RanksText(value.ranks, report));
  });
}

Lines MissingLines(const LoadReport& report) {
  return MakeLines(report.missing, [&](const MissingValue& value) {
    return Cat("\"", value.key, "\"", RanksText(value.ranks, report));
  });
}

std::string UnusedLine(const UnusedValue& value) {
  return Cat(value.object, ": \"", value.stored_key, "\"");
}

// Returns the path of a value or an object, "model/w". The path does not change
// if an object becomes a value.
std::string PlainName(std::string_view name) {
  std::string plain;
  for (std::string_view part : Split(name, '/')) {
    if (part == ".ATTRIBUTES" || part == kVariableValue || part.empty()) {
      continue;
    }
    plain += Cat(plain.empty() ? "" : "/", part);
  }
  return plain;
}

// Turns "(root).model.w" into "model/w".
std::string PlainObjectName(std::string name) {
  constexpr std::string_view kRoot = "(root).";
  if (name.starts_with(kRoot)) name = name.substr(kRoot.size());
  std::replace(name.begin(), name.end(), '.', '/');
  return name;
}

// Returns unused stored values that are similar to the first few of these
// names.
std::string CloseHint(const Lines& absent, const LoadReport& report) {
  constexpr size_t kHints = 3, kMaxNames = 10, kMaxOffers = 10000;
  Lines plain;
  for (const UnusedValue& value : report.unused) {
    if (plain.size() == kMaxOffers) break;
    plain.push_back(PlainName(value.stored_key));
  }
  Lines hints;
  for (size_t i = 0; i < std::min(absent.size(), kMaxNames); ++i) {
    const std::string& name = absent[i];
    if (hints.size() == kHints) break;
    CloseKeys close(name, 1);
    for (const std::string& other : plain) close.Offer(other);
    if (close.keys().empty()) continue;
    const auto found = std::find(plain.begin(), plain.end(), close.keys()[0]);
    hints.push_back(Cat(
        "\"",
        report.unused[static_cast<size_t>(found - plain.begin())].stored_key,
        "\" is close to \"", name, "\""));
  }
  if (hints.empty()) return "";
  return Cat("; stored and not used: ", Shown(std::move(hints), ", "));
}

Status Failure(std::string_view assertion, std::string_view what) {
  return absl::FailedPreconditionError(Cat(assertion, ": ", what));
}

Status CheckExisting(std::string_view assertion, const LoadReport& report) {
  if (!report.incompatible.empty()) {
    return Failure(assertion, Shown(IncompatibleLines(report), "; "));
  }
  if (!report.unmatched_objects.empty()) {
    const Lines names = MakeLines(report.unmatched_objects, PlainObjectName);
    return Failure(
        assertion,
        Cat(Count(report.unmatched_objects.size(), "object", "objects"),
            " not bound to checkpointed values, likely due to changes in the "
            "program: ",
            Shown(report.unmatched_objects, ", "), CloseHint(names, report)));
  }
  if (!report.missing.empty()) {
    const Lines names = MakeLines(
        report.missing, [](const auto& value) { return PlainName(value.key); });
    return Failure(assertion, Cat("not assigned a value from checkpoint: ",
                                  Shown(MissingLines(report), ", "),
                                  CloseHint(names, report)));
  }
  return absl::OkStatus();
}

Status CheckUsed(std::string_view assertion, const LoadReport& report) {
  using Cause = UnusedValue::Cause;
  constexpr std::pair<Cause, std::string_view> kCauses[] = {
      {Cause::kObject, "unresolved object in checkpoint "},
      {Cause::kSlot, "unresolved slot restorations: "},
      {Cause::kAttribute,
       "unused attributes in these objects (the attributes exist in the "
       "checkpoint but were not restored): "}};
  for (const auto& [cause, text] : kCauses) {
    Lines lines;
    for (const UnusedValue& value : report.unused) {
      if (value.cause == cause) lines.push_back(UnusedLine(value));
    }
    if (lines.empty()) continue;
    return Failure(assertion, Cat(text, Shown(lines, "; ")));
  }
  return absl::OkStatus();
}

// The save counter belongs to belay, and nearly every checkpoint has it.
bool HasSaveCounter(const LoadReport& report) {
  return std::any_of(report.matched.begin(), report.matched.end(),
                     [](const MatchedValue& value) {
                       return value.stored_key == SaveCounterKey();
                     });
}

Status NothingToRestore(std::string_view assertion) {
  return Failure(assertion, "no checkpoint was given, so nothing was restored");
}

std::string Section(std::string_view name, std::string_view meaning,
                    const Lines& lines) {
  if (lines.empty()) return "";
  constexpr size_t kColumn = 16;
  std::string text = Cat("  ", name);
  text.resize(std::max(text.size() + 1, kColumn), ' ');
  return Cat(text, lines.size(), " ", meaning, "\n      ",
             Shown(lines, "\n      "), "\n");
}

std::string ReportText(const LoadReport& report, const std::string& ranks) {
  const size_t wanted = report.matched.size() + report.missing.size() +
                        report.incompatible.size();
  std::string text =
      Cat("restored ", report.matched.size(), " of ",
          Count(wanted, "value", "values"), ", ",
          Count(static_cast<size_t>(report.num_objects), "object", "objects"));
  text += Cat(ranks, "\n");
  Lines renamed;
  for (const MatchedValue& value : report.matched) {
    if (value.key == value.stored_key) continue;
    renamed.push_back(
        Cat("\"", value.key, "\" from \"", value.stored_key, "\""));
  }
  const Lines unused_lines = MakeLines(report.unused, [](const auto& value) {
    return Cat("\"", value.stored_key, "\"");
  });
  text += Section("renamed", "with another key in the checkpoint", renamed);
  text += Section("missing", "not in the checkpoint", MissingLines(report));
  text += Section("unused", "in the checkpoint only", unused_lines);
  text += Section("incompatible", "of another dtype or shape",
                  IncompatibleLines(report));
  const auto converted = [&](const DifferentValue& value) {
    return Cat("\"", value.key, "\": ", value.needed, " from ", value.found,
               RanksText(value.ranks, report));
  };
  text += Section("converted", "stored with another dtype or shape",
                  MakeLines(report.converted, converted));
  text += Section("skipped", "left as they are", report.skipped);
  text +=
      Section("defaulted", "not stored, left as they are", report.defaulted);
  text += Section("deferred", "restored once the program has them",
                  report.deferred);
  text += Section("unmatched", "not matched by anything in the checkpoint",
                  report.unmatched_objects);
  text += Section("warning", "to look at", report.warnings);
  return text;
}

// Removes the stored values that other ranks use.
LoadReport WithoutOthers(LoadReport report, const LoadReport& merged) {
  absl::flat_hash_set<std::string_view> unused, deferred;
  for (const UnusedValue& value : merged.unused) {
    unused.insert(value.stored_key);
  }
  deferred.insert(merged.deferred.begin(), merged.deferred.end());
  std::erase_if(report.unused, [&](const UnusedValue& value) {
    return !unused.contains(value.stored_key);
  });
  std::erase_if(report.deferred, [&](const std::string& object) {
    return !deferred.contains(object);
  });
  return report;
}

// Returns the reports that differ from `merged`, with their ranks.
std::vector<std::pair<std::string, std::vector<int>>> DifferentRanks(
    const LoadReport& merged, const std::vector<LoadReport>& reports) {
  const std::string common = ReportText(merged, "");
  std::vector<std::pair<std::string, std::vector<int>>> different;
  for (const LoadReport& report : reports) {
    std::string body = ReportText(WithoutOthers(report, merged), "");
    if (body == common) continue;
    auto found = std::find_if(different.begin(), different.end(),
                              [&](const auto& d) { return d.first == body; });
    if (found == different.end()) {
      different.emplace_back(std::move(body), std::vector<int>());
      found = std::prev(different.end());
    }
    found->second.insert(found->second.end(), report.ranks.begin(),
                         report.ranks.end());
  }
  return different;
}

}  // namespace

StatusOr<LoadReport> MakeLoadReport(const ObjectGraph& saved,
                                    const std::vector<RankMatch>& ranks) {
  return Reporter(saved, ranks).Run();
}

std::string RanksText(const std::vector<int>& ranks, const LoadReport& report) {
  if (ranks.size() == report.ranks.size()) return "";
  return Cat(" [", NameRanks(ranks, kShown), "]");
}

std::string LoadReport::ToString() const {
  if (ranks.empty()) return ReportText(*this, "");
  return ReportText(*this, ranks.size() == 1
                               ? Cat(", on rank ", ranks[0])
                               : Cat(", over ", ranks.size(), " ranks"));
}

Status LoadStatus::AssertConsumed() const {
  constexpr std::string_view kName = "assert consumed";
  if (kind_ == Kind::kInitializationOnly) return NothingToRestore(kName);
  BELAY_RETURN_IF_ERROR(CheckExisting(kName, report_));
  // Files written by other programs may hold many values that this program does
  // not need.
  if (kind_ == Kind::kNameBased) return absl::OkStatus();
  return CheckUsed(kName, report_);
}

Status LoadStatus::AssertExistingObjectsMatched() const {
  constexpr std::string_view kName = "assert existing objects matched";
  if (kind_ == Kind::kInitializationOnly) return NothingToRestore(kName);
  return CheckExisting(kName, report_);
}

Status LoadStatus::AssertNontrivialMatch() const {
  constexpr std::string_view kName = "assert nontrivial match";
  if (kind_ == Kind::kInitializationOnly) return NothingToRestore(kName);
  const bool has_counter = HasSaveCounter(report_);
  const int64_t counters = has_counter ? 1 : 0;
  if (report_.num_objects > counters ||
      static_cast<int64_t>(report_.matched.size()) > counters) {
    return absl::OkStatus();
  }
  if (report_.unmatched_objects.empty() && report_.missing.empty()) {
    return Failure(kName,
                   "nothing to load: the program has no objects with values");
  }
  return Failure(kName,
                 Cat("nothing but the root matched a checkpointed value; "
                     "without one are: ",
                     Shown(report_.unmatched_objects, ", ")));
}

std::string LoadStatus::PartialWarning() const {
  if (expects_partial_ || kind_ != Kind::kObjectGraph) return "";
  if (report_.unused.empty()) return "";
  const Lines lines = MakeLines(report_.unused, UnusedLine);
  return Cat(
      Count(lines.size(), "value", "values"), " of the checkpoint ",
      lines.size() == 1 ? "was" : "were",
      " not used; say ExpectPartial if that is fine: ", Shown(lines, "; "));
}

std::string LoadStatus::ToString() const {
  if (kind_ == Kind::kInitializationOnly) {
    return "restored nothing: no checkpoint was given\n";
  }
  std::string text = report_.ToString();
  if (kind_ == Kind::kNameBased) {
    text = Cat("the checkpoint has no object graph: matched by names\n", text);
  }
  for (const auto& [body, ranks] : DifferentRanks(report_, rank_reports_)) {
    text += Cat(NameRanks(ranks, ranks.size()), ": ", body);
  }
  return text;
}

}  // namespace belay
