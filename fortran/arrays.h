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
  int dtype;  // 0: a type that belay does not store
  int ndim;
  int64_t shape[kMaxAxes];
  int64_t strides[kMaxAxes];
  const char* problem;  // null: none
};

// A short array of integers or logicals of Fortran.
struct numbers {
  int count;  // more than kMaxAxes: too many; only the first are stored
  int64_t values[kMaxAxes];
};

// Describes a Fortran array; an array of strings has one more axis for the
// characters, the last one. Local.
struct array belay_fortran_array_of(const CFI_cdesc_t* value);

// Returns 1 for a scalar of type character. Local.
int belay_fortran_is_string(const CFI_cdesc_t* value);

// Returns 1 for the type logical. Local.
int belay_fortran_is_logical(const CFI_cdesc_t* value);

// Returns 1 if the elements are dense and in C order. Local.
int belay_fortran_is_dense(const struct array* array);

// Local.
int64_t belay_fortran_num_elements(const struct array* array);

// The same for an array whose address a state keeps. Local. A value that may be
// a component of an array of a derived type gets a `problem`; see
// descriptors.h.
struct array belay_fortran_borrowed_array_of(const CFI_cdesc_t* value);

// Copies integers of 4 or 8 bytes, or logicals; no numbers if `value` is null.
// Local.
struct numbers belay_fortran_numbers_of(const CFI_cdesc_t* value);

// Returns a zero-terminated copy of a text without its trailing blanks; null if
// there is no memory. Local. The caller frees it.
char* belay_fortran_text_of(const CFI_cdesc_t* value);

// Returns the code to the caller in `ierr`; if that is null, an error ends the
// job. Local.
void belay_fortran_finish(int code, int* ierr);

// Sets the text of the last error, which only the library can do, and returns
// the code. Local.
int belay_fortran_fail(int code, const char* message);

// Returns the error of a failed malloc. Local.
int belay_fortran_no_memory(void);

// Records what is wrong with a value that was added, and returns the code.
// Local.
int belay_fortran_refuse(belay_state* state, const char* key,
                         const char* problem);

#endif  // BELAY_FORTRAN_ARRAYS_H_
