#include "state/copy_plan.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <utility>
#include <variant>

#include "belay/extend/state.h"
#include "belay/extend/transform_function.h"
#include "belay/handlers/standard_handlers.h"
#include "core/keys.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "core/wire.h"
#include "plan/stored_objects.h"
#include "plan/stored_values.h"
#include "state/conversion_rules.h"
#include "state/struct_fields.h"
#include "state/transform.h"

namespace belay {
namespace {

// Smaller arrays are not cut.
constexpr int64_t kLeastCutBytes = int64_t{1} << 20;
constexpr int64_t kAlignment = 64;

int64_t CountBytes(const Shard& shard) {
  return NumElements(shard.box.shape) * DTypeSize(shard.dtype);
}

int64_t AlignedBytes(const Shard& shard) {
  return (CountBytes(shard) + kAlignment - 1) / kAlignment * kAlignment;
}

// Collects the arrays of a value and of the values inside it. These may contain
// the same arrays again.
void CollectParts(const StoredValue& value,
                  std::map<std::string, ValuePart>& parts) {
  for (const ValuePart& part : value.parts) {
    parts.emplace(PartKey(value.key, part.name), part);
  }
  for (const StoredValue& inner : value.values) CollectParts(inner, parts);
}

// Cuts the shard of a large array down to the part of `rank`. Returns false if
// the array stays whole.
bool Cut(int rank, int num_ranks, Shard& shard) {
  size_t axes = shard.global_shape.size();  // the axes that can be cut
  if (shard.structs != nullptr) --axes;
  size_t axis = 0;
  while (axis < axes && shard.global_shape[axis] < num_ranks) ++axis;
  if (CountBytes(shard) < kLeastCutBytes || axis == axes) return false;
  const int64_t length = shard.global_shape[axis];
  shard.box.offset[axis] = FirstOfEven(length, rank, num_ranks);
  shard.box.shape[axis] =
      FirstOfEven(length, rank + 1, num_ranks) - shard.box.offset[axis];
  return true;
}

// One rank's pieces of a value, and the values inside it. Keys are relative to
// the key of the value.
struct CopiedValue {
  std::vector<std::pair<std::string, Shard>> pieces;
  std::vector<std::pair<std::string, CopiedValue*>> inner;
  std::string typestr;
};

// Lists the pieces under the stored typestr.
class CopiedValueHandler : public Handler<CopiedValue> {
 public:
  explicit CopiedValueHandler(std::string typestr)
      : typestr_(std::move(typestr)) {}

  std::string typestr() const override { return typestr_; }
  bool HasFinalize() const override { return false; }
  Status ListForSave(CopiedValue& value, State& parts) const override;
  Status ListForRestore(CopiedValue&, const StoredValue& stored,
                        State&) const override {
    return absl::InternalError(
        Cat("restore \"", stored.key, "\": a copy is not restored"));
  }

