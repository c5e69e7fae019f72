#include "descriptors.h"

#include <stdlib.h>
#include <string.h>

#include "arrays.h"

// Programs that link this library are written in Fortran.
__attribute__((constructor)) static void UseFortranAxes(void) {
  belay_use_fortran_axes();
}

int belay_fortran_comm_create(MPI_Fint comm, const belay_options* options,
                              belay_comm** result) {
  return belay_comm_create_with_options(MPI_Comm_f2c(comm), options, result);
}

int belay_fortran_run_open(MPI_Fint comm, const char* dir, const char* options,
                           belay_run** result) {
  return belay_run_open(MPI_Comm_f2c(comm), dir, options, result);
}

static int Add(belay_state* state, const char* key, CFI_cdesc_t* value) {
  const struct array array = belay_fortran_borrowed_array_of(value);
  if (belay_fortran_is_string(value)) {
    return belay_state_add_padded_string(state, key, value->base_addr,
                                         (int64_t)value->elem_len);
  }
  if (array.problem != NULL) {
    return belay_fortran_refuse(state, key, array.problem);
  }
  return belay_state_add_array(
      state, key, array.dtype, array.ndim, array.shape,
      belay_fortran_is_dense(&array) ? NULL : array.strides, value->base_addr);
}

void belay_fortran_add(belay_state* const* state, const CFI_cdesc_t* key,
                       CFI_cdesc_t* value, int* ierr) {
  char* const name = belay_fortran_text_of(key);
  const int code =
      name != NULL ? Add(*state, name, value) : belay_fortran_no_memory();
  free(name);
  belay_fortran_finish(code, ierr);
}

static int AddFromRank0(belay_state* state, const char* key,
                        CFI_cdesc_t* value) {
  const struct array array = belay_fortran_borrowed_array_of(value);
  if (belay_fortran_is_string(value)) {
    return belay_fortran_refuse(state, key,
                                "numbers and arrays are saved from rank 0");
  }
  if (array.problem != NULL) {
    return belay_fortran_refuse(state, key, array.problem);
  }
  return belay_state_add_from_rank0(
      state, key, array.dtype, array.ndim, array.shape,
      belay_fortran_is_dense(&array) ? NULL : array.strides, value->base_addr);
}

void belay_fortran_add_from_rank0(belay_state* const* state,
                                  const CFI_cdesc_t* key, CFI_cdesc_t* value,
                                  int* ierr) {
  char* const name = belay_fortran_text_of(key);
  const int code = name != NULL ? AddFromRank0(*state, name, value)
                                : belay_fortran_no_memory();
  free(name);
  belay_fortran_finish(code, ierr);
}

static int AddPiece(belay_state* state, const char* key, CFI_cdesc_t* value,
                    struct numbers global_shape, struct numbers start) {
  const struct array array = belay_fortran_borrowed_array_of(value);
  int64_t global[kMaxAxes] = {0}, offset[kMaxAxes] = {0};
  const int rank = value->rank;
  if (array.problem != NULL) {
    return belay_fortran_refuse(state, key, array.problem);
  }
  if (global_shape.count != rank) {
    return belay_fortran_refuse(
        state, key, "global_shape has another number of axes than the array");
  }
  if (start.count != rank) {
    return belay_fortran_refuse(
        state, key, "start has another number of axes than the array");
  }
  for (int i = 0; i < rank; ++i) {
    global[i] = global_shape.values[rank - 1 - i];
    offset[i] = start.values[rank - 1 - i] - 1;
  }
  if (array.ndim > rank) global[rank] = array.shape[rank];
  return belay_state_add_piece(
      state, key, array.dtype, array.ndim, global, offset, array.shape,
      belay_fortran_is_dense(&array) ? NULL : array.strides, value->base_addr);
}

void belay_fortran_add_piece(belay_state* const* state, const CFI_cdesc_t* key,
                             CFI_cdesc_t* value,
                             const CFI_cdesc_t* global_shape,
                             const CFI_cdesc_t* start, int* ierr) {
  char* const name = belay_fortran_text_of(key);
  const int code = name != NULL
                       ? AddPiece(*state, name, value,
                                  belay_fortran_numbers_of(global_shape),
                                  belay_fortran_numbers_of(start))
                       : belay_fortran_no_memory();
  free(name);
  belay_fortran_finish(code, ierr);
}

static int AddPerRank(belay_state* state, const char* key, CFI_cdesc_t* value,
                      int other_ranks) {
  const struct array array = belay_fortran_borrowed_array_of(value);
  if (array.problem != NULL) {
    return belay_fortran_refuse(state, key, array.problem);
  }
  if (!belay_fortran_is_dense(&array)) {
    return belay_fortran_refuse(
        state, key, "values of each rank lie apart, and need to be contiguous");
  }
  return belay_state_add_per_rank(state, key, array.dtype,
                                  belay_fortran_num_elements(&array),
                                  value->base_addr, other_ranks);
}

