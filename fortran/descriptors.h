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

// As belay_fortran_add_piece, for an array that holds ghost cells around the
// piece. Local. `start` is the index of the first element of the piece itself.
// `before`, `after` and `periodic` have a number for each of the axes, in the
// order of Fortran; null: 0, equal to `before`, 0.
int belay_fortran_add_piece_with_ghosts(belay_state* state, const char* key,
                                        CFI_cdesc_t* value, int num_shape,
                                        const int64_t* global_shape,
                                        int num_start, const int64_t* start,
                                        int num_ghosts, const int64_t* before,
                                        const int64_t* after,
                                        const int* periodic);

// Adds the piece of an array that a rank has in a layout. Local. The array axes
// of `layout` are in the order of Fortran.
int belay_fortran_add_laid_out(belay_state* state, const char* key,
                               CFI_cdesc_t* value, const char* layout,
                               int num_shape, const int64_t* global_shape,
                               int rank);

// belay_layout_box, with numbers in the order of Fortran; `start` counts from
// 1. Local.
int belay_fortran_layout_box(const char* layout, int ndim,
                             const int64_t* global_shape, int rank,
                             int64_t* start, int64_t* shape);

// Adds the rows of an array, which lie along its last axis. Local. `count`, an
// integer(4) or integer(8), says how many rows there are; null: all. With
// `fields`, which may be null, the rows are of a derived type.
int belay_fortran_add_rows(belay_state* state, const char* key,
                           CFI_cdesc_t* value, CFI_cdesc_t* count,
                           const belay_fields* fields);

// The same for rows with the ids `ids`, which count from 1. Local. `total` is
// the number of rows of all ranks, or 0.
int belay_fortran_add_rows_by_id(belay_state* state, const char* key,
                                 CFI_cdesc_t* ids, CFI_cdesc_t* value,
                                 CFI_cdesc_t* count, const belay_fields* fields,
                                 int64_t total);

// Creates fields of elements of the derived type of `element`, and returns the
// address of that one. Local.
int belay_fortran_fields_create(CFI_cdesc_t* element, belay_fields** result,
                                void** address);

// Adds a field: a component of the element at `element`. Local.
int belay_fortran_fields_add(belay_fields* fields, const void* element,
                             const char* name, CFI_cdesc_t* component);

// Reads the box of the shape of `value` that begins at `start`, or with null
// for `start` at the first element. Local. A scalar of type character takes a
// string and blanks after it.
int belay_fortran_read(const belay_reader* reader, const char* key,
                       CFI_cdesc_t* value, int num_start, const int64_t* start);

#endif  // BELAY_FORTRAN_DESCRIPTORS_H_
