// Rows of Fortran arrays, which lie along the last axis.

#include <stddef.h>
#include <stdint.h>

#include "arrays.h"
#include "descriptors.h"

// Takes an integer(4) or integer(8) of any rank. Returns what is wrong with it,
// null if nothing.
static const char* TakeIntegers(CFI_cdesc_t* value, int rank, int32_t** narrow,
                                int64_t** wide) {
  const struct array array = ArrayOf(value);
  if (value->rank != rank || !IsDense(&array)) {
    return rank == 0 ? "count is no scalar"
                     : "ids have another rank than 1, or lie apart";
  }
  if (array.dtype == BELAY_I32) {
    *narrow = value->base_addr;
  } else if (array.dtype == BELAY_I64) {
    *wide = value->base_addr;
  } else {
    return rank == 0 ? "count is no integer(4) or integer(8)"
                     : "ids are no integer(4) or integer(8)";
  }
  return NULL;
}

// Elements of a derived type: what belay stores of them, the fields say.
static struct array StructsOf(const CFI_cdesc_t* value) {
  struct array array = {BELAY_U8, value->rank, {0}, {0}, NULL};
  for (int i = 0; i < value->rank; ++i) {
    const CFI_dim_t* const dim = &value->dim[value->rank - 1 - i];
    array.shape[i] = dim->extent;
    array.strides[i] = dim->sm / (ptrdiff_t)value->elem_len;
  }
  return array;
}

// Describes rows. Returns what is wrong with them, null if nothing.
static const char* TakeRows(CFI_cdesc_t* value, CFI_cdesc_t* count,
                            const belay_fields* fields, struct array* array,
                            belay_rows* rows) {
  *array = fields != NULL ? StructsOf(value) : ArrayOf(value);
  if (array->problem != NULL) return array->problem;
  if (value->rank == 0) return "a scalar has no rows";
  if (fields != NULL && value->rank != 1) {
    return "elements of a derived type need an array of one axis";
  }
  if (!IsDense(array)) return "rows lie apart, and need to be contiguous";
  rows->dtype = array->dtype;
  rows->ndim = array->ndim - 1;
  rows->shape = array->shape + 1;
  rows->fields = fields;
  rows->capacity = array->shape[0];
  rows->data = value->base_addr;
  if (count == NULL) return NULL;
  return TakeIntegers(count, 0, &rows->count32, &rows->count);
}

int belay_fortran_add_rows(belay_state* state, const char* key,
                           CFI_cdesc_t* value, CFI_cdesc_t* count,
                           const belay_fields* fields) {
  struct array array;
  belay_rows rows = {0};
  const char* const problem = TakeRows(value, count, fields, &array, &rows);
  if (problem != NULL) return Refuse(state, key, problem);
  return belay_state_add_rows(state, key, &rows);
}

int belay_fortran_add_rows_by_id(belay_state* state, const char* key,
                                 CFI_cdesc_t* ids, CFI_cdesc_t* value,
                                 CFI_cdesc_t* count, const belay_fields* fields,
                                 int64_t total) {
  struct array array;
  belay_rows rows = {0};
  int32_t* narrow = NULL;
  int64_t* wide = NULL;
  const char* problem = TakeRows(value, count, fields, &array, &rows);
  if (problem == NULL) problem = TakeIntegers(ids, 1, &narrow, &wide);
  if (problem == NULL && ids->dim[0].extent != rows.capacity) {
    if (count == NULL) problem = "there are other ids than rows";
    if (ids->dim[0].extent < rows.capacity) {
      rows.capacity = ids->dim[0].extent;
    }
  }
  if (problem != NULL) return Refuse(state, key, problem);
  rows.ids32 = narrow;
  rows.ids = wide;
  rows.first_id = 1;
  rows.total = total;
  return belay_state_add_rows_by_id(state, key, &rows);
}

int belay_fortran_fields_create(CFI_cdesc_t* element, belay_fields** result,
                                void** address) {
  *address = element->base_addr;
  if (element->rank != 0) {
    return Fail(BELAY_INVALID_ARGUMENT,
                "fields are described by one element, and no array of them");
  }
  return belay_fields_create((int64_t)element->elem_len, result);
}

int belay_fortran_fields_add(belay_fields* fields, const void* element,
                             const char* name, CFI_cdesc_t* component) {
  const struct array array = ArrayOf(component);
  if (array.problem != NULL) return Fail(BELAY_INVALID_ARGUMENT, array.problem);
  if (!IsDense(&array)) {
    return Fail(BELAY_INVALID_ARGUMENT, "the component lies apart");
  }
  const char* const at = component->base_addr;
  return belay_fields_add(fields, name, array.dtype, array.ndim, array.shape,
                          at - (const char*)element);
}
