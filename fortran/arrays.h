// Fortran arrays of any type and rank as C sees them.

#ifndef BELAY_FORTRAN_ARRAYS_H_
#define BELAY_FORTRAN_ARRAYS_H_

#include <ISO_Fortran_binding.h>
#include <stddef.h>
#include <stdint.h>

#include "belay/belay_c.h"

enum { kMaxAxes = CFI_MAX_RANK + 1 };

// A Fortran array as C sees it: axes reversed, lengths and strides in elements.
struct array {
  int dtype;  // 0: none that belay stores
  int ndim;
  int64_t shape[kMaxAxes];
  int64_t strides[kMaxAxes];
  const char* problem;  // null: none
};

// Describes a Fortran array; an array of strings has its characters along one
// more axis, the last one. Local.
struct array ArrayOf(const CFI_cdesc_t* value);

// Whether it is a scalar of type character. Local.
int IsString(const CFI_cdesc_t* value);

// Whether the elements are dense and in C order. Local.
int IsDense(const struct array* array);

// Local.
int64_t NumElements(const struct array* array);

// Sets the text of the last error, which only the library can, and returns the
// code. Local.
int Fail(int code, const char* message);

// Notes what is wrong with a value that was added, and returns the code. Local.
int Refuse(belay_state* state, const char* key, const char* problem);

#endif  // BELAY_FORTRAN_ARRAYS_H_