 private:
  std::string typestr_;
};

void AddCopied(const std::string& key, CopiedValue& value, State& state) {
  if (value.typestr == kNoneTypestr) {
    state.Add(key, Own(state, std::make_shared<std::monostate>()));
  } else {
    AddValue(state, key, RefTo(value),
             std::make_shared<const CopiedValueHandler>(value.typestr));
  }
}

Status CopiedValueHandler::ListForSave(CopiedValue& value, State& parts) const {
  for (const auto& [key, piece] : value.pieces) {
    Shard shard = piece;
    shard.key = key;
    AddShard(parts, std::move(shard));
  }
  for (const auto& [key, inner] : value.inner) AddCopied(key, *inner, parts);
  return absl::OkStatus();
}

// Values and all values inside them, by full key.
using Family = std::map<std::string, CopiedValue>;

// Finds the innermost value that contains a key or, if `itself`, has this key.
Family::iterator FindHolder(const std::string& key, bool itself,
                            Family& family) {
  for (size_t end = itself ? key.size() : key.rfind('/'); end != key.npos;
       end = end == 0 ? key.npos : key.rfind('/', end - 1)) {
    const auto at = family.find(key.substr(0, end));
    if (at != family.end()) return at;
  }
  return family.end();
}

std::string RelativeKey(const std::string& holder, const std::string& key) {
  return key.size() == holder.size() ? "" : key.substr(holder.size() + 1);
}

// Adds a value and all values inside it, some of which may be listed more than
// once. Returns their keys.
std::set<std::string> AddValues(const StoredValue& stored, Family& family) {
  std::set<std::string> keys = {stored.key};
  family[stored.key].typestr = stored.typestr;
  for (const StoredValue& inner : stored.values) {
    keys.merge(AddValues(inner, family));
  }
  return keys;
}

// Does the same, and links each value to the one that contains it.
void AddFamily(const StoredValue& stored, Family& family) {
  for (const std::string& key : AddValues(stored, family)) {
    if (key == stored.key) continue;
    const auto holder = FindHolder(key, /*itself=*/false, family);
    holder->second.inner.emplace_back(RelativeKey(holder->first, key),
                                      &family[key]);
  }
}

}  // namespace

void CutForCopy(const CopyPlan& plan, int rank, int num_ranks,
                CopiedPieces& pieces) {
  int64_t next = 0;
  const auto is_mine = [&] { return next++ % num_ranks == rank; };
  const auto add = [&](size_t value, Shard shard) {
    if (shard.dtype == DType::kString) {
      if (!is_mine()) return;
      shard.text = &pieces.texts.emplace_back();
    } else {
      shard.box = WholeBox(shard.global_shape);
      const auto fields = plan.fields.find(shard.key);
      if (fields != plan.fields.end()) {
        // Reading the index has validated the fields.
        shard.structs = StoredLayout(fields->second).value_or(nullptr);
      }
      pieces.total_bytes += CountBytes(shard);
      if (!Cut(rank, num_ranks, shard) && !is_mine()) return;
      pieces.bytes += AlignedBytes(shard);
      pieces.array_bytes += CountBytes(shard);
    }
    pieces.shards.push_back(std::move(shard));
    pieces.value_of.push_back(value);
  };
  for (size_t i = 0; i < plan.values.size(); ++i) {
    std::map<std::string, ValuePart> parts;
    CollectParts(plan.values[i], parts);
    for (auto& [key, part] : parts) {
      add(i, {.key = key,
              .dtype = part.dtype,
              .global_shape = part.shape,
              .layout = plan.layouts[i]});
    }
  }
  for (size_t i = 0; i < plan.made.size(); ++i) {
    const MadeArray& made = plan.made[i];
    add(plan.values.size() + i, {.key = made.key,
                                 .dtype = made.form.dtype,
                                 .global_shape = made.form.shape});
  }
}

void PlaceIn(std::byte* memory, CopiedPieces& pieces) {
  for (Shard& shard : pieces.shards) {
    if (shard.text != nullptr) continue;
    shard.data = memory;
    memory += AlignedBytes(shard);
  }
}

State ListForReading(const CopiedPieces& pieces) {
  State state;
  for (Shard shard : pieces.shards) {
    shard.layout.clear();
    AddShard(state, std::move(shard));
  }
  return state;
}

State ListForCopy(const CopyPlan& plan, CopiedPieces& pieces) {
  State state;
  auto family = std::make_shared<Family>();
  for (const StoredValue& value : plan.values) {
    if (!IsPlain(value)) AddFamily(value, *family);
  }
  for (size_t i = 0; i < pieces.shards.size(); ++i) {
    Shard shard = std::move(pieces.shards[i]);
    const size_t value = pieces.value_of[i];
    if (value >= plan.values.size() || IsPlain(plan.values[value])) {
      AddShard(state, std::move(shard));
      continue;
    }
    const auto holder = FindHolder(shard.key, /*itself=*/true, *family);
    std::string key = RelativeKey(holder->first, shard.key);
    holder->second.pieces.emplace_back(std::move(key), std::move(shard));
  }
  std::exchange(pieces.shards, {});  // frees the memory
  for (const StoredValue& value : plan.values) {
    if (!IsPlain(value)) AddCopied(value.key, family->at(value.key), state);
  }
  Own(state, std::move(family));
  return state;
}

// --- Copy plan ---

namespace {

// Returns the keys of the values that are not inside others, ascending. If
// `are_forms`, returns those of the forms of Python objects (docs/format.md),
// else those of the program's values.
std::vector<std::string> ListKeys(const SavedCheckpoint& saved,
                                  bool are_forms) {
  std::vector<std::string> keys;
  for (StoredValue& value : ValuesAlone(saved)) {
    if (IsFormKey(value.key) != are_forms) continue;
    keys.push_back(std::move(value.key));
  }
  return keys;
}

// Returns the key of the value that a form describes, and true if the value is
// an empty container.
std::pair<std::string, bool> ParseForm(const std::string& form) {
  const std::vector<std::string_view> parts = Split(form, '/');
  if (parts.size() < 3) return {"", false};
  return {standard::KeyOfPart(parts[2]), parts[1] == "empty"};
}

// Returns true if one of `keys` is below `key`. Requires ascending keys.
bool HasBelow(const std::vector<std::string>& keys, const std::string& key) {
  const std::string below = key + "/";
  const auto at = std::lower_bound(keys.begin(), keys.end(), below);
  return at != keys.end() && at->starts_with(below);
}

// Counts the functions and stored arrays of a transform, up to `most`.
int64_t CountNodes(const Transform& transform, int64_t most) {
  int64_t nodes = 1;
  for (const Transform& input : TransformNode::Of(transform).inputs) {
    if (nodes >= most) break;
    nodes += CountNodes(input, most - nodes);
  }
  return nodes;
}

class CopyPlanner {
 public:
  CopyPlanner(const SavedCheckpoint& saved, const CopyOptions& options,
              std::string_view always)
      : saved_(saved),
        options_(options),
        always_(always),
        keys_(ListKeys(saved, /*are_forms=*/false)),
        views_(keys_.begin(), keys_.end()) {}

