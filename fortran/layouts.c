// Pieces with ghost cells, and layouts on a mesh, of Fortran arrays.

#include <stdlib.h>
#include <string.h>

#include "arrays.h"
#include "descriptors.h"

// Copies numbers of axes in reverse order.
static void Reverse(int ndim, const int64_t* from, int64_t* to) {
  for (int i = 0; i < ndim; ++i) to[i] = from[ndim - 1 - i];
}

int belay_fortran_add_piece_with_ghosts(belay_state* state, const char* key,
                                        CFI_cdesc_t* value, int num_shape,
                                        const int64_t* global_shape,
                                        int num_start, const int64_t* start,
                                        int num_ghosts, const int64_t* before,
                                        const int64_t* after,
                                        const int* periodic) {
  const struct array array = ArrayOf(value);
  const int rank = value->rank;
  int64_t global[kMaxAxes] = {0}, offset[kMaxAxes] = {0}, shape[kMaxAxes] = {0};
  int64_t low[kMaxAxes] = {0}, high[kMaxAxes] = {0};
  int wraps[kMaxAxes] = {0};
  const belay_ghosts ghosts = {low, high, wraps};
  if (array.problem != NULL) return Refuse(state, key, array.problem);
  if (num_shape != rank || num_start != rank || num_ghosts != rank) {
    return Refuse(state, key,
                  "global_shape, start or ghosts have another number of axes "
                  "than the array");
  }
  Reverse(rank, global_shape, global);
  Reverse(rank, start, offset);
  Reverse(rank, before, low);
  Reverse(rank, after != NULL ? after : before, high);
  for (int i = 0; i < array.ndim; ++i) {
    shape[i] = array.shape[i] - low[i] - high[i];
    if (i >= rank) {
      global[i] = array.shape[i];  // the characters of strings
      continue;
    }
    --offset[i];
    if (periodic != NULL) wraps[i] = periodic[rank - 1 - i];
    if (shape[i] < 0) {
      return Refuse(state, key,
                    "the array has fewer elements than ghost cells");
    }
  }
  return belay_state_add_piece_with_ghosts(
      state, key, array.dtype, array.ndim, global, offset, shape,
      IsDense(&array) ? NULL : array.strides, &ghosts, value->base_addr);
}

// Returns the layout with its array axes in reverse order and `num_whole` more
// that are whole, which the caller frees; null: no memory. What is no layout is
// left to the library.
static char* ReverseLayout(const char* layout, int num_whole) {
  const size_t length = strlen(layout);
  const char* const end = strchr(layout, ']');
  char* const reversed = malloc(length + 2 * (size_t)num_whole + 1);
  if (reversed == NULL) return NULL;
  if (layout[0] != '[' || end == NULL || end == layout + 1) {
    return strcpy(reversed, layout);
  }
  char* to = reversed;
  *to++ = '[';
  for (const char* last = end; last > layout; --last) {
    const char* first = last;  // of the names of an axis
    while (first[-1] != ',' && first[-1] != '[') --first;
    if (to > reversed + 1) *to++ = ',';
    memcpy(to, first, (size_t)(last - first));
    to += last - first;
    last = first;
  }
  for (int i = 0; i < num_whole; ++i) {
    memcpy(to, ",-", 2);
    to += 2;
  }
  strcpy(to, end);
  return reversed;
}

int belay_fortran_layout_box(const char* layout, int ndim,
                             const int64_t* global_shape, int rank,
                             int64_t* start, int64_t* shape) {
  int64_t global[kMaxAxes] = {0}, offset[kMaxAxes], lengths[kMaxAxes];
  if (ndim > CFI_MAX_RANK) {
    return Fail(BELAY_INVALID_ARGUMENT, "global_shape has too many axes");
  }
  char* const reversed = ReverseLayout(layout, 0);
  if (reversed == NULL) return Fail(BELAY_RESOURCE_EXHAUSTED, "no memory");
  Reverse(ndim, global_shape, global);
  const int code =
      belay_layout_box(reversed, ndim, global, rank, offset, lengths);
  free(reversed);
  if (code != BELAY_OK) return code;
  Reverse(ndim, offset, start);
  Reverse(ndim, lengths, shape);
  for (int i = 0; i < ndim; ++i) ++start[i];
  return BELAY_OK;
}

int belay_fortran_add_laid_out(belay_state* state, const char* key,
                               CFI_cdesc_t* value, const char* layout,
                               int num_shape, const int64_t* global_shape,
                               int rank) {
  const struct array array = ArrayOf(value);
  int64_t global[kMaxAxes] = {0}, shape[kMaxAxes];
  if (array.problem != NULL) return Refuse(state, key, array.problem);
  if (num_shape != value->rank) {
    return Refuse(state, key,
                  "global_shape has another number of axes than the array");
  }
  const int num_more = array.ndim - value->rank;  // the characters of strings
  char* const reversed = ReverseLayout(layout, num_more);
  if (reversed == NULL) return Refuse(state, key, "no memory");
  Reverse(num_shape, global_shape, global);
  if (num_more > 0) global[num_shape] = array.shape[num_shape];
  const char* problem = NULL;
  if (belay_layout_box(reversed, array.ndim, global, rank, NULL, shape) !=
      BELAY_OK) {
    problem = belay_error_message();
  } else if (memcmp(shape, array.shape,
                    (size_t)array.ndim * sizeof(shape[0])) != 0) {
    problem = "the array has another shape than the part of its rank";
  }
  const int code =
      problem != NULL
          ? Refuse(state, key, problem)
          : belay_state_add_laid_out(
                state, key, array.dtype, reversed, array.ndim, global, rank,
                IsDense(&array) ? NULL : array.strides, NULL, value->base_addr);
  free(reversed);
  return code;
}
