#include "descriptors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kMaxAxes = CFI_MAX_RANK + 1 };

// A Fortran array as C sees it: axes reversed, lengths and strides in elements.
struct array {
  int dtype;  // 0: none that belay stores
  int ndim;
  int64_t shape[kMaxAxes];
  int64_t strides[kMaxAxes];
  const char* problem;  // null: none
};

// Returns the belay_dtype that stores a type of Fortran, 0 if there is none.
// The type codes of some kinds may be equal, so this is no switch.
static int DTypeOf(CFI_type_t type, size_t bytes) {
  const struct {
    CFI_type_t type;
    int dtype;
  } known[] = {{CFI_type_double, BELAY_F64},
               {CFI_type_float, BELAY_F32},
               {CFI_type_int32_t, BELAY_I32},
               {CFI_type_int64_t, BELAY_I64},
               {CFI_type_int8_t, BELAY_I8},
               {CFI_type_int16_t, BELAY_I16},
               {CFI_type_float_Complex, BELAY_C64},
               {CFI_type_double_Complex, BELAY_C128},
               {CFI_type_Bool, BELAY_BOOL}};
  for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); ++i) {
    if (known[i].type == type) return known[i].dtype;
  }
#ifdef CFI_type_Logical  // gfortran: other kinds of logical are whole numbers
  if ((type & CFI_type_mask) == CFI_type_Logical) {
    return bytes == 2   ? BELAY_I16
           : bytes == 4 ? BELAY_I32
           : bytes == 8 ? BELAY_I64
                        : 0;
  }
#else
  (void)bytes;
#endif
  return 0;
}

// Describes a Fortran array; an array of strings has its characters along one
// more axis, the last one.
static struct array ArrayOf(const CFI_cdesc_t* value) {
  struct array array = {0, value->rank, {0}, {0}, NULL};
  const int is_text = value->type == CFI_type_char;
  const int64_t size =
      is_text || value->elem_len == 0 ? 1 : (int64_t)value->elem_len;
  array.dtype = is_text ? BELAY_U8 : DTypeOf(value->type, value->elem_len);
  for (int i = 0; i < value->rank; ++i) {
    const CFI_dim_t* const dim = &value->dim[value->rank - 1 - i];
    array.shape[i] = dim->extent;
    if (dim->extent < 0) array.problem = "the size of the array is not known";
    if (array.problem == NULL && dim->extent > 1) {
      if (dim->sm % size != 0) {
        array.problem =
            "the array is a component of an array of a derived type";
      } else if (dim->sm < 0) {
        array.problem = "the array is a section with a negative stride";
      }
    }
    array.strides[i] = dim->sm / size;
  }
  if (is_text) {
    array.shape[array.ndim] = (int64_t)value->elem_len;
    array.strides[array.ndim] = 1;
    ++array.ndim;
  }
  if (array.dtype == 0) {
    array.problem =
        "no integer, real, complex, logical or character of a kind "
        "that belay stores";
  }
  return array;
}

static int IsString(const CFI_cdesc_t* value) {
  return value->type == CFI_type_char && value->rank == 0;
}

// Whether the elements are dense and in C order.
static int IsDense(const struct array* array) {
  int64_t stride = 1;
  for (int i = array->ndim - 1; i >= 0; --i) {
    if (array->shape[i] == 0) return 1;
    if (array->shape[i] > 1 && array->strides[i] != stride) return 0;
    stride *= array->shape[i];
  }
  return 1;
}

static int64_t NumElements(const struct array* array) {
  int64_t count = 1;
  for (int i = 0; i < array->ndim; ++i) count *= array->shape[i];
  return count;
}

// Sets the text of the last error, which only the library can, and returns the
// code.
static int Fail(int code, const char* message) {
  belay_state* state = NULL;
  int failed = belay_state_create(&state);
  if (failed == BELAY_OK) failed = belay_state_fail(state, code, message);
  belay_state_free(&state);
  return failed;
}

// Notes what is wrong with a value that was added.
static int Refuse(belay_state* state, const char* key, const char* problem) {
  char text[512];
  snprintf(text, sizeof(text), "add \"%s\": %s", key, problem);
  return belay_state_fail(state, BELAY_INVALID_ARGUMENT, text);
}

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
