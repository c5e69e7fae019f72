#include "state/copy_plan.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <utility>
#include <variant>

#include "absl/strings/str_format.h"
#include "belay/handlers/standard_handlers.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "core/wire.h"
#include "plan/stored_values.h"
#include "state/memory_layout.h"
#include "state/transform.h"
#include "state/transform_plan.h"

namespace belay {
namespace {

// Less is not worth cutting.
constexpr int64_t kLeastCutBytes = int64_t{1} << 20;
// Any element lies well at multiples of this.
constexpr int64_t kAlignment = 64;

int64_t BytesOf(const Shard& shard) {
  return NumElements(shard.box.shape) * DTypeSize(shard.dtype);
}

int64_t AlignedBytes(const Shard& shard) {
  return (BytesOf(shard) + kAlignment - 1) / kAlignment * kAlignment;
}

// The arrays of a value and of those inside it, which may be listed with both.
void CollectParts(const StoredValue& value,
                  std::map<std::string, ValuePart>& parts) {
  for (const ValuePart& part : value.parts) {
    parts.emplace(PartKey(value.key, part.name), part);
  }
  for (const StoredValue& inner : value.values) CollectParts(inner, parts);
}

// Deals out arrays.
class Cutter {
 public:
  Cutter(const CopyPlan& plan, int rank, int num_ranks, CopiedPieces& pieces)
      : plan_(plan), rank_(rank), num_ranks_(num_ranks), pieces_(pieces) {}

  void Add(size_t value, Shard shard) {
    if (shard.dtype == DType::kString) {
      if (!IsMyTurn()) return;
      shard.text = &pieces_.texts.emplace_back();
      return Keep(value, std::move(shard));
    }
    shard.box = WholeBox(shard.global_shape);
    shard.structs = StructsOf(shard.key);
    const int64_t bytes = BytesOf(shard);  // of the whole array
    pieces_.total_bytes += bytes;
    size_t axes = shard.global_shape.size();  // that can be cut
    if (shard.structs != nullptr) --axes;
    size_t axis = 0;
    while (axis < axes && shard.global_shape[axis] < num_ranks_) ++axis;
    if (bytes < kLeastCutBytes || axis == axes) {
      if (!IsMyTurn()) return;
      return Keep(value, std::move(shard));
    }
    const int64_t length = shard.global_shape[axis];
    // An even cut: the first ranks have one more.
    const int64_t even = length / num_ranks_, more = length % num_ranks_;
    shard.box.offset[axis] = rank_ * even + std::min<int64_t>(rank_, more);
    shard.box.shape[axis] = even + (rank_ < more ? 1 : 0);
    Keep(value, std::move(shard));
  }

 private:
  // How structs lie in the memory of the copy; null for an array of numbers.
  std::shared_ptr<const StructLayout> StructsOf(const std::string& key) const {
    const auto found = plan_.fields.find(key);
    if (found == plan_.fields.end()) return nullptr;
    const auto layout = StoredLayout(found->second);  // the index was read
    return layout.ok() ? *layout : nullptr;
  }

  bool IsMyTurn() { return next_++ % num_ranks_ == rank_; }

  void Keep(size_t value, Shard shard) {
    if (shard.text == nullptr) {
      pieces_.bytes += AlignedBytes(shard);
      pieces_.array_bytes += BytesOf(shard);
    }
    pieces_.shards.push_back(std::move(shard));
    pieces_.value_of.push_back(value);
  }

  const CopyPlan& plan_;
  const int rank_;
  const int num_ranks_;
  int64_t next_ = 0;
  CopiedPieces& pieces_;
};

// A value with the pieces of one rank, and those inside it, by their keys
// behind its own.
struct CopiedValue {
  std::vector<std::pair<std::string, Shard>> pieces;
  std::vector<std::pair<std::string, CopiedValue*>> inner;
  std::string typestr;
};

// Lists the pieces under the typestr that the value was stored with.
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
    state.Add(key, state.Own(std::make_shared<std::monostate>()));
  } else {
    state.AddValue(key, RefTo(value),
                   std::make_shared<const CopiedValueHandler>(value.typestr));
  }
}

Status CopiedValueHandler::ListForSave(CopiedValue& value, State& parts) const {
  for (const auto& [key, piece] : value.pieces) {
    Shard shard = piece;
    shard.key = key;
    parts.AddShard(std::move(shard));
  }
  for (const auto& [key, inner] : value.inner) AddCopied(key, *inner, parts);
  return absl::OkStatus();
}

// Values inside each other, by whole key.
using Family = std::map<std::string, CopiedValue>;

