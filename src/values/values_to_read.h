// Which values of a State a restore reads, and under which keys. Pure.
//
// In:  a State, and what the arguments say of each of its keys. Out: values
//      under the keys that are stored, to be listed once it is known what is
//      stored of them.

#ifndef BELAY_VALUES_VALUES_TO_READ_H_
#define BELAY_VALUES_VALUES_TO_READ_H_

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "belay/arrays/shard.h"
#include "belay/handlers/type_handler.h"
#include "belay/state.h"
#include "belay/status.h"
#include "belay/values/transform.h"
#include "plan/restore_choice.h"
#include "values/array_access.h"
#include "values/handlers/handler_table.h"

namespace belay {

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

}  // namespace belay

#endif  // BELAY_VALUES_VALUES_TO_READ_H_
