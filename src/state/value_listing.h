// Lists the values of a State as shards.

#ifndef BELAY_STATE_VALUE_LISTING_H_
#define BELAY_STATE_VALUE_LISTING_H_

#include <memory>
#include <vector>

#include "belay/extend/shard.h"
#include "belay/extend/type_handler.h"
#include "belay/state.h"
#include "belay/status.h"
#include "plan/stored_values.h"
#include "state/stored_answer.h"
#include "state/type_handlers.h"

namespace belay {

struct HandlerListing {
  std::vector<Shard> shards;
  std::vector<std::shared_ptr<void>> kept;
  // For a save.
  std::vector<ListedValue> values;
  std::vector<TypeHandlerPtr> handlers;  // each that has listed a value
  // True if the next listing of the same values is equal to this one: neither
  // handlers nor rows have listed parts.
  bool is_fixed = true;
  // For a restore.
  std::vector<Tolerance> tolerances;  // by shard
  std::vector<HandledValue> handled;  // inner values first
  std::vector<FormerElements> former;
};

// Returns the handler of the registry, else that of the value, or null if it
// needs none.
// Errors: InvalidArgument - it needs one, and there is none.
StatusOr<TypeHandlerPtr> HandlerFor(const TypedValue& value,
                                    const HandlerTable& table);

// Lists all values.
// Errors: those of `state` and of HandlerFor; InvalidArgument - a handler lists
//   a value under the key of another part; what a handler returned or threw;
//   all name the key.
StatusOr<HandlerListing> ListForSave(const State& state,
                                     const HandlerTable& table);

// The same, but moves the shards out of the State.
StatusOr<HandlerListing> ListForSave(State&& state, const HandlerTable& table);

// Lists all values. `stored`, ascending by key, has those of `values.handled`.
// Finds the elements of all shards again if containers were resized.
// Errors: as ListForSave; NotFound - a value is not stored;
//   FailedPrecondition - another handler has stored it.
StatusOr<HandlerListing> ListForRestore(ValuesToRead values,
                                        const HandlerTable& table,
                                        const std::vector<StoredValue>& stored);

// Tells the handlers that their parts were read, and lists what they want next.
// `handled` is empty if no handler wants anything.
// Errors: as ListForRestore; InvalidArgument - a handler wants more in every
//   round.
StatusOr<HandlerListing> ListMore(const HandlerListing& listed,
                                  const HandlerTable& table);

}  // namespace belay

#endif  // BELAY_STATE_VALUE_LISTING_H_
