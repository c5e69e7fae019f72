// The values of a State as shards, those listed that need a handler.
//
// In:  a State, and what the checkpoint says of its values. Out: plain shards,
//      and which handler is to be told when their bytes are there.

#ifndef BELAY_STATE_VALUE_LISTING_H_
#define BELAY_STATE_VALUE_LISTING_H_

#include <memory>
#include <string>
#include <vector>

#include "belay/arrays/shard.h"
#include "belay/handlers/type_handler.h"
#include "belay/state.h"
#include "belay/status.h"
#include "plan/stored_values.h"
#include "state/stored_answer.h"
#include "state/type_handlers.h"

namespace belay {

struct HandlerListing {
  std::vector<Shard> shards;
  // Of a save: the values, and each handler that has listed one.
  std::vector<ListedValue> values;
  std::vector<TypeHandlerPtr> handlers;
  // Of a save: no handler and no rows have a part in it whose next listing of
  // the same values may be another one.
  bool is_fixed = true;
  // Of a restore: what may differ, by shard; and who is to be told, inner
  // values first.
  std::vector<Tolerance> tolerances;
  std::vector<HandledValue> handled;
  std::vector<std::shared_ptr<void>> kept;
  // Of a restore: memory that containers have given up.
  std::vector<FormerElements> former;
};

// The handler of a value of this type: that of the registry, or else the given
// one; null if it needs none.
// Errors: InvalidArgument - it needs one, and there is none.
StatusOr<TypeHandlerPtr> HandlerFor(const TypedValue& value,
                                    const HandlerTable& table);

// Lists all values.
// Errors: those of `state` and of HandlerFor; InvalidArgument - a handler lists
//   a value under the key of another part; what a handler returned or threw;
//   all name the key.
StatusOr<HandlerListing> ListForSave(const State& state,
                                     const HandlerTable& table);

// The same of a State that nobody needs again: moves its shards out of it.
StatusOr<HandlerListing> ListForSave(State&& state, const HandlerTable& table);

// Lists all values. `stored`, ascending by key, has those of `values.handled`.
// Elements of all shards are found anew after containers have given up memory.
// Errors: as ListForSave; NotFound - a value is not stored;
//   FailedPrecondition - another handler has stored it.
StatusOr<HandlerListing> ListForRestore(ValuesToRead values,
                                        const HandlerTable& table,
                                        const std::vector<StoredValue>& stored);

// Tells the handlers that what they listed is there, and lists what they want
// next. None are left in `handled` if nobody wants anything.
// Errors: as ListForRestore; InvalidArgument - one never has enough.
StatusOr<HandlerListing> ListMore(const HandlerListing& listed,
                                  const HandlerTable& table);

}  // namespace belay

#endif  // BELAY_STATE_VALUE_LISTING_H_