  StatusOr<CopyPlan> Plan() {
    BELAY_ASSIGN_OR_RETURN(rules_, RuleValues::Create(options_.rules));
    BELAY_RETURN_IF_ERROR(CheckSize());
    for (size_t i = 0; i < options_.rules.size(); ++i) {
      BELAY_RETURN_IF_ERROR(ApplyRule(i));
    }
    std::sort(
        plan_.made.begin(), plan_.made.end(),
        [](const MadeArray& a, const MadeArray& b) { return a.key < b.key; });
    BELAY_ASSIGN_OR_RETURN(const std::vector<std::string> copied, Select());
    BELAY_RETURN_IF_ERROR(CheckMade(copied));
    BELAY_ASSIGN_OR_RETURN(plan_.values, FindValues(saved_, copied));
    for (const StoredValue& value : plan_.values) {
      const StoredArray* const array = FindArray(saved_, value.key);
      plan_.layouts.push_back(IsPlain(value) && array != nullptr ? array->layout
                                                                 : "");
    }
    NoteStructs();
    return std::move(plan_);
  }

 private:
  // Structs remain structs if they are copied unchanged.
  void NoteStructs() {
    for (const StoredArray& array : saved_.arrays) {
      if (!array.fields.empty()) plan_.fields[array.key] = array.fields;
    }
    for (const MadeArray& made : plan_.made) {
      plan_.fields.erase(made.key);
      const Transform value =
          rules_.ValueFor(static_cast<size_t>(made.rule), made.matched);
      const std::string* const source = FindStoredKey(value);
      const StoredArray* const array =
          source == nullptr ? nullptr : FindArray(saved_, *source);
      if (array == nullptr || array->fields.empty()) continue;
      plan_.fields[made.key] = array->fields;
    }
  }

