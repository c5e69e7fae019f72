// Which stored values a restore of a State reads, and under which keys.

#ifndef BELAY_STATE_STORED_ANSWER_H_
#define BELAY_STATE_STORED_ANSWER_H_

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "belay/arrays/box.h"
#include "belay/arrays/dtype.h"
#include "belay/arrays/shard.h"
#include "belay/handlers/type_handler.h"
#include "belay/options.h"
#include "belay/state.h"
#include "belay/status.h"
#include "belay/values/transform.h"
#include "plan/stored_values.h"
#include "state/array_access.h"
#include "state/conversions.h"
#include "state/rank_rows.h"
#include "state/transform.h"
#include "state/type_handlers.h"

namespace belay {

// Which values of a State a restore reads, and under which keys.
//
// In:  a State, and what the arguments say of each of its keys. Out: values
//      under the keys that are stored, to be listed once it is known what is
//      stored of them.

// A value that a handler lists.
struct HandledValue {
  std::string key;
  ValueRef value;
  TypeHandlerPtr handler;
  StoredValue stored = {};  // of a restore, as all below
  Tolerance tolerance = {};
  bool may_be_absent = false;
  int round = 0;  // of those in which it has wanted something
  std::vector<std::shared_ptr<void>> kept = {};  // by its own listings
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
  std::vector<Tolerance> tolerances;  // by shard, as the next
  std::vector<bool> may_be_absent;
  std::vector<HandledValue> handled;  // of which nothing is known yet
  std::vector<ComputedValue> computed;
  std::vector<std::string> skipped;    // keys that the arguments leave out
  std::vector<FormerElements> former;  // memory that containers have given up

  // Adds a value that needs no handler.
  // Errors: InvalidArgument - a text is to be computed.
  Status Add(Shard&& shard, const RestoreChoice& choice);

  void AddShard(Shard&& shard, const RestoreChoice& choice);
};

// The keys under which the program has its values; some may be there twice.
std::vector<std::string_view> KeysOf(const State& state);

// The arguments of a value with a handler may not compute it.
// Errors: InvalidArgument.
Status CheckNotComputed(const std::string& key, const RestoreChoice& choice);

// What is wrong with a value that is read, but const.
Status ConstValueError(const std::string& key);

// Checks that no value that is read is const.
// Errors: InvalidArgument - one is.
Status CheckWritable(const ValuesToRead& values);

// What is left of the values when `choose`, which may throw, was asked about
// all their keys.
// Errors: those of `state`, of HandlerFor and of CatchExceptions.
StatusOr<ValuesToRead> ChooseValues(
    const State& state, const HandlerTable& table,
    absl::FunctionRef<RestoreChoice(std::string_view key)> choose);

// What ranks have to know of a checkpoint before they list what they read of
// it, and how rank 0 finds it.

struct SavedCheckpoint;

// An array as the program has it.
struct AskedArray {
  std::string key;
  DType dtype = DType::kU8;
  Shape shape;
  Tolerance tolerance;
  bool takes_length = false;  // the stored one, along its last axis

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
  // See strictness.h.
  std::vector<std::string> unexpected = {};
  std::vector<Conversion> mismatched = {};
};
// All but `stored`.
template <typename Archive>
void Fields(Archive& archive, StoredAnswer& answer) {
  archive(answer.missing, answer.unexpected, answer.lengths, answer.rows,
          answer.sources, answer.mismatched);
}

// The question of one rank. `asks_all` if a mismatch policy is not the default.
StoredQuestion QuestionOf(const ValuesToRead& values, bool asks_all = false);

// Merges the encoded questions of all ranks.
StoredQuestion MergeQuestions(const std::vector<std::string>& gathered);

// The ranks that ask for each key of rows, by key; of those that all ask for,
// none.
std::map<std::string, std::vector<int32_t>> RanksThatRestoreRows(
    const std::vector<std::string>& gathered);

// Errors: NotFound - a value that may not be absent is.
StatusOr<StoredAnswer> AnswerOf(const SavedCheckpoint& saved,
                                const StoredQuestion& question);

// Leaves out the values that may be absent, and are, and those that do not fit
// what is stored.
void LeaveOut(const StoredAnswer& answer, ValuesToRead& values);

// Returns the form of a source, or null.
const ArrayForm* FindSource(const StoredAnswer& answer, const std::string& key);

// For messages between ranks.
std::string EncodeAnswer(const StoredAnswer& answer);
StoredAnswer DecodeAnswer(std::string_view bytes);

}  // namespace belay

#endif  // BELAY_STATE_STORED_ANSWER_H_
