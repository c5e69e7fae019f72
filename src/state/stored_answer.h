// The stored values that a restore reads: their keys and forms.

#ifndef BELAY_STATE_STORED_ANSWER_H_
#define BELAY_STATE_STORED_ANSWER_H_

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "absl/functional/function_ref.h"
#include "belay/arrays/box.h"
#include "belay/arrays/dtype.h"
#include "belay/extend/shard.h"
#include "belay/extend/transform_function.h"
#include "belay/extend/type_handler.h"
#include "belay/options.h"
#include "belay/state.h"
#include "belay/status.h"
#include "belay/values/transform.h"
#include "core/wire.h"
#include "plan/plan.h"
#include "plan/stored_values.h"
#include "state/array_access.h"
#include "state/rank_rows.h"
#include "state/transform.h"
#include "state/type_handlers.h"

namespace belay {

// The values of a State that a restore reads, under their stored keys. Handlers
// list them once all ranks know what is stored.

// A value that a handler lists.
struct HandledValue {
  std::string key;
  ValueRef value;
  TypeHandlerPtr handler;
  StoredValue stored = {};  // this and all members below: only in a restore
  Tolerance tolerance = {};
  bool may_be_absent = false;
  int round = 0;  // the number of listings after the first
  std::vector<std::shared_ptr<void>> kept = {};  // objects passed to Own
};

// An array or a number that is computed from stored arrays.
struct ComputedValue {
  Shard shard;  // under the program's key
  Transform transform;
  Tolerance tolerance = {};
  bool may_be_absent = false;
};

struct ValuesToRead {
  std::vector<Shard> shards;          // of the values that need no handler
  std::vector<Tolerance> tolerances;  // per shard
  std::vector<bool> may_be_absent;    // per shard
  std::vector<HandledValue> handled;
  std::vector<ComputedValue> computed;
  std::vector<std::string> skipped;    // keys that the arguments skip
  std::vector<FormerElements> former;  // memory that containers have released

  // Adds a value that needs no handler, including the ghost cells to fill.
  // Errors: InvalidArgument - a string or rows would have to be computed; those
  //   of FindElements and WithGhostCells.
  Status Add(Shard shard, RestoreChoice choice);

  void AddShard(Shard&& shard, const RestoreChoice& choice);
};

// Returns the program's keys, possibly with duplicates.
std::vector<std::string_view> ListKeys(const State& state);

// Errors: InvalidArgument - the choice computes the value, which is only
//   possible for arrays and numbers without handlers.
Status CheckNotComputed(const std::string& key, const RestoreChoice& choice);

Status ConstValueError(const std::string& key);

// Errors: InvalidArgument - a value that is read is const.
Status CheckWritable(const ValuesToRead& values);

// Returns the values that `choose` does not skip. `choose` may throw.
// Errors: those of `state`, of HandlerFor and of CatchExceptions.
StatusOr<ValuesToRead> ChooseValues(
    const State& state, const HandlerTable& table,
    absl::FunctionRef<RestoreChoice(std::string_view key)> choose);

// Before the ranks list what they read, they ask rank 0 about the checkpoint.
// Rank 0 merges their questions and sends one answer to all ranks.

template <typename Archive>
void Fields(Archive& archive, Conversion& one) {
  archive(one.key, one.dtype, one.shape, one.stored_dtype, one.stored_shape);
}

// An array as the program has it.
struct AskedArray {
  std::string key;
  DType dtype = DType::kU8;
  Shape shape;
  Tolerance tolerance;
  bool takes_length = false;  // it takes the stored length of its last axis

