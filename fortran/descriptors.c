#include "descriptors.h"

#include <stdlib.h>
#include <string.h>

#include "arrays.h"

int belay_fortran_comm_create(MPI_Fint comm, belay_comm** result) {
  return belay_comm_create(MPI_Comm_f2c(comm), result);
}

int belay_fortran_add(belay_state* state, const char* key, CFI_cdesc_t* value) {
  const struct array array = ArrayOf(value);
  if (IsString(value)) {
    return belay_state_add_padded_string(state, key, value->base_addr,
                                         (int64_t)value->elem_len);
  }
  if (array.problem != NULL) return Refuse(state, key, array.problem);
  return belay_state_add_array(state, key, array.dtype, array.ndim, array.shape,
                               IsDense(&array) ? NULL : array.strides,
                               value->base_addr);
}

int belay_fortran_add_piece(belay_state* state, const char* key,
                            CFI_cdesc_t* value, int num_shape,
                            const int64_t* global_shape, int num_start,
                            const int64_t* start) {
  const struct array array = ArrayOf(value);
  int64_t global[kMaxAxes] = {0}, offset[kMaxAxes] = {0};
  const int rank = value->rank;
  if (array.problem != NULL) return Refuse(state, key, array.problem);
  if (num_shape != rank) {
    return Refuse(state, key,
                  "global_shape has another number of axes than the array");
  }
  if (num_start != rank) {
    return Refuse(state, key,
                  "start has another number of axes than the array");
  }
  for (int i = 0; i < rank; ++i) {
    global[i] = global_shape[rank - 1 - i];
    offset[i] = start[rank - 1 - i] - 1;
  }
  if (array.ndim > rank) global[rank] = array.shape[rank];
  return belay_state_add_piece(
      state, key, array.dtype, array.ndim, global, offset, array.shape,
      IsDense(&array) ? NULL : array.strides, value->base_addr);
}

int belay_fortran_add_per_rank(belay_state* state, const char* key,
                               CFI_cdesc_t* value, int other_ranks) {
  const struct array array = ArrayOf(value);
  if (array.problem != NULL) return Refuse(state, key, array.problem);
  if (!IsDense(&array)) {
    return Refuse(state, key,
                  "values of each rank lie apart, and need to be contiguous");
  }
  return belay_state_add_per_rank(state, key, array.dtype, NumElements(&array),
                                  value->base_addr, other_ranks);
}

// Moves dense elements to where the array has them.
static void Spread(const struct array* array, size_t size, const char* from,
                   char* to) {
  int64_t index[kMaxAxes] = {0};
  const int64_t count = NumElements(array);
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
  if (IsDense(array)) {
    return belay_reader_read(reader, key, array->dtype, array->ndim, offset,
                             array->shape, data);
  }
  const size_t bytes = (size_t)NumElements(array) * size;
  char* const dense = malloc(bytes);
  if (dense == NULL) {
    return Fail(BELAY_RESOURCE_EXHAUSTED, "no memory to read an array");
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

int belay_fortran_read(const belay_reader* reader, const char* key,
                       CFI_cdesc_t* value, int num_start,
                       const int64_t* start) {
  const struct array array = ArrayOf(value);
  int64_t offset[kMaxAxes] = {0};
  if (IsString(value)) return ReadString(reader, key, value);
  if (array.problem != NULL || (start != NULL && num_start != value->rank)) {
    return Fail(BELAY_INVALID_ARGUMENT,
                array.problem != NULL
                    ? array.problem
                    : "start has another number of axes than the array");
  }
  for (int i = 0; start != NULL && i < value->rank; ++i) {
    offset[i] = start[value->rank - 1 - i] - 1;
  }
  return ReadBox(reader, key, &array,
                 value->type == CFI_type_char ? 1 : value->elem_len, offset,
                 value->base_addr);
}
