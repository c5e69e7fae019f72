// The C interface: states, which list the values that are saved and restored.
//
// belay/belay_c.h includes it and explains errors and ownership.

#ifndef BELAY_C_STATE_H_
#define BELAY_C_STATE_H_

#include <limits.h>
#include <stdint.h>

#include "belay/c/base.h"

#ifdef __cplusplus
extern "C" {
#endif

// Creates an empty state: a list of named values in the program's memory.
// Local. A state keeps the address of each value. Saves read from it and
// restores write to it, even if the program's own pointer has changed since. A
// program that swaps two pointers or reallocates an array must call
// belay_state_set_address; otherwise saves read from the old address.
int belay_state_create(belay_state** result);

// Frees the list, not the values. Local. Close the managers that use the state
// first.
void belay_state_free(belay_state** state);

// Removes all values from the list. Local. The program then adds its current
// values: use this if memory has moved, or if values come and go. A manager
// that was created with the state saves and restores whatever values it holds
// at that time.
int belay_state_clear(belay_state* state);

// Adds an array that every rank holds in full, with `ndim` axes of the lengths
// `shape`. Local. It must be equal on all ranks, to the last bit. `strides` has
// the distance in elements from one index of an axis to the next, for arrays
// inside larger memory; null means dense and row-major.
// Errors of all belay_state_add functions: BELAY_INVALID_ARGUMENT - a null
//   pointer, an unknown dtype, a negative number. The state keeps the first
//   error, and saves and restores return it on all ranks.
int belay_state_add_array(belay_state* state, const char* key, int dtype,
                          int ndim, const int64_t* shape,
                          const int64_t* strides, void* data);

// Adds a number that is equal on all ranks: an array without axes. Local.
int belay_state_add_scalar(belay_state* state, const char* key, int dtype,
                           void* data);

// The same for several numbers of one type, each with its key, and a null at
// the end. Local.
//   belay_state_add_scalars(state, BELAY_F64, "time", &time, "dt", &dt, NULL);
int belay_state_add_scalars(belay_state* state, int dtype,
                            ...) BELAY_ENDS_WITH_NULL;

// In C11, the belay_dtype of a variable of an arithmetic type, and the call
// that adds a number by the name of its variable: BELAY_ADD_SCALAR(state, dt).
// clang-format off
#if defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#define BELAY_DTYPE_OF(variable)                             \
  _Generic((variable),                                       \
    float: BELAY_F32, double: BELAY_F64, _Bool: BELAY_BOOL,  \
    char: CHAR_MIN < 0 ? BELAY_I8 : BELAY_U8,                \
    signed char: BELAY_I8, unsigned char: BELAY_U8,          \
    short: BELAY_I16, unsigned short: BELAY_U16,             \
    int: BELAY_I32, unsigned int: BELAY_U32,                 \
    long: sizeof(long) == 8 ? BELAY_I64 : BELAY_I32,         \
    unsigned long: sizeof(long) == 8 ? BELAY_U64 : BELAY_U32, \
    long long: BELAY_I64, unsigned long long: BELAY_U64,     \
    float _Complex: BELAY_C64, double _Complex: BELAY_C128)
#define BELAY_ADD_SCALAR(state, variable)                            \
  belay_state_add_scalar(state, #variable, BELAY_DTYPE_OF(variable), \
                         &(variable))
#endif
// clang-format on

// Adds an array, or with `ndim` 0 a number, that every rank holds, but that may
// differ between ranks, such as a time step that each of them has computed,
// perhaps with another last bit. Local. A save stores the value of rank 0 and
// compares nothing; a restore gives it to all ranks. Arguments as those of
// belay_state_add_array.
int belay_state_add_from_rank0(belay_state* state, const char* key, int dtype,
                               int ndim, const int64_t* shape,
                               const int64_t* strides, void* data);

// Adds a piece of an array of shape `global_shape` that is partitioned over the
// ranks. Local. The piece begins at `offset`, counted from 0, and has the
// lengths `shape`; `data` points to its first element, and `strides` is as
// above. May be called several times for one key. Ranks that hold no piece do
// not call it. The pieces of all ranks must tile the array.
int belay_state_add_piece(belay_state* state, const char* key, int dtype,
                          int ndim, const int64_t* global_shape,
                          const int64_t* offset, const int64_t* shape,
                          const int64_t* strides, void* data);

// Ghost cells around a piece. For each axis, `before` is the number of ghost
// cells with smaller indexes, which come first in memory, and `after` the
// number of those with larger indexes. Saves read only the piece; a restore
// also fills the ghost cells inside the array. If `periodic` is not 0 for an
// axis, ghost cells beyond one end of the array are filled from its other end.
// A null `before` or `periodic` means all 0; a null `after` means the same as
// `before`. `reserved` must be 0; later versions may use it.
typedef struct belay_ghosts {
  const int64_t* before;
  const int64_t* after;
  const int* periodic;
  int64_t reserved[2];
} belay_ghosts;

// As belay_state_add_piece, for memory that holds ghost cells around the piece.
// Local. `data` points to the first ghost cell. Without `strides`, the piece
// and its ghost cells together are dense and row-major.
int belay_state_add_piece_with_ghosts(
    belay_state* state, const char* key, int dtype, int ndim,
    const int64_t* global_shape, const int64_t* offset, const int64_t* shape,
    const int64_t* strides, const belay_ghosts* ghosts, void* data);

// A piece of an array, and where its elements lie: as the arguments above, of
// up to 8 axes. What is 0 is not given: without `strides`, the piece and its
// ghost cells together are dense and row-major. `reserved` is for later
// versions.
typedef struct belay_piece {
  int ndim;
  int64_t global_shape[8];
  int64_t offset[8];
  int64_t shape[8];
  int64_t strides[8];
  int64_t ghosts_before[8];
  int64_t ghosts_after[8];
  int periodic[8];
  int64_t reserved[4];
} belay_piece;

// Adds the same piece of several arrays of one type, each with its key and its
// memory, and a null at the end. Local. `data` points to the first ghost cell,
// if there are any.
//   belay_piece tile = {.ndim = 2, .global_shape = {ny, nx}, .offset = {y, 0},
//                       .shape = {rows, nx}};
//   belay_state_add_pieces(state, BELAY_F64, &tile, "density", density,
//                          "energy", energy, NULL);
int belay_state_add_pieces(belay_state* state, int dtype,
                           const belay_piece* piece, ...) BELAY_ENDS_WITH_NULL;

// Adds the piece of rank `rank` of an array that is laid out on a mesh of
// ranks. Local. `layout` is a text such as "[x,-] on x=2,y=4": an array of two
// axes, the first of which is partitioned over the mesh axis x, on a mesh of 8
// ranks whose last axis, y, varies fastest. "x+y" partitions an axis over two
// mesh axes, "-" over none. Mesh axes that partition nothing hold replicas. The
// mesh must have as many ranks as the communicator; a save or a restore refuses
// any other mesh. The layout is stored with the array, but the array may be
// restored with another layout. `ghosts` may be null; `strides` and `data` are
// as above.
// Errors: also BELAY_INVALID_ARGUMENT - a layout that cannot be parsed or has
//   another number of axes, or no such rank.
int belay_state_add_laid_out(belay_state* state, const char* key, int dtype,
                             const char* layout, int ndim,
                             const int64_t* global_shape, int rank,
                             const int64_t* strides, const belay_ghosts* ghosts,
                             void* data);

// Sets `offset` and `shape`, of `ndim` numbers each, to the piece of an array
// that a rank holds in a layout. Local. If a length is not divisible, the first
// ranks get one element more.
// Errors: as belay::Layout::Parse and belay::Layout::LocalBox.
int belay_layout_box(const char* layout, int ndim, const int64_t* global_shape,
                     int rank, int64_t* offset, int64_t* shape);

// Writes the same layout for another number of ranks to `buffer`, as a
// zero-terminated string: "[x,-] on x=2,y=4" becomes "[x,-] on x=3,y=2" on 6
// ranks. Local. As belay::Layout::OnRanks.
// Errors: BELAY_INVALID_ARGUMENT - the layout cannot be parsed, or `num_ranks`
//   is not positive; BELAY_OUT_OF_RANGE - the text is longer than `capacity`
//   bytes.
int belay_layout_on_ranks(const char* layout, int num_ranks, char* buffer,
                          int64_t capacity);

// Adds `count` numbers that are separate on each rank, such as the state of a
// random number generator. Local. `count` may differ between ranks.
// `other_ranks` is a belay_other_ranks.
int belay_state_add_per_rank(belay_state* state, const char* key, int dtype,
                             int64_t count, void* data, int other_ranks);

// Adds a string that is equal on all ranks: the bytes of `buffer` before the
// first zero byte, or all `capacity` bytes. Local. A restore writes the stored
// string and zero bytes after it.
// Errors of a restore: BELAY_OUT_OF_RANGE - the stored string is longer than
//   the buffer.
int belay_state_add_string(belay_state* state, const char* key, char* buffer,
                           int64_t capacity);

// The same for strings that are padded with blanks, as in Fortran: blanks at
// the end of the buffer are not stored. Local.
int belay_state_add_padded_string(belay_state* state, const char* key,
                                  char* buffer, int64_t capacity);

// Changes the address of the values of a key, after two pointers were swapped
// or memory was reallocated. Local. `piece` is the index of the call that added
// the piece, among all calls for this key, from 0. `data` is the address that
// would now be passed to that call as `data`, or as `buffer` for a string. The
// other arguments of that call stay in effect.
// Errors: BELAY_NOT_FOUND - no such key or piece; BELAY_INVALID_ARGUMENT - a
//   null pointer, or the key has rows: use `resize` for them, or add them again
//   after belay_state_clear. The state keeps the first error, as above.
int belay_state_set_address(belay_state* state, const char* key, int64_t piece,
                            void* data);

// The same for bindings of languages whose arrays know their shapes. Local. The
// dtype, the lengths and the strides are as in belay_state_add_array, ghost
// cells included. A string is passed as BELAY_STRING with one axis, whose
// length is its capacity.
// Errors: also BELAY_INVALID_ARGUMENT - the dtype, lengths or strides differ
//   from those of the array that was added.
int belay_state_set_array(belay_state* state, const char* key, int64_t piece,
                          int dtype, int ndim, const int64_t* shape,
                          const int64_t* strides, void* data);

// Records an error that the caller has found, as the functions above record
// theirs, and returns its code. Local. For bindings of other languages: the
// next save or restore returns the error on all ranks.
int belay_state_fail(belay_state* state, int code, const char* message);

// --- Rows: as many as each rank has ---

// Creates a list of the fields of a struct of `bytes` bytes. Local.
int belay_fields_create(int64_t bytes, belay_fields** result);

// Adds a field: a number, or with `ndim` > 0 an array of the lengths `shape`,
// that begins `offset` bytes after the start of the struct (offsetof). Local.
// Names consist of letters, digits, `_`, `-` and `.`. Members that are not
// added are not stored, and a restore leaves them unchanged.
// Errors: BELAY_INVALID_ARGUMENT - an unknown dtype, or a field that is not
//   inside the struct.
int belay_fields_add(belay_fields* fields, const char* name, int dtype,
                     int ndim, const int64_t* shape, int64_t offset);

// Local.
void belay_fields_free(belay_fields** fields);

// Describes the rows of an array that a rank holds: what a row is, how many
// there are and where they are in memory. Members that are 0 or null count as
// not given.
//
//   belay_rows rows = {.dtype = BELAY_F64, .count = &n, .capacity = kMax,
//                      .data = mass};
//   belay_state_add_rows(state, "mass", &rows);
typedef struct belay_rows {
  // A row is an array with `ndim` axes of the lengths `shape`, or one number if
  // `ndim` is 0.
  int dtype;
  int ndim;
  const int64_t* shape;
  // Instead of the three members above: a row is a struct with these fields.
  const belay_fields* fields;
  // The number of rows of this rank, in one of two types. Saves read it, and
  // restores set it. It must be valid at each call: 0 if there are no rows yet.
  // Arrays that always have the same number of rows may share a count. If one
  // of them is not stored, and the restore allows that, it gets memory for the
  // same number of rows. If neither member is given, the rank always has
  // `capacity` rows.
  int64_t* count;
  int32_t* count32;
  // Memory for `capacity` rows.
  int64_t capacity;
  void* data;
  // Instead of `capacity` and `data`: a function that returns the address of
  // memory for `count` rows, or null if it cannot allocate them. Like realloc,
  // it keeps the rows that fit. Each save, each restore and
  // belay_manager_create call it with the current count, even if a manager then
  // does not save; a restore also calls it with the number of rows that this
  // rank gets. Each may call it several times. When called again with the same
  // count, it must return the same address, because the rows of several keys
  // may share memory that moves. Only if no other rows of the state have a
  // `resize` may it return another address. It must not call belay or MPI.
  void* (*resize)(void* context, int64_t count);
  void* context;
  // Only for rows with ids: the id of each row, in one of two types. Ids start
  // at `first_id`. Null if this rank has no rows. Messages count ids from 0.
  const int64_t* ids;
  const int32_t* ids32;
  int64_t first_id;
  // Only for rows with ids: the total number of rows of all ranks; a different
  // total is an error. 0 allows any number.
  int64_t total;
  // Must be 0; later versions may use it.
  int64_t reserved[4];
} belay_rows;

// Adds the rows of an array that this rank holds. Local. Copies `rows`, its
// shape and its fields, and borrows the rest. The rows of all ranks are stored
// in rank order. If the number of ranks is the same as in the save, each rank
// gets its own rows back. Otherwise each gets an even part of all rows, in
// their order, and belay_count_rows returns how many. Rows at the same position
// in several arrays stay together.
// Errors of saves and restores: BELAY_INVALID_ARGUMENT - a count is negative or
//   larger than the capacity; BELAY_RESOURCE_EXHAUSTED - `resize` returned
//   null; BELAY_FAILED_PRECONDITION - one of several `resize` functions moves
//   the rows each time it is called; of restores also BELAY_FAILED_PRECONDITION
//   - the rank gets more rows than its capacity or its count32 can hold, or
//   different numbers of rows for arrays that share a count. All errors name
//   the key. After an error, the count is one for which all arrays that share
//   it have memory.
int belay_state_add_rows(belay_state* state, const char* key,
                         const belay_rows* rows);

// The same for rows with ids, such as the cells of an unstructured mesh. Local.
// In a save, the ids of all ranks must be first_id, first_id + 1, ..., each
// once, in any order, on any rank; the array is stored in their order. A
// restore reads the count and the ids and restores those rows; other ranks may
// request the same rows.
// Errors of saves and restores: also those of belay::State::AddRowsById.
int belay_state_add_rows_by_id(belay_state* state, const char* key,
                               const belay_rows* rows);

#ifdef __cplusplus
}
#endif

#endif  // BELAY_C_STATE_H_
