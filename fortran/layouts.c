// Pieces of Fortran arrays with ghost cells, and layouts on a mesh.

#include <stdlib.h>
#include <string.h>

#include "arrays.h"
#include "descriptors.h"

// Copies one number per axis in reverse order.
static void Reverse(int ndim, const int64_t* from, int64_t* to) {
  for (int i = 0; i < ndim; ++i) to[i] = from[ndim - 1 - i];
}

// The numeric arguments of belay_fortran_add_piece_with_ghosts.
struct ghost_numbers {
  struct numbers global_shape, start, before, after, periodic;
};

static int AddGhosts(belay_state* state, const char* key, CFI_cdesc_t* value,
                     const struct ghost_numbers* numbers) {
  const struct array array = belay_fortran_borrowed_array_of(value);
  const int rank = value->rank;
  int64_t global[kMaxAxes] = {0}, offset[kMaxAxes] = {0}, shape[kMaxAxes] = {0};
  int64_t low[kMaxAxes] = {0}, high[kMaxAxes] = {0};
  int wraps[kMaxAxes] = {0};
  const belay_ghosts ghosts = {.before = low, .after = high, .periodic = wraps};
  if (array.problem != NULL) {
    return belay_fortran_refuse(state, key, array.problem);
  }
  if (numbers->global_shape.count != rank || numbers->start.count != rank ||
      numbers->before.count != rank || numbers->after.count != rank ||
      numbers->periodic.count != rank) {
    return belay_fortran_refuse(
        state, key,
        "global_shape, start, ghosts, ghosts_after or periodic have another "
        "number of axes than the array, or periodic is not logical");
  }
  Reverse(rank, numbers->global_shape.values, global);
  Reverse(rank, numbers->start.values, offset);
  Reverse(rank, numbers->before.values, low);
  Reverse(rank, numbers->after.values, high);
  for (int i = 0; i < array.ndim; ++i) {
    shape[i] = array.shape[i] - low[i] - high[i];
    if (i >= rank) {
      global[i] = array.shape[i];  // the characters of strings
      continue;
    }
    --offset[i];
    wraps[i] = numbers->periodic.values[rank - 1 - i] != 0;
    if (shape[i] < 0) {
      return belay_fortran_refuse(
          state, key, "the array has fewer elements than ghost cells");
    }
  }
  return belay_state_add_piece_with_ghosts(
      state, key, array.dtype, array.ndim, global, offset, shape,
      belay_fortran_is_dense(&array) ? NULL : array.strides, &ghosts,
      value->base_addr);
}

void belay_fortran_add_piece_with_ghosts(
    belay_state* const* state, const CFI_cdesc_t* key, CFI_cdesc_t* value,
    const CFI_cdesc_t* global_shape, const CFI_cdesc_t* start,
    const CFI_cdesc_t* before, const CFI_cdesc_t* after,
    const CFI_cdesc_t* periodic, int* ierr) {
  char* const name = belay_fortran_text_of(key);
  struct ghost_numbers numbers = {
      belay_fortran_numbers_of(global_shape), belay_fortran_numbers_of(start),
      belay_fortran_numbers_of(before), belay_fortran_numbers_of(after),
      belay_fortran_numbers_of(periodic)};
  if (after == NULL) numbers.after = numbers.before;
  if (periodic == NULL) {
    numbers.periodic.count = numbers.before.count;
  } else if (!belay_fortran_is_logical(periodic)) {
    numbers.periodic.count = -1;
  }
  const int code = name != NULL ? AddGhosts(*state, name, value, &numbers)
                                : belay_fortran_no_memory();
  free(name);
  belay_fortran_finish(code, ierr);
}

// Returns the layout with its array axes in reverse order and `num_whole`
// additional unpartitioned axes; null if there is no memory. The caller frees
// it. Does not check the layout; the library does.
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
    const char* first = last;  // of the mesh axis names of one array axis
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
    return belay_fortran_fail(BELAY_INVALID_ARGUMENT,
                              "global_shape has too many axes");
  }
  char* const reversed = ReverseLayout(layout, 0);
  if (reversed == NULL) return belay_fortran_no_memory();
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

static int AddLaidOut(belay_state* state, const char* key, CFI_cdesc_t* value,
                      const char* layout, struct numbers global_shape,
                      int rank) {
  const struct array array = belay_fortran_borrowed_array_of(value);
  int64_t global[kMaxAxes] = {0}, shape[kMaxAxes];
  if (array.problem != NULL)
    return belay_fortran_refuse(state, key, array.problem);
  if (global_shape.count != value->rank) {
    return belay_fortran_refuse(
        state, key, "global_shape has another number of axes than the array");
  }
  const int num_more = array.ndim - value->rank;  // the characters of strings
  char* const reversed = ReverseLayout(layout, num_more);
  if (reversed == NULL) return belay_fortran_no_memory();
  Reverse(value->rank, global_shape.values, global);
  if (num_more > 0) global[value->rank] = array.shape[value->rank];
  const char* problem = NULL;
  // If there is no such box, belay_state_add_laid_out reports why.
  if (belay_layout_box(reversed, array.ndim, global, rank, NULL, shape) ==
          BELAY_OK &&
      memcmp(shape, array.shape, (size_t)array.ndim * sizeof(shape[0])) != 0) {
    problem = "the array has another shape than the part of its rank";
  }
  const int code =
      problem != NULL
          ? belay_fortran_refuse(state, key, problem)
          : belay_state_add_laid_out(
                state, key, array.dtype, reversed, array.ndim, global, rank,
                belay_fortran_is_dense(&array) ? NULL : array.strides, NULL,
                value->base_addr);
  free(reversed);
  return code;
}

void belay_fortran_add_laid_out(belay_state* const* state,
                                const CFI_cdesc_t* key, CFI_cdesc_t* value,
                                const CFI_cdesc_t* layout,
                                const CFI_cdesc_t* global_shape,
                                const int* rank, int* ierr) {
  char* const name = belay_fortran_text_of(key);
  char* const text = belay_fortran_text_of(layout);
  const int code =
      name != NULL && text != NULL
          ? AddLaidOut(*state, name, value, text,
                       belay_fortran_numbers_of(global_shape), *rank)
          : belay_fortran_no_memory();
  free(text);
  free(name);
  belay_fortran_finish(code, ierr);
}
