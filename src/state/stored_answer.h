// The stored values that a restore reads: under which keys, and in which form.

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

// The values of a State that a restore reads, under their stored keys. They are
// listed once all ranks know what is stored of them.

// A value that a handler lists.
struct HandledValue {
  std::string key;
  ValueRef value;
  TypeHandlerPtr handler;
  StoredValue stored = {};  // this and the next only in a restore
  Tolerance tolerance = {};
  bool may_be_absent = false;
  int round = 0;  // the number of listings after the first
  std::vector<std::shared_ptr<void>> kept = {};  // by Own
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
  std::vector<Tolerance> tolerances;  // by shard
  std::vector<bool> may_be_absent;    // by shard
  std::vector<HandledValue> handled;
  std::vector<ComputedValue> computed;
  std::vector<std::string> skipped;    // keys that the arguments leave out
  std::vector<FormerElements> former;  // memory that containers have given up

  // Adds a value that needs no handler, with the ghost cells that it fills.
  // Errors: InvalidArgument - a text is to be computed; those of FindElements
  //   and WithGhostCells.
  Status Add(Shard shard, RestoreChoice choice);

  void AddShard(Shard&& shard, const RestoreChoice& choice);
};

// Returns the program's keys, some perhaps twice.
std::vector<std::string_view> ListKeys(const State& state);

// Errors: InvalidArgument - the choice computes the value, which has a handler.
Status CheckNotComputed(const std::string& key, const RestoreChoice& choice);

Status ConstValueError(const std::string& key);

// Errors: InvalidArgument - a value that is read is const.
Status CheckWritable(const ValuesToRead& values);

// Returns the values that `choose`, which may throw, does not skip.
// Errors: those of `state`, of HandlerFor and of CatchExceptions.
StatusOr<ValuesToRead> ChooseValues(
    const State& state, const HandlerTable& table,
    absl::FunctionRef<RestoreChoice(std::string_view key)> choose);

// Ranks ask rank 0 about the checkpoint before they list what they read of it.
// Rank 0 merges their questions, and sends one answer to all.

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

// Keys of values, each once, ascending.
struct StoredQuestion {
  std::vector<std::string> rows;  // of ranks: their ids (rank_rows.h)
  std::vector<std::string> handled;
  std::vector<std::string> optional_handled;  // that may be absent
  std::vector<std::string> optional_plain;    // and need no handler
  std::vector<std::string> resizable;         // that take the stored length
  std::vector<std::string> sources;           // of values that are computed
  std::vector<std::string> optional_sources;  // of those that may be absent
  // Only of a restore with other mismatch policies than the default: the values
  // that need no handler, each form once, ascending; and the stored values that
  // the program leaves out.
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
  std::vector<StoredValue> stored;   // with handlers; ascending by key
  std::vector<std::string> missing;  // that may be absent, and are; ascending
  StoredLengths lengths = {};        // of resizable arrays
  std::vector<FoundRows> rows = {};  // those that are stored; ascending
  std::map<std::string, ArrayForm> sources = {};  // those that are stored
  // If a mismatch policy is not the default; those that are reported.
  std::vector<std::string> unexpected = {};
  std::vector<Conversion> mismatched = {};
};
template <typename Archive>
void Fields(Archive& archive, StoredAnswer& answer) {
  archive(answer.missing, answer.unexpected, answer.lengths, answer.rows,
          answer.sources, answer.stored, answer.mismatched);
}

// The question of one rank. `asks_all` if a mismatch policy is not the default.
StoredQuestion MakeQuestion(const ValuesToRead& values, bool asks_all = false);

// Merges the encoded questions of all ranks.
StoredQuestion MergeQuestions(const std::vector<std::string>& gathered);

// Returns the ranks that ask for each key of rows; none if all do.
std::map<std::string, std::vector<int32_t>> RanksThatRestoreRows(
    const std::vector<std::string>& gathered);

// Errors: NotFound - a value that may not be absent is.
StatusOr<StoredAnswer> AnswerQuestion(const SavedCheckpoint& saved,
                                      const StoredQuestion& question);

// Removes the values that may be absent, and are, and those that do not match
// what is stored.
void LeaveOut(const StoredAnswer& answer, ValuesToRead& values);

// Returns the element with a key of a list that is ascending by key, or null.
template <typename T>
const T* FindByKey(const std::vector<T>& list, std::string_view key) {
  const auto found = std::lower_bound(
      list.begin(), list.end(), key,
      [](const T& one, std::string_view other) { return one.key < other; });
  return found != list.end() && found->key == key ? &*found : nullptr;
}

// Returns the form of a source, or null.
const ArrayForm* FindSource(const StoredAnswer& answer, const std::string& key);

// Returns true if all mismatch policies are the defaults: then nothing must be
// asked.
bool HasDefaultPolicies(const RestoreOptions& options);

// Errors: InvalidArgument - an option is only for restores of a State, not of
//   objects.
Status CheckMismatchPoliciesToObjects(const RestoreOptions& options);

// Returns the wanted arrays whose stored dtype or shape is not tolerated, each
// form once, ascending.
std::vector<Conversion> FindMismatched(const SavedCheckpoint& saved,
                                       const std::vector<AskedArray>& wanted);

// Returns the stored values that are neither wanted nor skipped, nor part of a
// wanted value with a handler. If only parts of a value are wanted, returns its
// other arrays. Ascending.
std::vector<std::string> FindUnexpected(const SavedCheckpoint& saved,
                                        const StoredQuestion& question);

// Removes from the answer what the policies ignore.
// Errors: FailedPrecondition - there are unexpected values, an error by policy.
Status React(const RestoreOptions& options, StoredAnswer& answer);

// Adds the answer to the result, as far as the policies say.
void Report(const RestoreOptions& options, StoredAnswer answer,
            RestoreResult& result);

// Conversions, which rank 0 decides for all ranks.

// Replaces the dtypes and shapes that ranks want by those that are stored, as
// far as `most` tolerates and they convert; the planner refuses the others.
// Returns the differences, each once, ascending.
// Errors: InvalidArgument, OutOfRange - a box outside its array.
StatusOr<std::vector<Conversion>> WantAsStored(const SavedCheckpoint& saved,
                                               Tolerance most,
                                               std::vector<RankShards>& wanted);

// Returns the form in which each shard is stored, or no forms if nothing is
// converted. `tolerances`, by shard, may be empty: then all is tolerated.
// Errors: FailedPrecondition - values that do not convert, or must not.
StatusOr<std::vector<StoredForm>> FindForms(
    const std::vector<Shard>& shards, const std::vector<Tolerance>& tolerances,
    const std::vector<Conversion>& conversions);

}  // namespace belay

#endif  // BELAY_STATE_STORED_ANSWER_H_