void belay_fortran_add_per_rank(belay_state* const* state,
                                const CFI_cdesc_t* key, CFI_cdesc_t* value,
                                const int* other_ranks, int* ierr) {
  char* const name = belay_fortran_text_of(key);
  const int code =
      name != NULL ? AddPerRank(*state, name, value,
                                other_ranks != NULL ? *other_ranks
                                                    : BELAY_OTHER_RANKS_ERROR)
                   : belay_fortran_no_memory();
  free(name);
  belay_fortran_finish(code, ierr);
}

static int SetAddress(belay_state* state, const char* key, CFI_cdesc_t* value,
                      int64_t piece) {
  const struct array array = belay_fortran_borrowed_array_of(value);
  if (belay_fortran_is_string(value)) {
    const int64_t length = (int64_t)value->elem_len;
    return belay_state_set_array(state, key, piece, BELAY_STRING, 1, &length,
                                 NULL, value->base_addr);
  }
  if (array.problem != NULL) {
    return belay_fortran_refuse(state, key, array.problem);
  }
  return belay_state_set_array(state, key, piece, array.dtype, array.ndim,
                               array.shape, array.strides, value->base_addr);
}

void belay_fortran_set_address(belay_state* const* state,
                               const CFI_cdesc_t* key, CFI_cdesc_t* value,
                               const int* piece, int* ierr) {
  char* const name = belay_fortran_text_of(key);
  const int code = name != NULL ? SetAddress(*state, name, value,
                                             piece != NULL ? *piece - 1 : 0)
                                : belay_fortran_no_memory();
  free(name);
  belay_fortran_finish(code, ierr);
}

// Copies dense elements to their places in the array.
static void Spread(const struct array* array, size_t size, const char* from,
                   char* to) {
  int64_t index[kMaxAxes] = {0};
  const int64_t count = belay_fortran_num_elements(array);
  for (int64_t i = 0; i < count; ++i) {
    int64_t place = 0;
    for (int axis = 0; axis < array->ndim; ++axis) {
      place += index[axis] * array->strides[axis];
    }
    memcpy(to + place * (int64_t)size, from + i * (int64_t)size, size);
    for (int axis = array->ndim - 1; axis >= 0; --axis) {
      if (++index[axis] < array->shape[axis]) break;
      index[axis] = 0;
    }
  }
}

// Reads a box into an array that need not be dense.
static int ReadBox(const belay_reader* reader, const char* key,
                   const struct array* array, size_t size,
                   const int64_t* offset, void* data) {
  if (belay_fortran_is_dense(array)) {
    return belay_reader_read(reader, key, array->dtype, array->ndim, offset,
                             array->shape, data);
  }
  const size_t bytes = (size_t)belay_fortran_num_elements(array) * size;
  char* const dense = malloc(bytes);
  if (dense == NULL) {
    return belay_fortran_fail(BELAY_RESOURCE_EXHAUSTED,
                              "no memory to read an array");
  }
  const int code = belay_reader_read(reader, key, array->dtype, array->ndim,
                                     offset, array->shape, dense);
  if (code == BELAY_OK) Spread(array, size, dense, data);
  free(dense);
  return code;
}

static int ReadString(const belay_reader* reader, const char* key,
                      CFI_cdesc_t* value) {
  int64_t length = 0;
  const int64_t capacity = (int64_t)value->elem_len;
  const int code = belay_reader_read_string(reader, key, value->base_addr,
                                            capacity, &length);
  if (code == BELAY_OK && length < capacity) {
    memset((char*)value->base_addr + length, ' ', (size_t)(capacity - length));
  }
  return code;
}

static int Read(const belay_reader* reader, const char* key, CFI_cdesc_t* value,
                const CFI_cdesc_t* start) {
  const struct array array = belay_fortran_array_of(value);
  const struct numbers first = belay_fortran_numbers_of(start);
  int64_t offset[kMaxAxes] = {0};
  if (belay_fortran_is_string(value)) return ReadString(reader, key, value);
  if (array.problem != NULL || (start != NULL && first.count != value->rank)) {
    return belay_fortran_fail(
        BELAY_INVALID_ARGUMENT,
        array.problem != NULL
            ? array.problem
            : "start has another number of axes than the array");
  }
  for (int i = 0; start != NULL && i < value->rank; ++i) {
    offset[i] = first.values[value->rank - 1 - i] - 1;
  }
  return ReadBox(reader, key, &array,
                 value->type == CFI_type_char ? 1 : value->elem_len, offset,
                 value->base_addr);
}

void belay_fortran_read(belay_reader* const* reader, const CFI_cdesc_t* key,
                        CFI_cdesc_t* value, const CFI_cdesc_t* start,
                        int* ierr) {
  char* const name = belay_fortran_text_of(key);
  const int code = name != NULL ? Read(*reader, name, value, start)
                                : belay_fortran_no_memory();
  free(name);
  belay_fortran_finish(code, ierr);
}
