// Rows of Fortran arrays, which are along the last axis.

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "arrays.h"
#include "descriptors.h"

// Gets the address of an integer(4) or integer(8) with `rank` axes. Returns
// what is wrong with it, or null.
static const char* TakeIntegers(CFI_cdesc_t* value, int rank, int32_t** narrow,
                                int64_t** wide) {
  const struct array array = belay_fortran_borrowed_array_of(value);
  if (array.problem != NULL && array.dtype != 0) return array.problem;
  if (value->rank != rank || !belay_fortran_is_dense(&array)) {
    return rank == 0 ? "count or total is not a scalar"
                     : "ids have another rank than 1, or lie apart, and need "
                       "to be contiguous";
  }
  if (array.dtype == BELAY_I32) {
    *narrow = value->base_addr;
  } else if (array.dtype == BELAY_I64) {
    *wide = value->base_addr;
  } else {
    return rank == 0 ? "count or total is neither integer(4) nor integer(8)"
                     : "ids are neither integer(4) nor integer(8)";
  }
  return NULL;
}

// Describes elements of a derived type; `fields` says which components are
// stored.
static struct array StructsOf(const CFI_cdesc_t* value,
                              const struct belay_fortran_fields* fields) {
  struct array array = {BELAY_U8, value->rank, {0}, {0}, NULL};
  if (fields->handle == NULL) {
    array.problem = "fields were not created (belay_fields_create)";
  } else if (value->base_addr == NULL) {
    array.problem = "the array is not allocated, or the pointer is null";
  } else if (value->elem_len == 0 || value->elem_len != fields->bytes) {
    array.problem =
        "the elements have another size than the type that the fields are of";
  }
  if (array.problem != NULL) return array;
  for (int i = 0; i < value->rank; ++i) {
    const CFI_dim_t* const dim = &value->dim[value->rank - 1 - i];
    const ptrdiff_t size = (ptrdiff_t)value->elem_len;
    array.shape[i] = dim->extent;
    array.strides[i] = dim->sm / size;
    if (dim->sm != size) {
      array.problem = "rows lie apart, and need to be contiguous";
    }
  }
  return array;
}

// Describes rows. Returns what is wrong with them, or null.
static const char* TakeRows(CFI_cdesc_t* value, CFI_cdesc_t* count,
                            const struct belay_fortran_fields* fields,
                            struct array* array, belay_rows* rows) {
  *array = fields != NULL ? StructsOf(value, fields)
                          : belay_fortran_borrowed_array_of(value);
  if (array->problem != NULL) return array->problem;
  if (value->rank == 0) return "a scalar has no rows";
  if (fields != NULL && value->rank != 1) {
    return "elements of a derived type need an array of one axis";
  }
  if (!belay_fortran_is_dense(array)) {
    return "rows lie apart, and need to be contiguous";
  }
  rows->dtype = array->dtype;
  rows->ndim = array->ndim - 1;
  rows->shape = array->shape + 1;
  rows->fields = fields != NULL ? fields->handle : NULL;
  rows->capacity = array->shape[0];
  rows->data = value->base_addr;
  if (count == NULL) return NULL;
  return TakeIntegers(count, 0, &rows->count32, &rows->count);
}

static int AddRows(belay_state* state, const char* key, CFI_cdesc_t* value,
                   CFI_cdesc_t* count,
                   const struct belay_fortran_fields* fields) {
  struct array array;
  belay_rows rows = {0};
  const char* const problem = TakeRows(value, count, fields, &array, &rows);
  if (problem != NULL) return belay_fortran_refuse(state, key, problem);
  return belay_state_add_rows(state, key, &rows);
}

void belay_fortran_add_rows(belay_state* const* state, const CFI_cdesc_t* key,
                            CFI_cdesc_t* value, CFI_cdesc_t* count,
                            const struct belay_fortran_fields* fields,
                            int* ierr) {
  char* const name = belay_fortran_text_of(key);
  const int code = name != NULL ? AddRows(*state, name, value, count, fields)
                                : belay_fortran_no_memory();
  free(name);
  belay_fortran_finish(code, ierr);
}