  friend bool operator==(const AskedArray&, const AskedArray&) = default;
  friend bool operator<(const AskedArray& a, const AskedArray& b) {
    return std::tie(a.key, a.dtype, a.shape, a.tolerance, a.takes_length) <
           std::tie(b.key, b.dtype, b.shape, b.tolerance, b.takes_length);
  }
};

template <typename Archive>
void Fields(Archive& archive, AskedArray& array) {
  archive(array.key, array.dtype, array.shape, array.tolerance.dtype,
          array.tolerance.lengths, array.takes_length);
}

// Keys of values, ascending and without duplicates.
struct StoredQuestion {
  std::vector<std::string> rows;  // of ranks, by RowsId (rank_rows.h)
  std::vector<std::string> handled;
  std::vector<std::string> optional_handled;  // handled; may be absent
  std::vector<std::string> optional_plain;    // without handler; may be absent
  std::vector<std::string> resizable;         // take the stored length
  std::vector<std::string> sources;           // of computed values
  std::vector<std::string> optional_sources;  // of those that may be absent
  // Only if a mismatch policy is not the default: the arrays of values without
  // handlers (each form once, ascending), and the stored values that the
  // program skips or reads in another way.
  std::vector<AskedArray> arrays;
  std::vector<std::string> skipped;
};
template <typename Archive>
void Fields(Archive& archive, StoredQuestion& question) {
  archive(question.rows, question.handled, question.optional_handled,
          question.optional_plain, question.resizable, question.sources,
          question.optional_sources, question.arrays, question.skipped);
}

struct StoredAnswer {
  std::vector<StoredValue> stored;   // of handled values; ascending by key
  std::vector<std::string> missing;  // optional keys not stored; ascending
  StoredLengths lengths = {};        // of resizable arrays
  std::vector<FoundRows> rows = {};  // only stored ones; ascending
  std::map<std::string, ArrayForm> sources = {};  // only stored ones
  // Only if a mismatch policy is not the default.
  std::vector<std::string> unexpected = {};
  std::vector<Conversion> mismatched = {};
};
template <typename Archive>
void Fields(Archive& archive, StoredAnswer& answer) {
  archive(answer.missing, answer.unexpected, answer.lengths, answer.rows,
          answer.sources, answer.stored, answer.mismatched);
}

// Returns the question of one rank. `asks_all` must be true if a mismatch
// policy is not the default.
StoredQuestion MakeQuestion(const ValuesToRead& values, bool asks_all = false);

// Merges the encoded questions of all ranks.
StoredQuestion MergeQuestions(const std::vector<std::string>& gathered);

// Returns, per RowsId, the ranks that restore these rows; empty: all ranks.
std::map<std::string, std::vector<int32_t>> RanksThatRestoreRows(
    const std::vector<std::string>& gathered);

// Errors: NotFound - a required value is absent.
StatusOr<StoredAnswer> AnswerQuestion(const SavedCheckpoint& saved,
                                      const StoredQuestion& question);

// Removes the optional values that are not stored, and the values that do not
// match what is stored.
void LeaveOut(const StoredAnswer& answer, ValuesToRead& values);

// Returns the element with this key, or null. Requires a list that is ascending
// by key.
template <typename T>
const T* FindByKey(const std::vector<T>& list, std::string_view key) {
  const auto found = std::lower_bound(
      list.begin(), list.end(), key,
      [](const T& one, std::string_view other) { return one.key < other; });
  return found != list.end() && found->key == key ? &*found : nullptr;
}

// Returns the form of a source, or null.
const ArrayForm* FindSource(const StoredAnswer& answer, const std::string& key);

// Returns true if all mismatch policies are the defaults; the ranks then need
// not ask about mismatches.
bool HasDefaultPolicies(const RestoreOptions& options);

// Errors: InvalidArgument - an option is only supported for restores of a
//   State, not of objects.
Status CheckMismatchPoliciesToObjects(const RestoreOptions& options);

// Returns the wanted arrays whose stored dtype or shape is not tolerated; each
// form once, ascending.
std::vector<Conversion> FindMismatched(const SavedCheckpoint& saved,
                                       const std::vector<AskedArray>& wanted);

// Returns the stored values that are neither wanted nor skipped, nor part of a
// wanted value with a handler. If only parts of a value are wanted, returns its
// other arrays. Ascending.
std::vector<std::string> FindUnexpected(const SavedCheckpoint& saved,
                                        const StoredQuestion& question);

// Removes from the answer what the policies ignore.
// Errors: FailedPrecondition - there are unexpected values, and the policy
//   makes them an error.
Status React(const RestoreOptions& options, StoredAnswer& answer);

// Adds the parts of the answer that the policies request to the result.
void Report(const RestoreOptions& options, StoredAnswer answer,
            RestoreResult& result);

// Conversions. Rank 0 decides on them for all ranks.

// Replaces the dtypes and shapes that the ranks want with the stored ones where
// `most` tolerates the difference and a conversion exists. The planner rejects
// the remaining differences. Returns the replaced forms, each once, ascending.
// Errors: InvalidArgument, OutOfRange - a box outside its array.
StatusOr<std::vector<Conversion>> WantAsStored(const SavedCheckpoint& saved,
                                               Tolerance most,
                                               std::vector<RankShards>& wanted);

// Returns the form in which each shard is stored, or no forms if nothing is
// converted. `tolerances` has one entry per shard, or none: then any difference
// is tolerated.
// Errors: FailedPrecondition - a conversion that does not exist or is not
//   allowed.
StatusOr<std::vector<StoredForm>> FindForms(
    const std::vector<Shard>& shards, const std::vector<Tolerance>& tolerances,
    const std::vector<Conversion>& conversions);

}  // namespace belay

#endif  // BELAY_STATE_STORED_ANSWER_H_
