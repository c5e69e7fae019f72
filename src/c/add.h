// What the functions share that add values to a belay_state.

#ifndef BELAY_C_ADD_H_
#define BELAY_C_ADD_H_

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>

#include "belay/arrays/box.h"
#include "belay/arrays/dtype.h"
#include "belay/arrays/memory.h"
#include "belay/belay_c.h"
#include "belay/status.h"
#include "c/error.h"
#include "c/handles.h"

namespace belay::c {

// Calls a function that adds to the state, and remembers what went wrong.
template <typename Function>
int Add(belay_state* state, const char* key, Function function) {
  return Call([&]() -> Status {
    if (state == nullptr) return NullArgument("state");
    Status status =
        key == nullptr ? NullArgument("key") : function(std::string(key));
    if (status.ok()) status = state->state.status();
    state->status.Update(status);
    return status;
  });
}

// Returns an InvalidArgument about a value that is added.
Status Mistake(const std::string& key, const std::string& text);

// Of reserved members: the program says what this version does not know.
inline bool HasNonzero(std::span<const int64_t> numbers) {
  return std::ranges::any_of(numbers, [](int64_t one) { return one != 0; });
}

// Returns the dtype with this number.
// Errors: InvalidArgument - there is none, or it is that of strings.
StatusOr<DType> DTypeOf(const std::string& key, int dtype);

// Returns as many numbers as the array has axes.
// Errors: InvalidArgument - a negative `ndim`, or `numbers` is null.
StatusOr<Shape> NumbersOf(const std::string& key, const char* name, int ndim,
                          const int64_t* numbers);

// Returns the elements of a box at this address; `strides` may be null.
// Errors: InvalidArgument - a shape that has no number of elements.
StatusOr<Memory> MemoryOf(DType dtype, const Shape& shape,
                          const int64_t* strides, void* data);

}  // namespace belay::c

#endif  // BELAY_C_ADD_H_