// The innermost value that a key lies in, itself included if `itself`.
Family::iterator HolderOf(const std::string& key, bool itself, Family& family) {
  std::string prefix = key;
  if (itself) {
    if (const auto at = family.find(prefix); at != family.end()) return at;
  }
  while (true) {
    const size_t slash = prefix.rfind('/');
    if (slash == prefix.npos) return family.end();
    prefix.resize(slash);
    if (const auto at = family.find(prefix); at != family.end()) return at;
  }
}

std::string Behind(const std::string& holder, const std::string& key) {
  return key.size() == holder.size() ? "" : key.substr(holder.size() + 1);
}

// Adds a value and all inside it, which may be listed with several that hold
// it. Returns their keys, ascending.
std::set<std::string> AddValues(const StoredValue& stored, Family& family) {
  std::set<std::string> keys = {stored.key};
  family[stored.key].typestr = stored.typestr;
  for (const StoredValue& inner : stored.values) {
    keys.merge(AddValues(inner, family));
  }
  return keys;
}

// The same, with the links between them.
void AddFamily(const StoredValue& stored, Family& family) {
  for (const std::string& key : AddValues(stored, family)) {
    if (key == stored.key) continue;
    const auto holder = HolderOf(key, /*itself=*/false, family);
    holder->second.inner.emplace_back(Behind(holder->first, key), &family[key]);
  }
}

}  // namespace

