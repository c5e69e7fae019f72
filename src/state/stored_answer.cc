#include "state/stored_answer.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_format.h"
#include "belay/extend/transform_function.h"
#include "core/catch_exceptions.h"
#include "core/element_conversion.h"
#include "core/program_words.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "core/wire.h"
#include "plan/plan.h"
#include "plan/stored_values.h"
#include "state/array_access.h"
#include "state/rank_rows.h"
#include "state/strides_and_ghosts.h"
#include "state/value_listing.h"

namespace belay {
namespace {

using Choose = absl::FunctionRef<RestoreChoice(std::string_view key)>;

const std::string& StoredKey(const RestoreChoice& choice,
                             const std::string& key) {
  return choice.stored_key.empty() ? key : choice.stored_key;
}

void Skip(const std::string& key, const RestoreChoice& choice,
          ValuesToRead& values) {
  if (choice.transform.empty()) {
    values.skipped.push_back(StoredKey(choice, key));
  }
  for (std::string& source : choice.transform.StoredKeys()) {
    values.skipped.push_back(std::move(source));
  }
}

// Adds the values that need a handler; marks their shards in `is_handled`.
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

}  // namespace

std::vector<std::string_view> ListKeys(const State& state) {
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

Status ValuesToRead::Add(Shard shard, RestoreChoice choice) {
  // Otherwise some ranks would get no rows.
  if (shard.rows != nullptr) choice.tolerance.lengths = false;
  BELAY_RETURN_IF_ERROR(FindElements(shard));
  if (shard.ghosts == nullptr && choice.transform.empty()) {
    AddShard(std::move(shard), choice);
    return absl::OkStatus();
  }
  if (shard.dtype == DType::kString || shard.rows != nullptr) {
    return CheckNotComputed(shard.key, choice);
  }
  BELAY_ASSIGN_OR_RETURN(std::vector<Shard> parts,
                         WithGhostCells(std::move(shard)));
  for (Shard& part : parts) {
    if (choice.transform.empty()) {
      AddShard(std::move(part), choice);
      continue;
    }
    if (!choice.stored_key.empty()) part.key = choice.stored_key;
    computed.push_back({.shard = std::move(part),
                        .transform = choice.transform,
                        .tolerance = choice.tolerance,
                        .may_be_absent = choice.may_be_absent});
  }
  return absl::OkStatus();
}

void ValuesToRead::AddShard(Shard&& shard, const RestoreChoice& choice) {
  if (!choice.stored_key.empty()) TakeKey(choice.stored_key, shard);
  shards.push_back(std::move(shard));
  tolerances.push_back(choice.tolerance);
  may_be_absent.push_back(choice.may_be_absent);
}

Status CheckWritable(const ValuesToRead& values) {
  for (const Shard& shard : values.shards) {
    if (shard.is_const) return ConstValueError(shard.key);
  }
  for (const ComputedValue& value : values.computed) {
    if (value.shard.is_const) return ConstValueError(value.shard.key);
  }
  for (const HandledValue& value : values.handled) {
    if (value.value.is_const) return ConstValueError(value.key);
  }
  return absl::OkStatus();
}

Status ConstValueError(const std::string& key) {
  return absl::InvalidArgumentError(Cat(
      "restore \"", key, "\": the program's value is const, and can only ",
      "be saved; add one that can be written, or ", kLeaveOutWord.InProgram()));
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
      if (choice.skip) {
        Skip(shard.key, choice, values);
      } else {
        BELAY_RETURN_IF_ERROR(values.Add(shard, std::move(choice)));
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

// Other shards with the same key may have another form that matches.
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
  for (const Keys* keys : {&question.sources, &question.optional_sources}) {
    for (const std::string& key : *keys) {
      const StoredArray* array = FindArray(saved, key);
      if (array == nullptr) continue;
      answer.sources[key] = {.dtype = array->dtype, .shape = array->shape};
    }
  }
}

void AddRows(const SavedCheckpoint& saved, const StoredQuestion& question,
             StoredAnswer& answer) {
  for (const std::string& id : question.rows) {
    const StoredArray* const array = FindArray(saved, GetStoredKey(id));
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

StoredQuestion MakeQuestion(const ValuesToRead& values, bool asks_all) {
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
      question.skipped.push_back(GetStoredKey(id));  // whatever its form
    }
    // The sources of computed values are not unexpected.
    for (const ComputedValue& value : values.computed) {
      Append(value.transform.StoredKeys(), question.skipped);
    }
  }
  MakeDistinct(question);
  return question;
}

StoredQuestion MergeQuestions(const std::vector<std::string>& gathered) {
  StoredQuestion all;
  std::set<std::string_view> seen;  // many questions are equal
  size_t distinct = 0;
  for (const std::string& bytes : gathered) {
    if (!seen.insert(bytes).second) continue;
    WireReader in(bytes);
    const auto append = [&](auto&... lists) { (AppendFrom(in, lists), ...); };
    Fields(append, all);
    // Removes duplicates early to limit the memory: questions are similar.
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
    std::vector<std::string> ids;  // the first field of a question
    in(ids);
    for (std::string& id : ids) {
      ranks[std::move(id)].push_back(static_cast<int32_t>(rank));
    }
  }
  for (auto& [id, some] : ranks) {
    if (some.size() == gathered.size()) some.clear();
  }
  return ranks;
}

StatusOr<StoredAnswer> AnswerQuestion(const SavedCheckpoint& saved,
                                      const StoredQuestion& question) {
  StoredAnswer answer;
  BELAY_ASSIGN_OR_RETURN(answer.stored, FindValues(saved, question.handled,
                                                   question.optional_handled));
  for (const std::string& key : question.optional_handled) {
    if (FindByKey(answer.stored, key) == nullptr) answer.missing.push_back(key);
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
  // These two do not look in `missing`: a key may be stored as a group, which
  // is a value for a handler, but not an array.
  std::erase_if(values.computed, [&](const ComputedValue& value) {
    const Keys keys = value.transform.StoredKeys();
    return value.may_be_absent &&
           std::any_of(keys.begin(), keys.end(), [&](const std::string& key) {
             return FindSource(answer, key) == nullptr;
           });
  });
  std::erase_if(values.handled, [&](const HandledValue& value) {
    return value.may_be_absent &&
           FindByKey(answer.stored, value.key) == nullptr;
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

// --- Mismatches ---

namespace {

constexpr size_t kMaxNames = 10;

std::string QuoteFirst(const Keys& keys) {
  Keys quoted;
  for (const std::string& key : keys) quoted.push_back(Cat("\"", key, "\""));
  return JoinFirst(quoted, kMaxNames, ", ");
}

bool IsReported(MismatchPolicy policy) {
  return policy == MismatchPolicy::kWarn || policy == MismatchPolicy::kCollect;
}

// Returns the keys of all arrays of a value with a handler.
Keys ListArrays(const SavedCheckpoint& saved, const std::string& key) {
  const std::string below = key + "/";
  Keys keys;
  for (size_t i = FirstFrom(saved.arrays, key); i < saved.arrays.size(); ++i) {
    const std::string& one = saved.arrays[i].key;
    if (!one.starts_with(key)) break;
    if (one == key || one.starts_with(below)) keys.push_back(one);
  }
  return keys;
}

bool FitsAsked(const StoredArray& array, const AskedArray& asked) {
  Shape shape = asked.shape;
  const bool takes_length = asked.takes_length &&
                            array.dtype != DType::kString &&
                            array.shape.size() == shape.size();
  if (takes_length) shape.back() = array.shape.back();
  return Fits({array.dtype, array.shape}, {asked.dtype, shape},
              asked.tolerance);
}

}  // namespace

bool HasDefaultPolicies(const RestoreOptions& options) {
  const RestoreOptions usual;
  return options.missing == usual.missing &&
         options.unexpected == usual.unexpected &&
         options.mismatched == usual.mismatched;
}

Status CheckMismatchPoliciesToObjects(const RestoreOptions& options) {
  const RestoreOptions usual;
  if (options.on_open != nullptr) {
    return absl::InvalidArgumentError(
        "the option on_open is for the values of a State: objects are there "
        "before a restore");
  }
  const bool missing = options.missing != usual.missing;
  if (!missing && options.unexpected == usual.unexpected) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      Cat("the option ", missing ? "missing" : "unexpected",
          " is for the values of a State: ask the LoadStatus of the restore"));
}

std::vector<Conversion> FindMismatched(const SavedCheckpoint& saved,
                                       const std::vector<AskedArray>& wanted) {
  std::vector<Conversion> mismatched;
  for (const AskedArray& one : wanted) {
    const StoredArray* const array = FindArray(saved, one.key);
    if (array == nullptr || FitsAsked(*array, one)) continue;
    // Reports a form only once, even if it is wanted with several tolerances.
    if (!mismatched.empty() && mismatched.back().key == one.key &&
        mismatched.back().dtype == one.dtype &&
        mismatched.back().shape == one.shape) {
      continue;
    }
    mismatched.push_back({.key = one.key,
                          .dtype = one.dtype,
                          .shape = one.shape,
                          .stored_dtype = array->dtype,
                          .stored_shape = array->shape});
  }
  return mismatched;
}

Keys FindUnexpected(const SavedCheckpoint& saved,
                    const StoredQuestion& question) {
  std::set<std::string> handled;
  for (const Keys* keys : {&question.handled, &question.optional_handled}) {
    handled.insert(keys->begin(), keys->end());
  }
  std::set<std::string> known = handled;
  for (const Keys* keys : {&question.optional_plain, &question.skipped}) {
    known.insert(keys->begin(), keys->end());
  }
  for (const AskedArray& array : question.arrays) known.insert(array.key);
  const auto is_stored_with_handler = [&](const std::string& key) {
    const Keys& values = saved.values.key;
    return std::binary_search(values.begin(), values.end(), key);
  };
  // Returns true if the key is known or is inside a known value with a handler.
  // A value that is stored on its own is not part of one that is stored with a
  // handler.
  const auto is_known = [&](const std::string& key, bool is_alone) {
    if (known.contains(key)) return true;
    for (size_t end = key.rfind('/'); end != key.npos && end > 0;
         end = key.rfind('/', end - 1)) {
      const std::string outer = key.substr(0, end);
      if (!handled.contains(outer)) continue;
      if (!is_alone || !is_stored_with_handler(outer)) return true;
    }
    return false;
  };
  Keys unexpected;
  for (const StoredValue& value : ValuesAlone(saved)) {
    if (IsFormKey(value.key) || is_known(value.key, /*is_alone=*/true))
      continue;
    // If only some parts of a value are wanted, the other parts are unexpected.
    const Keys arrays = IsPlain(value) ? Keys() : ListArrays(saved, value.key);
    Keys others;
    std::copy_if(arrays.begin(), arrays.end(), std::back_inserter(others),
                 [&](const std::string& key) {
                   return !is_known(key, /*is_alone=*/false);
                 });
    if (others.size() == arrays.size()) others = {value.key};
    unexpected.insert(unexpected.end(), others.begin(), others.end());
  }
  return unexpected;
}

Status React(const RestoreOptions& options, StoredAnswer& answer) {
  if (options.unexpected == MismatchPolicy::kError &&
      !answer.unexpected.empty()) {
    return absl::FailedPreconditionError(
        Cat(answer.unexpected.size(),
            answer.unexpected.size() == 1 ? " stored value is"
                                          : " stored values are",
            " wanted by no rank: ", QuoteFirst(answer.unexpected),
            "; see the option unexpected"));
  }
  if (options.unexpected == MismatchPolicy::kIgnore) answer.unexpected.clear();
  // The planner reports the first mismatch, and the rank that wants it.
  if (options.mismatched == MismatchPolicy::kError) answer.mismatched.clear();
  return absl::OkStatus();
}

void Report(const RestoreOptions& options, StoredAnswer answer,
            RestoreResult& result) {
  const auto warn = [&](MismatchPolicy policy, std::string warning) {
    if (policy != MismatchPolicy::kWarn) return;
    result.warnings.push_back(std::move(warning));
  };
  for (const std::string& key : answer.missing) {
    warn(options.missing,
         Cat("\"", key, "\" is not stored and stays as it is"));
  }
  for (const std::string& key : answer.unexpected) {
    warn(options.unexpected,
         Cat("\"", key, "\" is stored, but wanted by no rank"));
  }
  for (const Conversion& one : answer.mismatched) {
    warn(options.mismatched,
         Cat("\"", one.key,
             "\" stays as it is: its stored dtype or shape differs (need ",
             FormText({one.dtype, one.shape}), ", found ",
             FormText({one.stored_dtype, one.stored_shape}), ")"));
  }
  if (options.missing != MismatchPolicy::kIgnore) {
    result.missing = std::move(answer.missing);
  }
  if (IsReported(options.unexpected)) {
    result.unexpected = std::move(answer.unexpected);
  }
  if (IsReported(options.mismatched)) {
    result.mismatched = std::move(answer.mismatched);
  }
}

// --- Conversions ---

namespace {

// Returns the wanted form, with the stored dtype and shape where tolerated.
StoredForm FindTolerated(const ShardInfo& shard, const StoredArray& array,
                         Tolerance most) {
  StoredForm form{.dtype = shard.dtype, .shape = shard.global_shape};
  if (most.dtype && IsConvertible(array.dtype, shard.dtype)) {
    form.dtype = array.dtype;
  }
  if (most.lengths && array.shape.size() == shard.global_shape.size() &&
      (most.nothing || HaveSomeInCommon(array.shape, shard.global_shape))) {
    form.shape = array.shape;
  }
  return form;
}

Status CheckWantedBox(const ShardInfo& shard, size_t rank) {
  Status status = CheckedNumElements(shard.global_shape).status();
  if (status.ok()) status = CheckBox(shard.box, shard.global_shape);
  return AddPrefix(status, "plan \"", shard.key, "\": rank ", rank);
}

}  // namespace

StatusOr<std::vector<Conversion>> WantAsStored(
    const SavedCheckpoint& saved, Tolerance most,
    std::vector<RankShards>& wanted) {
  absl::flat_hash_map<std::string_view, const StoredArray*> arrays;
  for (const StoredArray& array : saved.arrays) arrays[array.key] = &array;
  absl::flat_hash_set<std::tuple<std::string, DType, Shape>> seen;
  std::vector<Conversion> differences;
  for (size_t rank = 0; rank < wanted.size(); ++rank) {
    for (ShardInfo& shard : wanted[rank].shards) {
      const auto array = arrays.find(shard.key);
      if (array == arrays.end()) continue;
      StoredForm form = FindTolerated(shard, *array->second, most);
      if (form == StoredForm{shard.dtype, shard.global_shape}) continue;
      BELAY_RETURN_IF_ERROR(CheckWantedBox(shard, rank));
      if (seen.emplace(shard.key, shard.dtype, shard.global_shape).second) {
        differences.push_back({.key = shard.key,
                               .dtype = shard.dtype,
                               .shape = shard.global_shape,
                               .stored_dtype = form.dtype,
                               .stored_shape = form.shape});
      }
      shard.dtype = form.dtype;
      shard.box = StoredPart(shard.box, form.shape);
      shard.global_shape = std::move(form.shape);
    }
  }
  std::sort(differences.begin(), differences.end(),
            [](const Conversion& a, const Conversion& b) {
              return std::tie(a.key, a.dtype, a.shape) <
                     std::tie(b.key, b.dtype, b.shape);
            });
  return differences;
}

StatusOr<std::vector<StoredForm>> FindForms(
    const std::vector<Shard>& shards, const std::vector<Tolerance>& tolerances,
    const std::vector<Conversion>& conversions) {
  std::vector<StoredForm> forms;
  if (conversions.empty()) return forms;
  absl::flat_hash_map<std::string_view, const Conversion*> by_key;
  for (const Conversion& one : conversions) by_key[one.key] = &one;
  for (size_t i = 0; i < shards.size(); ++i) {
    const Shard& shard = shards[i];
    StoredForm& form = forms.emplace_back();
    const StoredForm wanted{.dtype = shard.dtype, .shape = shard.global_shape};
    form = wanted;
    const auto found = by_key.find(shard.key);
    if (found == by_key.end()) continue;
    form = {.dtype = found->second->stored_dtype,
            .shape = found->second->stored_shape};
    const bool is_tolerated =
        tolerances.empty() ||
        ((form.dtype == wanted.dtype || tolerances[i].dtype) &&
         (form.shape == wanted.shape || tolerances[i].lengths));
    if (!is_tolerated) {
      return absl::FailedPreconditionError(absl::StrFormat(
          "plan \"%s\": the stored dtype or shape differs, and its arguments "
          "do not allow that (need %s, found %s)",
          shard.key, FormText(wanted), FormText(form)));
    }
    // Other ranks may want the same key in a form that does convert.
    if (!IsConvertible(form.dtype, wanted.dtype) ||
        form.shape.size() != wanted.shape.size()) {
      return absl::FailedPreconditionError(
          absl::StrFormat("convert \"%s\": not convertible (need %s, found %s)",
                          shard.key, FormText(wanted), FormText(form)));
    }
  }
  return forms;
}

}  // namespace belay
