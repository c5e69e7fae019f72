#include "state/strictness.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_format.h"
#include "core/text.h"
#include "plan/plan.h"
#include "plan/stored_values.h"

namespace belay {
namespace {

using Keys = std::vector<std::string>;

constexpr size_t kMostNames = 10;

// The first of them, in quotes, and how many more there are.
std::string NamesOf(const Keys& keys) {
  Keys quoted;
  for (const std::string& key : keys) quoted.push_back(Cat("\"", key, "\""));
  return FirstOf(quoted, kMostNames, ", ");
}

bool IsReported(MismatchPolicy policy) {
  return policy == MismatchPolicy::kWarn || policy == MismatchPolicy::kCollect;
}

// The keys that somebody knows of.
class KnownKeys {
 public:
  explicit KnownKeys(const StoredQuestion& question) {
    for (const Keys* keys : {&question.handled, &question.optional_handled}) {
      handled_.insert(keys->begin(), keys->end());
    }
    known_ = handled_;
    for (const Keys* keys : {&question.optional_plain, &question.skipped}) {
      known_.insert(keys->begin(), keys->end());
    }
    for (const AskedArray& array : question.arrays) known_.insert(array.key);
  }

  // Whether the key is known, or the value with a handler that it is a part of.
  bool Has(const std::string& key) const {
    return HasBelow(key, [](const std::string&) { return true; });
  }

  // The same of one that stands alone: of what is stored as a value with a
  // handler it is no part.
  bool HasAlone(const std::string& key, const SavedCheckpoint& saved) const {
    const Keys& values = saved.values.key;
    return HasBelow(key, [&](const std::string& outer) {
      return !std::binary_search(values.begin(), values.end(), outer);
    });
  }

 private:
  template <typename Counts>
  bool HasBelow(const std::string& key, Counts counts) const {
    if (known_.count(key) > 0) return true;
    for (size_t end = key.rfind('/'); end != key.npos && end > 0;
         end = key.rfind('/', end - 1)) {
      const std::string outer = key.substr(0, end);
      if (handled_.count(outer) > 0 && counts(outer)) return true;
    }
    return false;
  }

  std::set<std::string> handled_, known_;
};

// The keys of all arrays that a value with a handler consists of.
Keys ArraysOf(const SavedCheckpoint& saved, const std::string& key) {
  const std::string below = key + "/";
  auto array = std::lower_bound(
      saved.arrays.begin(), saved.arrays.end(), key,
      [](const StoredArray& a, const std::string& k) { return a.key < k; });
  Keys keys;
  for (; array != saved.arrays.end(); ++array) {
    const bool is_part = array->key == key || array->key.starts_with(below);
    if (is_part) keys.push_back(array->key);
    if (!is_part && !array->key.starts_with(key)) break;
  }
  return keys;
}

// Whether the array fits one that a program has.
bool FitsAsked(const StoredArray& array, const AskedArray& asked) {
  Shape shape = asked.shape;
  const bool takes_length = asked.takes_length &&
                            array.dtype != DType::kString &&
                            array.shape.size() == shape.size();
  if (takes_length) shape.back() = array.shape.back();
  return Fits({array.dtype, array.shape}, {asked.dtype, shape},
              asked.tolerance);
}

void Warn(MismatchPolicy policy, const std::string& warning,
          std::vector<std::string>& warnings) {
  if (policy == MismatchPolicy::kWarn) warnings.push_back(warning);
}

}  // namespace

bool IsUsuallyStrict(const RestoreOptions& options) {
  const RestoreOptions usual;
  return options.missing == usual.missing &&
         options.unexpected == usual.unexpected &&
         options.mismatched == usual.mismatched;
}

Status CheckMismatchPolicies(const RestoreOptions& options) {
  const std::pair<const char*, MismatchPolicy> policies[] = {
      {"missing", options.missing},
      {"unexpected", options.unexpected},
      {"mismatched", options.mismatched}};
  for (const auto& [name, policy] : policies) {
    if (policy <= MismatchPolicy::kIgnore) continue;
    return absl::InvalidArgumentError(
        absl::StrFormat("%s is out of range (need 0 to 3, found %d)", name,
                        static_cast<int>(policy)));
  }
  return absl::OkStatus();
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
  absl::flat_hash_map<std::string_view, const StoredArray*> arrays;
  for (const StoredArray& array : saved.arrays) arrays[array.key] = &array;
  std::vector<Conversion> mismatched;
  for (const AskedArray& one : wanted) {
    const auto array = arrays.find(one.key);
    if (array == arrays.end() || FitsAsked(*array->second, one)) continue;
    // Of another tolerance, perhaps.
    if (!mismatched.empty() && mismatched.back().key == one.key &&
        mismatched.back().dtype == one.dtype &&
        mismatched.back().shape == one.shape) {
      continue;
    }
    mismatched.push_back({.key = one.key,
                          .dtype = one.dtype,
                          .shape = one.shape,
                          .stored_dtype = array->second->dtype,
                          .stored_shape = array->second->shape});
  }
  return mismatched;
}

Keys FindUnexpected(const SavedCheckpoint& saved,
                    const StoredQuestion& question) {
  const KnownKeys known(question);
  Keys unexpected;
  for (const StoredValue& value : ValuesAlone(saved)) {
    if (IsFormKey(value.key) || known.HasAlone(value.key, saved)) continue;
    // Where some parts of a value are wanted, the others are not expected.
    const Keys arrays = IsPlain(value) ? Keys() : ArraysOf(saved, value.key);
    Keys others;
    std::copy_if(arrays.begin(), arrays.end(), std::back_inserter(others),
                 [&](const std::string& key) { return !known.Has(key); });
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
            " wanted by no rank: ", NamesOf(answer.unexpected),
            "; see the option unexpected"));
  }
  if (options.unexpected == MismatchPolicy::kIgnore) answer.unexpected.clear();
  // The planner finds the first of them, and which rank wants it.
  if (options.mismatched == MismatchPolicy::kError) answer.mismatched.clear();
  return absl::OkStatus();
}

void Report(const RestoreOptions& options, StoredAnswer answer,
            RestoreResult& result) {
  for (const std::string& key : answer.missing) {
    Warn(options.missing, Cat("\"", key, "\" is not stored and stays as it is"),
         result.warnings);
  }
  for (const std::string& key : answer.unexpected) {
    Warn(options.unexpected,
         Cat("\"", key, "\" is stored, but wanted by no rank"),
         result.warnings);
  }
  for (const Conversion& one : answer.mismatched) {
    Warn(options.mismatched,
         Cat("\"", one.key,
             "\" stays as it is: its stored dtype or shape differs (need ",
             FormText({one.dtype, one.shape}), ", found ",
             FormText({one.stored_dtype, one.stored_shape}), ")"),
         result.warnings);
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

}  // namespace belay
