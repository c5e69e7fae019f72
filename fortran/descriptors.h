// What the Fortran module calls beside belay/belay_c.h: functions that take
// Fortran arrays of any type and rank as C descriptors.
//
// Fortran arrays are column-major, so the axes of an array appear in C, C++ and
// h5py in reverse order: u(i, j) is u[j - 1][i - 1]. Shapes and indices are
// passed here in the order of Fortran.

#ifndef BELAY_FORTRAN_DESCRIPTORS_H_
#define BELAY_FORTRAN_DESCRIPTORS_H_

#include <ISO_Fortran_binding.h>
#include <stdint.h>

#include "belay/belay_c.h"

// Duplicates a communicator of Fortran. Collective.
int belay_fortran_comm_create(MPI_Fint comm, belay_comm** result);

// Adds a value that is equal on all ranks: an array or, for a scalar of type
// character, a string padded with blanks. Local.
int belay_fortran_add(belay_state* state, const char* key, CFI_cdesc_t* value);

// Adds a piece of an array that is cut over the ranks. Local. `num_shape` and
// `num_start` are the lengths of `global_shape` and `start`, which counts from
// 1.
int belay_fortran_add_piece(belay_state* state, const char* key,
                            CFI_cdesc_t* value, int num_shape,
                            const int64_t* global_shape, int num_start,
                            const int64_t* start);

// Adds numbers that this rank has of its own. Local.
int belay_fortran_add_per_rank(belay_state* state, const char* key,
                               CFI_cdesc_t* value, int other_ranks);

// Reads the box of the shape of `value` that begins at `start`, or with null
// for `start` at the first element. Local. A scalar of type character takes a
// string and blanks after it.
int belay_fortran_read(const belay_reader* reader, const char* key,
                       CFI_cdesc_t* value, int num_start, const int64_t* start);

#endif  // BELAY_FORTRAN_DESCRIPTORS_H_
