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
  std::vector<TypeHandlerPtr> handlers;  // those that have listed a value
  // True if listing the same values again gives the same result: there are no
  // rows, and no handler has listed parts.
  bool is_fixed = true;
  // For a restore.
  std::vector<Tolerance> tolerances;  // per shard
  std::vector<HandledValue> handled;  // inner values first
  std::vector<FormerElements> former;
};

// Returns the registered handler for a value, else the value's own handler, or
// null if the value needs none.
// Errors: InvalidArgument - the value needs a handler, and there is none.
StatusOr<TypeHandlerPtr> HandlerFor(const TypedValue& value,
                                    const HandlerTable& table);

// Lists all values.
// Errors: those of `state` and of HandlerFor; InvalidArgument - a handler lists
//   a value under the key of another part; what a handler returned or threw;
//   all name the key.
StatusOr<HandlerListing> ListForSave(const State& state,
                                     const HandlerTable& table);

// Does the same, but moves the shards out of the State.
StatusOr<HandlerListing> ListForSave(State&& state, const HandlerTable& table);

// Lists all values. `stored`, ascending by key, has the stored values of
// `values.handled`. Updates the addresses of all shards if containers were
// resized.
// Errors: as ListForSave; NotFound - a value is not stored;
//   FailedPrecondition - the value was stored by another handler.
StatusOr<HandlerListing> ListForRestore(ValuesToRead values,
                                        const HandlerTable& table,
                                        const std::vector<StoredValue>& stored);

// Notifies the handlers that their parts were read, and lists the parts that
// they want next. `handled` of the result is empty if no handler wants more.
// Errors: as ListForRestore; InvalidArgument - a handler wants more in every
//   round.
StatusOr<HandlerListing> ListMore(const HandlerListing& listed,
                                  const HandlerTable& table);

}  // namespace belay

#endif  // BELAY_STATE_VALUE_LISTING_H_