// Reads the total number of rows, if it is given. Returns what is wrong with
// it, or null.
static const char* TakeTotal(CFI_cdesc_t* given, int64_t* total) {
  int32_t* narrow = NULL;
  int64_t* wide = NULL;
  if (given == NULL) return NULL;
  const char* const problem = TakeIntegers(given, 0, &narrow, &wide);
  if (problem == NULL) *total = narrow != NULL ? *narrow : *wide;
  return problem;
}

static int AddRowsById(belay_state* state, const char* key, CFI_cdesc_t* ids,
                       CFI_cdesc_t* value, CFI_cdesc_t* count,
                       CFI_cdesc_t* total,
                       const struct belay_fortran_fields* fields) {
  struct array array;
  belay_rows rows = {0};
  int32_t* narrow = NULL;
  int64_t* wide = NULL;
  const char* problem = TakeRows(value, count, fields, &array, &rows);
  if (problem == NULL) problem = TakeIntegers(ids, 1, &narrow, &wide);
  if (problem == NULL) problem = TakeTotal(total, &rows.total);
  if (problem == NULL && ids->dim[0].extent != rows.capacity) {
    if (count == NULL) problem = "the numbers of ids and rows differ";
    if (ids->dim[0].extent < rows.capacity) {
      rows.capacity = ids->dim[0].extent;
    }
  }
  if (problem != NULL) return belay_fortran_refuse(state, key, problem);
  rows.ids32 = narrow;
  rows.ids = wide;
  rows.first_id = 1;
  return belay_state_add_rows_by_id(state, key, &rows);
}

void belay_fortran_add_rows_by_id(belay_state* const* state,
                                  const CFI_cdesc_t* key, CFI_cdesc_t* ids,
                                  CFI_cdesc_t* value, CFI_cdesc_t* count,
                                  CFI_cdesc_t* total,
                                  const struct belay_fortran_fields* fields,
                                  int* ierr) {
  char* const name = belay_fortran_text_of(key);
  const int code =
      name != NULL ? AddRowsById(*state, name, ids, value, count, total, fields)
                   : belay_fortran_no_memory();
  free(name);
  belay_fortran_finish(code, ierr);
}

void belay_fortran_fields_create(CFI_cdesc_t* element,
                                 struct belay_fortran_fields* fields,
                                 int* ierr) {
  fields->handle = NULL;
  fields->element = element->base_addr;
  fields->bytes = element->elem_len;
  const int code =
      element->rank != 0
          ? belay_fortran_fail(
                BELAY_INVALID_ARGUMENT,
                "fields are described by one element, not by an array")
          : belay_fields_create((int64_t)element->elem_len, &fields->handle);
  belay_fortran_finish(code, ierr);
}

static int AddField(const struct belay_fortran_fields* fields, const char* name,
                    const CFI_cdesc_t* component) {
  const struct array array = belay_fortran_array_of(component);
  if (array.problem != NULL) {
    return belay_fortran_fail(BELAY_INVALID_ARGUMENT, array.problem);
  }
  if (!belay_fortran_is_dense(&array)) {
    return belay_fortran_fail(BELAY_INVALID_ARGUMENT,
                              "the component lies apart");
  }
  const char* const at = component->base_addr;
  return belay_fields_add(fields->handle, name, array.dtype, array.ndim,
                          array.shape, at - (const char*)fields->element);
}

void belay_fortran_fields_add(const struct belay_fortran_fields* fields,
                              const CFI_cdesc_t* name,
                              const CFI_cdesc_t* component, int* ierr) {
  char* const text = belay_fortran_text_of(name);
  const int code = text != NULL ? AddField(fields, text, component)
                                : belay_fortran_no_memory();
  free(text);
  belay_fortran_finish(code, ierr);
}
