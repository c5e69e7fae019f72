#include "values/values_to_read.h"

#include <utility>

#include "base/catch_exceptions.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "values/array_access.h"
#include "values/memory_layout.h"
#include "values/rows/rank_rows.h"
#include "values/value_listing.h"

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

}  // namespace belay
