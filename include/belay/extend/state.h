// Adds values to a State that its member functions cannot add: for handlers,
// and for code that lists the values of other libraries.

#ifndef BELAY_EXTEND_STATE_H_
#define BELAY_EXTEND_STATE_H_

#include <cstddef>
#include <memory>
#include <string_view>
#include <utility>

#include "belay/extend/shard.h"
#include "belay/extend/type_handler.h"
#include "belay/state.h"

namespace belay {

// Adds a shard unchanged. Save sets the unset parts of its device. Local.
void AddShard(State& state, Shard shard);

// Adds a value that the handler of its type stores. If the registry has none
// for the type, `handler` is used; it may be null. Local.
void AddValue(State& state, std::string_view key, const ValueRef& value,
              TypeHandlerPtr handler);

// Keeps an object alive until the save or the restore of this State has
// returned and the State is destroyed. For objects that a handler creates and
// lists. Local.
template <typename T>
T& Own(State& state, std::shared_ptr<T> object) {
  T& kept = *object;
  state.kept_.push_back(std::move(object));
  return kept;
}

// Returns the owned object with this index, which must be a T. The `more` of
// TypeHandler::ValueReceived and Handler::Received has the objects that were
// owned when the value was listed. Local.
template <typename T>
T& Owned(const State& state, size_t number) {
  return *static_cast<T*>(state.kept_.at(number).get());
}

// Changes the address of the elements of state.shards()[number]. `begin`
// includes the ghost cells before them. For memory that was added by its
// address and has moved. Local.
void SetAddress(State& state, size_t number, void* begin);

}  // namespace belay

#endif  // BELAY_EXTEND_STATE_H_