  // Returns the keys that are copied; counts the others.
  StatusOr<std::vector<std::string>> Select() {
    BELAY_ASSIGN_OR_RETURN(const KeyPatterns keys,
                           KeyPatterns::Compile(options_.keys));
    BELAY_ASSIGN_OR_RETURN(const KeyPatterns leave_out,
                           KeyPatterns::Compile(options_.leave_out));
    BELAY_RETURN_IF_ERROR(keys.CheckAllMatch(views_));
    BELAY_RETURN_IF_ERROR(leave_out.CheckAllMatch(views_, "leave_out"));
    std::vector<std::string> copied;
    for (const std::string& key : keys_) {
      if (used_.contains(key)) {
        ++plan_.num_used;
        continue;
      }
      const bool is_taken = options_.keys.empty() || keys.Find(key) >= 0;
      if (key == always_ || (is_taken && leave_out.Find(key) < 0)) {
        copied.push_back(key);
      } else {
        ++plan_.num_left_out;
      }
    }
    // The form of a container is copied if any of its elements is.
    std::vector<std::string> forms;
    for (std::string& form : ListKeys(saved_, /*are_forms=*/true)) {
      const auto [key, is_empty] = ParseForm(form);
      const bool has_copied =
          key.empty() || HasBelow(copied, key) ||
          std::binary_search(copied.begin(), copied.end(), key);
      const bool is_taken = options_.keys.empty() || keys.Find(key) >= 0;
      const bool is_copied =
          is_empty ? is_taken && leave_out.Find(key) < 0 : has_copied;
      if (is_copied) forms.push_back(std::move(form));
    }
    copied.insert(copied.end(), forms.begin(), forms.end());
    std::sort(copied.begin(), copied.end());
    return copied;
  }

  // Even a few rules from an untrusted source may match so many keys that their
  // results exhaust the memory, or make keys of any length: each group that a
  // text names may be the whole key.
  Status CheckSize() const {
    const int64_t most = MostRuleNodes(keys_.size());
    int64_t nodes = 0, most_bytes = int64_t{64} << 20;
    for (const std::string& key : keys_) most_bytes += 64 * std::ssize(key);
    double bytes = 0;  // of the keys that the rules make and read
    for (size_t i = 0; i < options_.rules.size(); ++i) {
      const ConversionRule& rule = options_.rules[i];
      int64_t matches = rule.keys.empty() ? 1 : 0;
      double matched = 0;  // bytes of the keys
      for (const std::string& key : keys_) {
        if (rule.keys.empty()) break;
        if (!rules_.Matches(i, key)) continue;
        ++matches;
        matched += static_cast<double>(key.size());
      }
      nodes += matches * CountNodes(rule.value, most + 1);
      if (nodes > most) {
        return absl::ResourceExhaustedError(
            Cat("rule ", i + 1, ": the rules make too much (need at most ",
                most, " stored arrays and functions for ", keys_.size(),
                " stored values, found ", nodes, " or more)"));
      }
      double length = 0, groups = 0;
      const auto count = [&](const std::string& text) {
        length += static_cast<double>(text.size());
        groups += static_cast<double>(std::ranges::count(text, '\\'));
        return std::string();
      };
      count(rule.key);
      WithKeys(rule.value, count);  // as often as it names each
      bytes += length * static_cast<double>(matches) + groups * matched;
      if (bytes > static_cast<double>(most_bytes)) {
        return absl::ResourceExhaustedError(
            Cat("rule ", i + 1,
                ": the rules make keys that are too long (need at most ",
                BytesText(most_bytes), " for all, found more)"));
      }
    }
    return absl::OkStatus();
  }

  Status ApplyRule(size_t rule) {
    if (options_.rules[rule].keys.empty()) return Make(rule, "");
    BELAY_RETURN_IF_ERROR(rules_.CheckMatches(rule, views_));
    for (const std::string& key : keys_) {
      if (key == always_ || !rules_.Matches(rule, key)) continue;
      BELAY_RETURN_IF_ERROR(Make(rule, key));
    }
    return absl::OkStatus();
  }

