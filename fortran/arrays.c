#include "arrays.h"

#include <stdio.h>

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

struct array ArrayOf(const CFI_cdesc_t* value) {
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

int IsString(const CFI_cdesc_t* value) {
  return value->type == CFI_type_char && value->rank == 0;
}

int IsDense(const struct array* array) {
  int64_t stride = 1;
  for (int i = array->ndim - 1; i >= 0; --i) {
    if (array->shape[i] == 0) return 1;
    if (array->shape[i] > 1 && array->strides[i] != stride) return 0;
    stride *= array->shape[i];
  }
  return 1;
}

int64_t NumElements(const struct array* array) {
  int64_t count = 1;
  for (int i = 0; i < array->ndim; ++i) count *= array->shape[i];
  return count;
}

int Fail(int code, const char* message) {
  belay_state* state = NULL;
  int failed = belay_state_create(&state);
  if (failed == BELAY_OK) failed = belay_state_fail(state, code, message);
  belay_state_free(&state);
  return failed;
}

int Refuse(belay_state* state, const char* key, const char* problem) {
  char text[512];
  snprintf(text, sizeof(text), "add \"%s\": %s", key, problem);
  return belay_state_fail(state, BELAY_INVALID_ARGUMENT, text);
}
