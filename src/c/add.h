// Helpers of the functions that add values to a belay_state.

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

// Calls a function that adds to the state, and records its error in the state.
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

// Returns an InvalidArgument about the value under `key`.
Status Mistake(const std::string& key, const std::string& text);

// Reserved members that are not 0 ask for what this version does not support.
inline bool HasNonzero(std::span<const int64_t> numbers) {
  return std::ranges::any_of(numbers, [](int64_t one) { return one != 0; });
}

// Returns the dtype with this number.
// Errors: InvalidArgument - there is no such dtype, or it is the string dtype.
StatusOr<DType> DTypeOf(const std::string& key, int dtype);

// Returns `numbers`, which has one number per axis, as a Shape.
// Errors: InvalidArgument - a negative `ndim`, or `numbers` is null.
StatusOr<Shape> NumbersOf(const std::string& key, const char* name, int ndim,
                          const int64_t* numbers);

// Returns the memory of a box of this shape at `data`. `strides` may be null.
// Errors: InvalidArgument - a negative length, or too many elements.
StatusOr<Memory> MemoryOf(DType dtype, const Shape& shape,
                          const int64_t* strides, void* data);

}  // namespace belay::c

#endif  // BELAY_C_ADD_H_
