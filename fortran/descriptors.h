// Functions that the Fortran module calls beside belay/belay_c.h. They take
// Fortran arrays of any type and rank as C descriptors.
//
// The procedures of the module that keep the address of an array are these
// functions themselves, and not Fortran around them. For an argument of a
// procedure that is not bind(C), gfortran copies components and substrings of
// arrays to memory that it frees after the call: nobody could see that the
// address is that of a copy. What is bind(C) gets the array itself, and refuses
// it. It must not accept it, either: gfortran 12 then moves the first address
// of an allocatable array to that of the component.
//
// Handles are passed by reference, texts are padded with blanks, and a null
// pointer is an absent optional argument. `ierr` gets the code; without it, an
// error ends the job.
//
// Fortran arrays are column-major, so the axes of an array appear in C, C++ and
// h5py in reverse order: u(i, j) is u[j - 1][i - 1]. Shapes and indices are
// passed here in the order of Fortran, as arrays of integer(4) or integer(8).

#ifndef BELAY_FORTRAN_DESCRIPTORS_H_
#define BELAY_FORTRAN_DESCRIPTORS_H_

#include <ISO_Fortran_binding.h>
#include <stddef.h>
#include <stdint.h>

#include "belay/belay_c.h"

// The programs call these; all else is hidden in the shared library.
#ifdef __GNUC__
#pragma GCC visibility push(default)
#endif

// Duplicates a communicator of Fortran. Collective.
int belay_fortran_comm_create(MPI_Fint comm, const belay_options* options,
                              belay_comm** result);

// Opens a run on a communicator of Fortran. Collective.
int belay_fortran_run_open(MPI_Fint comm, const char* dir, const char* options,
                           belay_run** result);

// Adds a value that is equal on all ranks: an array or, for a scalar of type
// character, a string padded with blanks. Local.
void belay_fortran_add(belay_state* const* state, const CFI_cdesc_t* key,
                       CFI_cdesc_t* value, int* ierr);

// Adds a piece of an array that is cut over the ranks. Local. `start` counts
// from 1.
void belay_fortran_add_piece(belay_state* const* state, const CFI_cdesc_t* key,
                             CFI_cdesc_t* value,
                             const CFI_cdesc_t* global_shape,
                             const CFI_cdesc_t* start, int* ierr);

// Adds numbers of which a save stores those of rank 0. Local.
void belay_fortran_add_from_rank0(belay_state* const* state,
                                  const CFI_cdesc_t* key, CFI_cdesc_t* value,
                                  int* ierr);

// Adds numbers that this rank has of its own. Local.
void belay_fortran_add_per_rank(belay_state* const* state,
                                const CFI_cdesc_t* key, CFI_cdesc_t* value,
                                const int* other_ranks, int* ierr);

// Changes where the values of a key are. Local. `piece` counts the calls that
// have added the key, from 1; null: the first. The array must be as the one
// that was added, but for its address.
void belay_fortran_set_address(belay_state* const* state,
                               const CFI_cdesc_t* key, CFI_cdesc_t* value,
                               const int* piece, int* ierr);

// As belay_fortran_add_piece, for an array that holds ghost cells around the
// piece. Local. `start` is the index of the first element of the piece itself.
// `before`, `after` and `periodic`, which are logicals, have a number for each
// of the axes. Null: `after` is equal to `before`, `periodic` is .false..
void belay_fortran_add_piece_with_ghosts(
    belay_state* const* state, const CFI_cdesc_t* key, CFI_cdesc_t* value,
    const CFI_cdesc_t* global_shape, const CFI_cdesc_t* start,
    const CFI_cdesc_t* before, const CFI_cdesc_t* after,
    const CFI_cdesc_t* periodic, int* ierr);

// Adds the piece of an array that a rank has in a layout. Local. The array axes
// of `layout` are in the order of Fortran.
void belay_fortran_add_laid_out(belay_state* const* state,
                                const CFI_cdesc_t* key, CFI_cdesc_t* value,
                                const CFI_cdesc_t* layout,
                                const CFI_cdesc_t* global_shape,
                                const int* rank, int* ierr);

// belay_layout_box, with numbers in the order of Fortran; `start` counts from
// 1. Local.
int belay_fortran_layout_box(const char* layout, int ndim,
                             const int64_t* global_shape, int rank,
                             int64_t* start, int64_t* shape);

// The type belay_fields of the module.
struct belay_fortran_fields {
  belay_fields* handle;
  const void* element;  // that the components are taken from
  size_t bytes;         // of an element
};

// Creates fields of elements of the derived type of `element`. Local.
void belay_fortran_fields_create(CFI_cdesc_t* element,
                                 struct belay_fortran_fields* fields,
                                 int* ierr);

// Adds a field: a component of the element. Local.
void belay_fortran_fields_add(const struct belay_fortran_fields* fields,
                              const CFI_cdesc_t* name,
                              const CFI_cdesc_t* component, int* ierr);

// Adds the rows of an array, which lie along its last axis. Local. `count`, an
// integer(4) or integer(8), says how many rows there are; null: all. With
// `fields`, which may be null, the rows are of a derived type.
void belay_fortran_add_rows(belay_state* const* state, const CFI_cdesc_t* key,
                            CFI_cdesc_t* value, CFI_cdesc_t* count,
                            const struct belay_fortran_fields* fields,
                            int* ierr);

// The same for rows with the ids `ids`, which count from 1. Local. `total` is
// the number of rows of all ranks, an integer(4) or integer(8).
void belay_fortran_add_rows_by_id(belay_state* const* state,
                                  const CFI_cdesc_t* key, CFI_cdesc_t* ids,
                                  CFI_cdesc_t* value, CFI_cdesc_t* count,
                                  CFI_cdesc_t* total,
                                  const struct belay_fortran_fields* fields,
                                  int* ierr);

// Reads the box of the shape of `value` that begins at `start`, or with null at
// the first element. Local. A scalar of type character takes a string and
// blanks after it.
void belay_fortran_read(belay_reader* const* reader, const CFI_cdesc_t* key,
                        CFI_cdesc_t* value, const CFI_cdesc_t* start,
                        int* ierr);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif

#endif  // BELAY_FORTRAN_DESCRIPTORS_H_
