#include "state/stored_answer.h"

#include <algorithm>
#include <set>
#include <utility>

#include "core/catch_exceptions.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "core/wire.h"
#include "plan/plan.h"
#include "plan/stored_values.h"
#include "state/array_access.h"
#include "state/conversions.h"
#include "state/memory_layout.h"
#include "state/rank_rows.h"
#include "state/value_listing.h"

namespace belay {
namespace {

using Choose = absl::FunctionRef<RestoreChoice(std::string_view key)>;

const std::string& StoredKey(const RestoreChoice& choice,
                             const std::string& key) {
  return choice.stored_key.empty() ? key : choice.stored_key;
}

// Notes the stored values of one that is left out.
void Skip(const std::string& key, const RestoreChoice& choice,
          ValuesToRead& values) {
  if (choice.transform.empty()) {
    values.skipped.push_back(StoredKey(choice, key));
  }
  for (std::string& source : choice.transform.StoredKeys()) {
    values.skipped.push_back(std::move(source));
  }
}

// The values that need a handler; marks those of the shards that do.
Status AddHandled(const State& state, const HandlerTable& table, Choose choose,
                  std::vector<bool>& is_handled, ValuesToRead& values) {
  for (const TypedValue& typed : state.typed()) {
    BELAY_ASSIGN_OR_RETURN(TypeHandlerPtr handler, HandlerFor(typed, table));
    if (handler == nullptr) continue;
    if (typed.shard >= 0) is_handled[static_cast<size_t>(typed.shard)] = true;
    const RestoreChoice choice = choose(typed.key);
    if (choice.skip) {
      Skip(typed.key, choice, values);
      continue;
    }
    BELAY_RETURN_IF_ERROR(CheckNotComputed(typed.key, choice));
    values.handled.push_back({.key = StoredKey(choice, typed.key),
                              .value = typed.value,
                              .handler = std::move(handler),
                              .tolerance = choice.tolerance,
                              .may_be_absent = choice.may_be_absent});
  }
  return absl::OkStatus();
}

// Adds a value of the program, with the ghost cells that it fills.
Status AddFound(Shard shard, const RestoreChoice& choice,
                ValuesToRead& values) {
  BELAY_RETURN_IF_ERROR(FindElements(shard));
  if (shard.ghosts == nullptr) return values.Add(std::move(shard), choice);
  BELAY_ASSIGN_OR_RETURN(std::vector<Shard> parts,
                         WithGhostCells(std::move(shard)));
  for (Shard& part : parts) {
    BELAY_RETURN_IF_ERROR(values.Add(std::move(part), choice));
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<std::string_view> KeysOf(const State& state) {
  std::vector<std::string_view> keys;
  for (const Shard& shard : state.shards()) keys.push_back(shard.key);
  for (const TypedValue& typed : state.typed()) {
    if (typed.shard < 0) keys.push_back(typed.key);
  }
  return keys;
}

Status CheckNotComputed(const std::string& key, const RestoreChoice& choice) {
  if (choice.transform.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      Cat("compute \"", key, "\": ", choice.transform.ToString(),
          ": only arrays and numbers without handlers are computed"));
}

Status ValuesToRead::Add(Shard&& shard, const RestoreChoice& choice) {
  if (choice.transform.empty()) {
    AddShard(std::move(shard), choice);
    return absl::OkStatus();
  }
  if (shard.dtype == DType::kString || shard.rows != nullptr)
    return CheckNotComputed(shard.key, choice);
  if (!choice.stored_key.empty()) shard.key = choice.stored_key;
  computed.push_back({.shard = std::move(shard),
                      .transform = choice.transform,
                      .tolerance = choice.tolerance,
                      .may_be_absent = choice.may_be_absent});
  return absl::OkStatus();
}

void ValuesToRead::AddShard(Shard&& shard, const RestoreChoice& choice) {
  if (!choice.stored_key.empty()) TakeKey(choice.stored_key, shard);
  shards.push_back(std::move(shard));
  tolerances.push_back(choice.tolerance);
  may_be_absent.push_back(choice.may_be_absent);
}

Status CheckWritable(const ValuesToRead& values) {
  const std::string* key = nullptr;
  for (const Shard& shard : values.shards) {
    if (shard.is_const && key == nullptr) key = &shard.key;
  }
  for (const ComputedValue& value : values.computed) {
    if (value.shard.is_const && key == nullptr) key = &value.shard.key;
  }
  for (const HandledValue& value : values.handled) {
    if (value.value.is_const && key == nullptr) key = &value.key;
  }
  return key == nullptr ? absl::OkStatus() : ConstValueError(*key);
}

Status ConstValueError(const std::string& key) {
  return absl::InvalidArgumentError(
      Cat("restore \"", key, "\": the program's value is const, and can only ",
          "be saved; add one that can be written, or leave it out with ",
          "RestoreArgs::skip"));
}

StatusOr<ValuesToRead> ChooseValues(const State& state,
                                    const HandlerTable& table, Choose choose) {
  BELAY_RETURN_IF_ERROR(state.status());
  return CatchExceptions([&]() -> StatusOr<ValuesToRead> {
    ValuesToRead values;
    std::vector<bool> is_handled(state.shards().size());
    BELAY_RETURN_IF_ERROR(AddHandled(state, table, choose, is_handled, values));
    values.shards.reserve(is_handled.size());
    for (size_t i = 0; i < is_handled.size(); ++i) {
      if (is_handled[i]) continue;
      const Shard& shard = state.shards()[i];
      RestoreChoice choice = choose(shard.key);
      // Some would get nothing.
      if (shard.rows != nullptr) choice.tolerance.lengths = false;
      if (choice.skip) {
        Skip(shard.key, choice, values);
      } else {
        BELAY_RETURN_IF_ERROR(AddFound(shard, choice, values));
      }
    }
    return values;
  });
}

// --- Stored answer ---

namespace {

using Keys = std::vector<std::string>;

template <typename T>
void MakeDistinct(std::vector<T>& keys) {
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
}

void MakeDistinct(StoredQuestion& question) {
  const auto make = [](auto&... lists) { (MakeDistinct(lists), ...); };
  Fields(make, question);
}

size_t CountAll(StoredQuestion& question) {
  size_t count = 0;
  const auto add = [&](auto&... lists) { ((count += lists.size()), ...); };
  Fields(add, question);
  return count;
}

template <typename T>
void Append(std::vector<T> added, std::vector<T>& keys) {
  keys.insert(keys.end(), std::make_move_iterator(added.begin()),
              std::make_move_iterator(added.end()));
}

template <typename T>
void AppendFrom(WireReader& in, std::vector<T>& keys) {
  std::vector<T> added;
  in(added);
  Append(std::move(added), keys);
}

bool HasKey(const std::vector<StoredValue>& stored, const std::string& key) {
  const auto found =
      std::lower_bound(stored.begin(), stored.end(), key,
                       [](const StoredValue& value, const std::string& wanted) {
                         return value.key < wanted;
                       });
  return found != stored.end() && found->key == key;
}

// Whether what is stored does not fit this shard. Of a key with several forms
// only that of the shard counts.
bool IsMismatched(const Shard& shard, Tolerance tolerance,
                  const std::vector<Conversion>& mismatched) {
  const Shape& shape = shard.global_shape;
  auto one = std::lower_bound(
      mismatched.begin(), mismatched.end(), shard.key,
      [](const Conversion& a, const std::string& key) { return a.key < key; });
  for (; one != mismatched.end() && one->key == shard.key; ++one) {
    if (one->dtype != shard.dtype || one->shape != shape) continue;
    return !Fits({one->stored_dtype, one->stored_shape},
                 {shard.dtype,
                  ShapeToRestore(shard, one->stored_dtype, one->stored_shape)},
                 tolerance);
  }
  return false;
}

void AddSources(const SavedCheckpoint& saved, const StoredQuestion& question,
                StoredAnswer& answer) {
  Keys keys = question.sources;
  Append(question.optional_sources, keys);
  MakeDistinct(keys);
  for (const std::string& key : keys) {
    const StoredArray* array = FindArray(saved, key);
    if (array == nullptr) continue;
    answer.sources[key] = {.dtype = array->dtype, .shape = array->shape};
  }
}

void AddRows(const SavedCheckpoint& saved, const StoredQuestion& question,
             StoredAnswer& answer) {
  for (const std::string& id : question.rows) {
    const StoredArray* const array = FindArray(saved, StoredKeyOfId(id));
    if (array == nullptr) continue;
    FoundRows found{.id = id,
                    .dtype = array->dtype,
                    .shape = array->shape,
                    .fields = array->fields,
                    .ranks = {}};
    const auto row = static_cast<uint32_t>(array - saved.arrays.data());
    const auto ranks = std::lower_bound(
        saved.rows.begin(), saved.rows.end(), row,
        [](const StoredRows& a, uint32_t b) { return a.array < b; });
    if (ranks != saved.rows.end() && ranks->array == row) {
      found.ranks = ranks->ranks;
    }
    answer.rows.push_back(std::move(found));
  }
}

}  // namespace

const ArrayForm* FindSource(const StoredAnswer& answer,
                            const std::string& key) {
  const auto found = answer.sources.find(key);
  return found == answer.sources.end() ? nullptr : &found->second;
}

StoredQuestion QuestionOf(const ValuesToRead& values, bool asks_all) {
  StoredQuestion question;
  for (const HandledValue& value : values.handled) {
    (value.may_be_absent ? question.optional_handled : question.handled)
        .push_back(value.key);
  }
  for (size_t i = 0; i < values.shards.size(); ++i) {
    const Shard& shard = values.shards[i];
    if (values.may_be_absent[i]) question.optional_plain.push_back(shard.key);
    if (IsResizable(shard)) question.resizable.push_back(shard.key);
    if (shard.rows != nullptr) question.rows.push_back(RowsId(shard));
  }
  for (const ComputedValue& value : values.computed) {
    Append(value.transform.StoredKeys(),
           value.may_be_absent ? question.optional_sources : question.sources);
  }
  if (asks_all) {
    for (size_t i = 0; i < values.shards.size(); ++i) {
      const Shard& shard = values.shards[i];
      if (shard.rows != nullptr) continue;
      question.arrays.push_back({.key = shard.key,
                                 .dtype = shard.dtype,
                                 .shape = shard.global_shape,
                                 .tolerance = values.tolerances[i],
                                 .takes_length = IsResizable(shard)});
    }
    question.skipped = values.skipped;
    for (const std::string& id : question.rows) {
      question.skipped.push_back(StoredKeyOfId(id));  // in whatever form
    }
    // What values are computed from is wanted.
    for (const ComputedValue& value : values.computed) {
      Append(value.transform.StoredKeys(), question.skipped);
    }
  }
  MakeDistinct(question);
  return question;
}

StoredQuestion MergeQuestions(const std::vector<std::string>& gathered) {
  StoredQuestion all;
  std::set<std::string_view> seen;  // many ranks ask the same
  size_t distinct = 0;
  for (const std::string& bytes : gathered) {
    if (!seen.insert(bytes).second) continue;
    WireReader in(bytes);
    const auto append = [&](auto&... lists) { (AppendFrom(in, lists), ...); };
    Fields(append, all);
    // So that it never holds what all ranks ask for.
    if (CountAll(all) < 2 * distinct) continue;
    MakeDistinct(all);
    distinct = CountAll(all);
  }
  MakeDistinct(all);
  return all;
}

std::map<std::string, std::vector<int32_t>> RanksThatRestoreRows(
    const std::vector<std::string>& gathered) {
  std::map<std::string, std::vector<int32_t>> ranks;
  for (size_t rank = 0; rank < gathered.size(); ++rank) {
    WireReader in(gathered[rank]);
    for (std::string& id : in.GetTexts()) {
      ranks[std::move(id)].push_back(static_cast<int32_t>(rank));
    }
  }
  for (auto& [id, some] : ranks) {
    if (some.size() == gathered.size()) some.clear();
  }
  return ranks;
}

StatusOr<StoredAnswer> AnswerOf(const SavedCheckpoint& saved,
                                const StoredQuestion& question) {
  StoredAnswer answer;
  BELAY_ASSIGN_OR_RETURN(answer.stored, FindValues(saved, question.handled,
                                                   question.optional_handled));
  for (const std::string& key : question.optional_handled) {
    if (!HasKey(answer.stored, key)) answer.missing.push_back(key);
  }
  for (const std::string& key : question.optional_plain) {
    if (!HasValue(saved, key)) answer.missing.push_back(key);
  }
  for (const std::string& key : question.optional_sources) {
    if (FindArray(saved, key) == nullptr) answer.missing.push_back(key);
  }
  MakeDistinct(answer.missing);
  AddSources(saved, question, answer);
  for (const std::string& key : question.resizable) {
    const StoredArray* array = FindArray(saved, key);
    if (array == nullptr || array->shape.size() != 1) continue;
    answer.lengths[key] = array->shape[0];
  }
  AddRows(saved, question, answer);
  return answer;
}

void LeaveOut(const StoredAnswer& answer, ValuesToRead& values) {
  if (answer.missing.empty() && answer.mismatched.empty()) return;
  // What is stored below a key is something for a handler, and nothing for an
  // array.
  std::erase_if(values.computed, [&](const ComputedValue& value) {
    const Keys keys = value.transform.StoredKeys();
    return value.may_be_absent &&
           std::any_of(keys.begin(), keys.end(), [&](const std::string& key) {
             return FindSource(answer, key) == nullptr;
           });
  });
  std::erase_if(values.handled, [&](const HandledValue& value) {
    return value.may_be_absent && !HasKey(answer.stored, value.key);
  });
  ValuesToRead left{.handled = std::move(values.handled),
                    .computed = std::move(values.computed)};
  for (size_t i = 0; i < values.shards.size(); ++i) {
    if (values.may_be_absent[i] &&
        std::binary_search(answer.missing.begin(), answer.missing.end(),
                           values.shards[i].key)) {
      continue;
    }
    if (IsMismatched(values.shards[i], values.tolerances[i],
                     answer.mismatched)) {
      continue;
    }
    left.AddShard(std::move(values.shards[i]),
                  {.may_be_absent = values.may_be_absent[i],
                   .tolerance = values.tolerances[i]});
  }
  values = std::move(left);
}

std::string EncodeAnswer(const StoredAnswer& answer) {
  return Encode(answer) + EncodeValues(answer.stored);
}

StoredAnswer DecodeAnswer(std::string_view bytes) {
  WireReader in(bytes);
  StoredAnswer answer;
  in(answer);
  answer.stored = DecodeValues(in.Rest());
  return answer;
}

}  // namespace belay
