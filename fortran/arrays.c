#include "arrays.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Returns the belay_dtype that stores a Fortran type; 0 if there is none. Not a
// switch, because the type codes of some kinds may be equal.
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
#ifdef CFI_type_Logical  // gfortran: other kinds of logical are integers
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

struct array belay_fortran_array_of(const CFI_cdesc_t* value) {
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
  if (value->base_addr == NULL) {
    array.problem = "the array is not allocated, or the pointer is null";
  }
  if (array.dtype == 0) {
    array.problem =
        "no integer, real, complex, logical or character of a kind "
        "that belay stores";
  }
  return array;
}

struct array belay_fortran_borrowed_array_of(const CFI_cdesc_t* value) {
  struct array array = belay_fortran_array_of(value);
  if (array.problem == NULL && value->rank > 0 &&
      value->dim[0].sm != (CFI_index_t)value->elem_len) {
    array.problem =
        "its elements lie apart along the first axis: a component of an array "
        "of a derived type, a part of strings or of complex numbers, or a "
        "section with a stride (add rows with fields, or a section like "
        "u(2:2, :))";
  }
  return array;
}

struct numbers belay_fortran_numbers_of(const CFI_cdesc_t* value) {
  struct numbers numbers = {0, {0}};
  if (value == NULL) return numbers;
  numbers.count = value->dim[0].extent > kMaxAxes ? kMaxAxes + 1
                                                  : (int)value->dim[0].extent;
  for (int i = 0; i < numbers.count && i < kMaxAxes; ++i) {
    const char* const at = (const char*)value->base_addr + i * value->dim[0].sm;
    if (value->elem_len == sizeof(int64_t)) {
      memcpy(&numbers.values[i], at, sizeof(int64_t));
    } else if (value->elem_len == sizeof(int32_t)) {
      int32_t number;
      memcpy(&number, at, sizeof(number));
      numbers.values[i] = number;
    } else {
      numbers.values[i] = *at;  // logical(c_bool)
    }
  }
  return numbers;
}

char* belay_fortran_text_of(const CFI_cdesc_t* value) {
  size_t length = value->elem_len;
  const char* const bytes = value->base_addr;
  while (length > 0 && bytes[length - 1] == ' ') --length;
  char* const text = malloc(length + 1);
  if (text == NULL) return NULL;
  memcpy(text, bytes, length);
  text[length] = '\0';
  return text;
}

void belay_fortran_finish(int code, int* ierr) {
  if (ierr != NULL) {
    *ierr = code;
  } else {
    belay_check(code, NULL, 0);
  }
}

int belay_fortran_is_string(const CFI_cdesc_t* value) {
  return value->type == CFI_type_char && value->rank == 0;
}

int belay_fortran_is_logical(const CFI_cdesc_t* value) {
#ifdef CFI_type_Logical
  return (value->type & CFI_type_mask) == CFI_type_Logical;
#else
  return value->type == CFI_type_Bool || value->type == CFI_type_other;
#endif
}

int belay_fortran_is_dense(const struct array* array) {
  int64_t stride = 1;
  for (int i = array->ndim - 1; i >= 0; --i) {
    if (array->shape[i] == 0) return 1;
    if (array->shape[i] > 1 && array->strides[i] != stride) return 0;
    stride *= array->shape[i];
  }
  return 1;
}

int64_t belay_fortran_num_elements(const struct array* array) {
  int64_t count = 1;
  for (int i = 0; i < array->ndim; ++i) count *= array->shape[i];
  return count;
}

int belay_fortran_fail(int code, const char* message) {
  belay_state* state = NULL;
  int failed = belay_state_create(&state);
  if (failed == BELAY_OK) failed = belay_state_fail(state, code, message);
  belay_state_free(&state);
  return failed;
}

int belay_fortran_no_memory(void) {
  return belay_fortran_fail(BELAY_RESOURCE_EXHAUSTED, "not enough memory");
}

int belay_fortran_refuse(belay_state* state, const char* key,
                         const char* problem) {
  char text[512];
  snprintf(text, sizeof(text), "add \"%s\": %s", key, problem);
  return belay_state_fail(state, BELAY_INVALID_ARGUMENT, text);
}
