// Functions that the Fortran module calls in addition to belay/belay_c.h. They
// take Fortran arrays of any type and rank as C descriptors.
//
// The procedures of the module that keep the address of an array are these
// functions themselves, not Fortran wrappers. For an argument of a procedure
// that is not bind(C), gfortran copies components and substrings of arrays to
// memory that it frees after the call, and the procedure cannot detect the
// copy. A bind(C) procedure gets the array itself, so it can refuse components
// and substrings. It must refuse them, because gfortran 12 would otherwise
// change the base address of an allocatable array to that of the component.
//
// Handles are passed by reference, texts are padded with blanks, and a null
// pointer is an absent optional argument. `ierr` is set to the code; without
// it, an error ends the job.
//
// Fortran arrays are column-major, so the axes of an array appear in C, C++ and
// h5py in reverse order: u(i, j) is u[j - 1][i - 1]. Shapes and indices are
// passed in Fortran order, as arrays of integer(4) or integer(8).

#ifndef BELAY_FORTRAN_DESCRIPTORS_H_
#define BELAY_FORTRAN_DESCRIPTORS_H_

#include <ISO_Fortran_binding.h>
#include <stddef.h>
#include <stdint.h>

#include "belay/belay_c.h"

// Programs call these functions; everything else is hidden in the shared
// library.
#ifdef __GNUC__
#pragma GCC visibility push(default)
#endif

// Duplicates a Fortran communicator. Collective.
int belay_fortran_comm_create(MPI_Fint comm, const belay_options* options,
                              belay_comm** result);

// Opens a run on a communicator of Fortran. Collective.
int belay_fortran_run_open(MPI_Fint comm, const char* dir, const char* options,
                           belay_run** result);

// Adds a value that is equal on all ranks: an array or, for a scalar of type
// character, a string padded with blanks. Local.
void belay_fortran_add(belay_state* const* state, const CFI_cdesc_t* key,
                       CFI_cdesc_t* value, int* ierr);

// Adds a piece of an array that is partitioned over the ranks. Local. `start`
// counts from 1.
void belay_fortran_add_piece(belay_state* const* state, const CFI_cdesc_t* key,
                             CFI_cdesc_t* value,
                             const CFI_cdesc_t* global_shape,
                             const CFI_cdesc_t* start, int* ierr);

// Adds numbers; a save stores only those of rank 0. Local.
void belay_fortran_add_from_rank0(belay_state* const* state,
                                  const CFI_cdesc_t* key, CFI_cdesc_t* value,
                                  int* ierr);

// Adds numbers that are separate on each rank. Local.
void belay_fortran_add_per_rank(belay_state* const* state,
                                const CFI_cdesc_t* key, CFI_cdesc_t* value,
                                const int* other_ranks, int* ierr);

// Changes the address of the values of a key. Local. `piece` is the index of
// the call that added the piece, among all calls for this key, from 1; null:
// the first. The array may differ only in its address from the one that was
// added.
void belay_fortran_set_address(belay_state* const* state,
                               const CFI_cdesc_t* key, CFI_cdesc_t* value,
                               const int* piece, int* ierr);

// As belay_fortran_add_piece, for an array that holds ghost cells around the
// piece. Local. `start` is the index of the first element of the piece itself.
// `before` and `after` have a number for each axis, and `periodic` has a
// logical. A null `after` means the same as `before`; a null `periodic` means
// .false. for all axes.
void belay_fortran_add_piece_with_ghosts(
    belay_state* const* state, const CFI_cdesc_t* key, CFI_cdesc_t* value,
    const CFI_cdesc_t* global_shape, const CFI_cdesc_t* start,
    const CFI_cdesc_t* before, const CFI_cdesc_t* after,
    const CFI_cdesc_t* periodic, int* ierr);

// Adds the piece of an array that a rank holds in a layout. Local. The array
// axes of `layout` are in Fortran order.
void belay_fortran_add_laid_out(belay_state* const* state,
                                const CFI_cdesc_t* key, CFI_cdesc_t* value,
                                const CFI_cdesc_t* layout,
                                const CFI_cdesc_t* global_shape,
                                const int* rank, int* ierr);

// The same as belay_layout_box, with axes in Fortran order; `start` counts from
// 1. Local.
int belay_fortran_layout_box(const char* layout, int ndim,
                             const int64_t* global_shape, int rank,
                             int64_t* start, int64_t* shape);

// The module's type belay_fields.
struct belay_fortran_fields {
  belay_fields* handle;
  const void* element;  // whose components are added
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

// Adds the rows of an array, which are along its last axis. Local. `count`, an
// integer(4) or integer(8), is the number of rows; null: all. If `fields` is
// not null, the rows are of a derived type.
void belay_fortran_add_rows(belay_state* const* state, const CFI_cdesc_t* key,
                            CFI_cdesc_t* value, CFI_cdesc_t* count,
                            const struct belay_fortran_fields* fields,
                            int* ierr);

// The same for rows with the ids `ids`, which start at 1. Local. `total` is the
// total number of rows of all ranks, an integer(4) or integer(8).
void belay_fortran_add_rows_by_id(belay_state* const* state,
                                  const CFI_cdesc_t* key, CFI_cdesc_t* ids,
                                  CFI_cdesc_t* value, CFI_cdesc_t* count,
                                  CFI_cdesc_t* total,
                                  const struct belay_fortran_fields* fields,
                                  int* ierr);

// Reads the box that has the shape of `value` and begins at `start` or, if that
// is null, at the first element. Local. A scalar of type character gets a
// string, padded with blanks.
void belay_fortran_read(belay_reader* const* reader, const CFI_cdesc_t* key,
                        CFI_cdesc_t* value, const CFI_cdesc_t* start,
                        int* ierr);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif

#endif  // BELAY_FORTRAN_DESCRIPTORS_H_