  // Adds the array that a rule makes for a key.
  Status Make(size_t rule, const std::string& matched) {
    MadeArray made{.key = rules_.KeyFor(rule, matched),
                   .rule = static_cast<int32_t>(rule),
                   .matched = matched,
                   .form = {}};
    const Transform value = rules_.ValueFor(rule, matched);
    std::map<std::string, ArrayForm> forms;
    for (const std::string& key : value.StoredKeys()) {
      const StoredArray* const array = FindArray(saved_, key);
      if (array == nullptr) continue;
      if (!std::binary_search(keys_.begin(), keys_.end(), key)) {
        return absl::InvalidArgumentError(
            Cat("rule \"", made.key, "\": \"", key,
                "\" is a part of another value, which is copied "
                "whole"));
      }
      forms[key] = {.dtype = array->dtype, .shape = array->shape};
      if (key != always_) used_.insert(key);
    }
    const StatusOr<ArrayForm> form =
        ComputeForm(value, [&](const std::string& key) -> const ArrayForm* {
          const auto found = forms.find(key);
          return found == forms.end() ? nullptr : &found->second;
        });
    if (!form.ok()) {
      return AddPrefix(form.status(), "rule \"", made.key, "\"");
    }
    made.form = *form;
    plan_.made.push_back(std::move(made));
    return absl::OkStatus();
  }

  Status CheckMade(const std::vector<std::string>& copied) const {
    MadeBytes bytes;
    for (const std::string& key : used_) {
      const StoredArray& array = *FindArray(saved_, key);
      bytes.AddStored(key, {.dtype = array.dtype, .shape = array.shape});
    }
    for (const MadeArray& one : plan_.made) bytes.AddMade(one.form);
    BELAY_RETURN_IF_ERROR(bytes.Check("the rules"));
    for (size_t i = 0; i < plan_.made.size(); ++i) {
      const std::string& key = plan_.made[i].key;
      if (i > 0 && plan_.made[i - 1].key == key) {
        return absl::InvalidArgumentError(
            Cat("rule \"", key, "\": the key is made twice"));
      }
      if (std::binary_search(copied.begin(), copied.end(), key)) {
        return absl::InvalidArgumentError(
            Cat("rule \"", key,
                "\": the key is stored, and copied as it is: leave "
                "it out, or make another one"));
      }
    }
    return absl::OkStatus();
  }

  const SavedCheckpoint& saved_;
  const CopyOptions& options_;
  const std::string_view always_;
  const std::vector<std::string> keys_;
  const std::vector<std::string_view> views_;  // of keys_
  RuleValues rules_;
  std::set<std::string> used_;  // by rules
  CopyPlan plan_;
};

}  // namespace

StatusOr<CopyPlan> PlanCopy(const SavedCheckpoint& saved,
                            const CopyOptions& options,
                            std::string_view always) {
  return CopyPlanner(saved, options, always).Plan();
}

StatusOr<RuleValues> RuleValues::Create(
    const std::vector<ConversionRule>& rules) {
  RuleValues values;
  values.rules_ = &rules;
  PatternCache cache;
  for (const ConversionRule& rule : rules) {
    if (rule.value.empty()) {
      return absl::InvalidArgumentError(
          Cat("rule \"", rule.key, "\": it has no value"));
    }
    KeyPatterns& pattern = values.patterns_.emplace_back();
    if (rule.keys.empty()) continue;
    BELAY_ASSIGN_OR_RETURN(pattern, cache.Compile(rule.keys));
    BELAY_RETURN_IF_ERROR(pattern.CheckRewrite(0, rule.key));
    for (const std::string& key : rule.value.StoredKeys()) {
      BELAY_RETURN_IF_ERROR(pattern.CheckRewrite(0, key));
    }
  }
  return values;
}

bool RuleValues::Matches(size_t rule, std::string_view key) const {
  return patterns_[rule].Find(key) >= 0;
}

Status RuleValues::CheckMatches(
    size_t rule, const std::vector<std::string_view>& keys) const {
  return patterns_[rule].CheckAllMatch(keys, Cat("rule ", rule + 1));
}

std::string RuleValues::KeyFor(size_t rule, const std::string& matched) const {
  const ConversionRule& one = (*rules_)[rule];
  if (one.keys.empty()) return one.key;
  return patterns_[rule].Rewrite(0, matched, one.key);
}

Transform RuleValues::ValueFor(size_t rule, const std::string& matched) const {
  const ConversionRule& one = (*rules_)[rule];
  if (one.keys.empty()) return one.value;
  return WithKeys(one.value, [&](const std::string& key) {
    return patterns_[rule].Rewrite(0, matched, key);
  });
}

}  // namespace belay