void CutForCopy(const CopyPlan& plan, int rank, int num_ranks,
                CopiedPieces& pieces) {
  Cutter cutter(plan, rank, num_ranks, pieces);
  for (size_t i = 0; i < plan.values.size(); ++i) {
    std::map<std::string, ValuePart> parts;
    CollectParts(plan.values[i], parts);
    for (auto& [key, part] : parts) {
      cutter.Add(i, {.key = key,
                     .dtype = part.dtype,
                     .global_shape = part.shape,
                     .layout = plan.layouts[i]});
    }
  }
  for (size_t i = 0; i < plan.made.size(); ++i) {
    const MadeArray& made = plan.made[i];
    cutter.Add(plan.values.size() + i, {.key = made.key,
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
    state.AddShard(std::move(shard));
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
      state.AddShard(std::move(shard));
      continue;
    }
    const auto holder = HolderOf(shard.key, /*itself=*/true, *family);
    std::string key = Behind(holder->first, shard.key);
    holder->second.pieces.emplace_back(std::move(key), std::move(shard));
  }
  std::exchange(pieces.shards, {});  // with its memory
  for (const StoredValue& value : plan.values) {
    if (!IsPlain(value)) AddCopied(value.key, family->at(value.key), state);
  }
  state.Own(std::move(family));
  return state;
}

// --- Copy plan ---

namespace {

Status Refuse(const std::string& cause) {
  return absl::InvalidArgumentError(cause);
}

// The values that stand alone, ascending by key: those of the program, or what
// says which Python objects they were (docs/format.md).
std::vector<std::string> KeysAlone(const SavedCheckpoint& saved,
                                   bool are_forms) {
  std::vector<std::string> keys;
  for (StoredValue& value : ValuesAlone(saved)) {
    if (IsFormKey(value.key) != are_forms) continue;
    keys.push_back(std::move(value.key));
  }
  return keys;
}

// The key of the container or value that a form is about, and whether that is a
// container without elements.
std::pair<std::string, bool> SubjectOf(const std::string& form) {
  const std::vector<std::string_view> parts = Split(form, '/');
  if (parts.size() < 3) return {"", false};
  return {standard::KeyOfPart(parts[2]), parts[1] == "empty"};
}

std::vector<std::string_view> ViewsOf(const std::vector<std::string>& keys) {
  return {keys.begin(), keys.end()};
}

// Whether one of the keys, ascending, is below another key.
bool HasBelow(const std::vector<std::string>& keys, const std::string& key) {
  const std::string below = key + "/";
  const auto at = std::lower_bound(keys.begin(), keys.end(), below);
  return at != keys.end() && at->starts_with(below);
}

class CopyPlanner {
 public:
  CopyPlanner(const SavedCheckpoint& saved, const CopyOptions& options,
              std::string_view always)
      : saved_(saved),
        options_(options),
        always_(always),
        keys_(KeysAlone(saved, /*are_forms=*/false)) {}

  StatusOr<CopyPlan> Plan() {
    BELAY_ASSIGN_OR_RETURN(rules_, RuleValues::Create(options_.rules));
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
  bool IsAlone(const std::string& key) const {
    return std::binary_search(keys_.begin(), keys_.end(), key);
  }

  // Structs stay structs where they are copied as they are.
  void NoteStructs() {
    for (const StoredArray& array : saved_.arrays) {
      if (!array.fields.empty()) plan_.fields[array.key] = array.fields;
    }
    for (const MadeArray& made : plan_.made) {
      plan_.fields.erase(made.key);
      const Transform value =
          rules_.ValueFor(static_cast<size_t>(made.rule), made.matched);
      const std::string* const source = StoredKeyOf(value);
      const StoredArray* const array =
          source == nullptr ? nullptr : FindArray(saved_, *source);
      if (array == nullptr || array->fields.empty()) continue;
      plan_.fields[made.key] = array->fields;
    }
  }

  // The keys that are copied; the others are counted.
  StatusOr<std::vector<std::string>> Select() {
    BELAY_ASSIGN_OR_RETURN(const KeyPatterns keys,
                           KeyPatterns::Compile(options_.keys));
    BELAY_ASSIGN_OR_RETURN(const KeyPatterns leave_out,
                           KeyPatterns::Compile(options_.leave_out));
    const std::vector<std::string_view> views = ViewsOf(keys_);
    BELAY_RETURN_IF_ERROR(keys.CheckAllMatch(views));
    BELAY_RETURN_IF_ERROR(leave_out.CheckAllMatch(views, "leave_out"));
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
    // What says of which kind a container is goes with what is in it.
    std::vector<std::string> forms;
    for (std::string& form : KeysAlone(saved_, /*are_forms=*/true)) {
      const auto [key, is_empty] = SubjectOf(form);
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

  Status ApplyRule(size_t rule) {
    if (options_.rules[rule].keys.empty()) return Make(rule, "");
    BELAY_RETURN_IF_ERROR(rules_.CheckMatches(rule, ViewsOf(keys_)));
    for (const std::string& key : keys_) {
      if (key == always_ || !rules_.Matches(rule, key)) continue;
      BELAY_RETURN_IF_ERROR(Make(rule, key));
    }
    return absl::OkStatus();
  }

  // Notes the array that a rule makes for a key that it matches.
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
      if (!IsAlone(key)) {
        return Refuse(Cat("rule \"", made.key, "\": \"", key,
                          "\" is a part of another value, which is copied "
                          "whole"));
      }
      forms[key] = {.dtype = array->dtype, .shape = array->shape};
      if (key != always_) used_.insert(key);
    }
    const StatusOr<ArrayForm> form =
        FormOf(value, [&](const std::string& key) -> const ArrayForm* {
          const auto found = forms.find(key);
          return found == forms.end() ? nullptr : &found->second;
        });
    if (!form.ok()) {
      return Status(form.status().code(),
                    Cat("rule \"", made.key,
                        "\": ", std::string(form.status().message())));
    }
    made.form = *form;
    plan_.made.push_back(std::move(made));
    return absl::OkStatus();
  }

  Status CheckMadeBytes() const {
    MadeBytes bytes;
    for (const std::string& key : used_) {
      const StoredArray& array = *FindArray(saved_, key);
      bytes.AddStored(key, {.dtype = array.dtype, .shape = array.shape});
    }
    for (const MadeArray& one : plan_.made) bytes.AddMade(one.form);
    return bytes.Check("the rules");
  }

  Status CheckMade(const std::vector<std::string>& copied) const {
    BELAY_RETURN_IF_ERROR(CheckMadeBytes());
    for (size_t i = 0; i < plan_.made.size(); ++i) {
      const std::string& key = plan_.made[i].key;
      if (i > 0 && plan_.made[i - 1].key == key) {
        return Refuse(Cat("rule \"", key, "\": the key is made twice"));
      }
      if (std::binary_search(copied.begin(), copied.end(), key)) {
        return Refuse(Cat("rule \"", key,
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
  for (const ConversionRule& rule : rules) {
    if (rule.value.empty()) {
      return Refuse(Cat("rule \"", rule.key, "\": it has no value"));
    }
    KeyPatterns& pattern = values.patterns_.emplace_back();
    if (rule.keys.empty()) continue;
    BELAY_ASSIGN_OR_RETURN(pattern, KeyPatterns::Compile({rule.keys}));
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

std::string EncodeCopyPlan(const CopyPlan& plan) {
  return Encode(plan) + EncodeValues(plan.values);
}

CopyPlan DecodeCopyPlan(std::string_view bytes) {
  WireReader in(bytes);
  CopyPlan plan;
  in(plan);
  plan.values = DecodeValues(in.Rest());
  return plan;
}

}  // namespace belay
