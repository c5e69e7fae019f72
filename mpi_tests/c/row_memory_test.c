// Rows in memory that moves, and counts that do not fit.

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "c_test.h"

// Two arrays, one behind the other in one piece of memory.
struct arena {
  double* memory;
  int64_t counts[2];
  int moves_always;
};

static void* ResizeArena(struct arena* arena, int which, int64_t count) {
  const int64_t before = arena->counts[0];
  int64_t counts[2] = {before, arena->counts[1]};
  if (arena->memory != NULL && count == counts[which] && !arena->moves_always) {
    return arena->memory + (which == 0 ? 0 : before);
  }
  counts[which] = count;
  double* const memory =
      calloc((size_t)(counts[0] + counts[1] + 1), sizeof(double));
  for (int array = 0; array < 2 && arena->memory != NULL; ++array) {
    const int64_t kept = counts[array] < arena->counts[array]
                             ? counts[array]
                             : arena->counts[array];
    memcpy(memory + array * counts[0], arena->memory + array * before,
           (size_t)kept * sizeof(double));
  }
  free(arena->memory);
  arena->memory = memory;
  memcpy(arena->counts, counts, sizeof(counts));
  return memory + (which == 0 ? 0 : counts[0]);
}

static void* ResizeFirst(void* context, int64_t count) {
  return ResizeArena(context, 0, count);
}

static void* ResizeSecond(void* context, int64_t count) {
  return ResizeArena(context, 1, count);
}

// Rows of two keys whose memory moves when either grows or shrinks.
void TestMovingRows(const struct c_test* test) {
  struct arena arena = {NULL, {0, 0}, 0};
  int64_t a = 3 + test->rank, b = 40;
  const belay_rows first = {.dtype = BELAY_F64,
                            .count = &a,
                            .resize = ResizeFirst,
                            .context = &arena};
  const belay_rows second = {.dtype = BELAY_F64,
                             .count = &b,
                             .resize = ResizeSecond,
                             .context = &arena};
  belay_state* state = NULL;
  char dir[4096];
  strcpy(dir, PathOf(test, "moving_rows"));
  ResizeFirst(&arena, a);
  ResizeSecond(&arena, b);
  for (int64_t i = 0; i < a + b; ++i) arena.memory[i] = (double)i;
  belay_state_create(&state);
  belay_state_add_rows(state, "a", &first);
  belay_state_add_rows(state, "b", &second);
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_save(test->comm, dir, 1, state, NULL));
  // The second, the first or both have another count before the restore.
  for (int round = 0; round < 4; ++round) {
    a = round % 2 == 0 ? 3 + test->rank : 1;
    b = round / 2 == 0 ? 40 : 50;
    ResizeFirst(&arena, a);
    ResizeSecond(&arena, b);
    memset(arena.memory, 0, (size_t)(a + b) * sizeof(double));
    ExpectCode(__FILE__, __LINE__, BELAY_OK,
               belay_restore(test->comm, dir, 1, state, NULL, NULL));
    ExpectInt(__FILE__, __LINE__, 3 + test->rank, a);
    ExpectInt(__FILE__, __LINE__, 40, b);
    int64_t wrong = 0;
    for (int64_t i = 0; i < a + b; ++i) wrong += arena.memory[i] != (double)i;
    ExpectInt(__FILE__, __LINE__, 0, wrong);
  }
  arena.moves_always = test->rank == 0;
  ExpectCode(__FILE__, __LINE__, BELAY_FAILED_PRECONDITION,
             belay_save(test->comm, dir, 2, state, NULL));
  ExpectMessage(__FILE__, __LINE__,
                "rows \"a\": resize moves the rows each time it is called");
  belay_state_free(&state);
  free(arena.memory);
}

// A count is right after a restore that has failed, and where a key is new.
void TestCounts(const struct c_test* test) {
  struct arena arena = {NULL, {0, 0}, 0};
  double y[4] = {5, 6, 7, 8};
  int64_t a = 6, b = 2, restored = -7;
  belay_rows rows = {.dtype = BELAY_F64,
                     .count = &a,
                     .resize = ResizeFirst,
                     .context = &arena};
  belay_rows fixed = {
      .dtype = BELAY_F64, .count = &b, .capacity = 4, .data = y};
  belay_options* options = NULL;
  belay_state* state = NULL;
  char dir[4096];
  strcpy(dir, PathOf(test, "counts"));
  belay_state_create(&state);
  belay_state_add_rows(state, "a", &rows);
  belay_state_add_rows(state, "b", &fixed);
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_save(test->comm, dir, 1, state, NULL));
  belay_state_clear(state);
  fixed.count = &a;  // 6 and 2 are stored
  belay_state_add_rows(state, "a", &rows);
  belay_state_add_rows(state, "b", &fixed);
  a = 4;
  ExpectCode(__FILE__, __LINE__, BELAY_FAILED_PRECONDITION,
             belay_restore(test->comm, dir, 1, state, NULL, &restored));
  ExpectInt(__FILE__, __LINE__, 2, a);
  ExpectInt(__FILE__, __LINE__, -7, restored);

  belay_state_clear(state);  // room for 4 of 6
  rows.resize = NULL;
  rows.data = y;
  rows.capacity = 4;
  belay_state_add_rows(state, "a", &rows);
  rows.resize = ResizeSecond;
  belay_state_add_rows(state, "b", &rows);
  a = 0;
  ExpectCode(__FILE__, __LINE__, BELAY_FAILED_PRECONDITION,
             belay_restore(test->comm, dir, 1, state, NULL, NULL));
  ExpectInt(__FILE__, __LINE__, 1, a <= 4);

  belay_state_clear(state);
  belay_options_create(&options);
  belay_options_set(options, "missing", "ignore");
  rows.resize = ResizeFirst;
  belay_state_add_rows(state, "new", &fixed);
  rows.count = &b;
  belay_state_add_rows(state, "other", &rows);
  fixed.count = NULL;
  rows.count = &a;
  belay_state_add_rows(state, "a", &rows);
  a = 1;
  b = 3;
  ExpectCode(__FILE__, __LINE__, BELAY_FAILED_PRECONDITION,
             belay_restore(test->comm, dir, 1, state, options, NULL));
  ExpectMessage(__FILE__, __LINE__, "\"new\": it is not stored");
  ExpectMessage(__FILE__, __LINE__, "(need 6, found 4)");
  ExpectInt(__FILE__, __LINE__, 3, b);  // nothing is stored for it
  belay_options_free(&options);
  belay_state_free(&state);
  free(arena.memory);
}

// What is wrong with rows is told where they are added, or before a save.
void TestWrongRows(const struct c_test* test) {
  const int64_t wide[1] = {INT64_C(1) << 32};
  int64_t many = INT64_C(1) << 32, id = INT64_MIN;
  double x[4] = {0};
  belay_rows rows = {.dtype = BELAY_F64,
                     .ndim = 1,
                     .shape = wide,
                     .count = &many,
                     .capacity = INT64_MAX,
                     .data = x};
  belay_fields* fields = NULL;
  belay_state* state = NULL;
  belay_state_create(&state);
  belay_state_add_rows(state, "x", &rows);
  ExpectCode(__FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
             belay_save(test->comm, PathOf(test, "wrong"), 1, state, NULL));
  ExpectMessage(__FILE__, __LINE__, "(need 0 to 268435455, found 4294967296)");
  belay_state_clear(state);
  rows.ndim = 0;
  rows.capacity = 4;
  many = 1;
  belay_state_add_rows_by_id(state, "x", &rows);
  ExpectCode(__FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
             belay_save(test->comm, PathOf(test, "wrong"), 1, state, NULL));
  ExpectMessage(__FILE__, __LINE__, "there are no ids (need 1, found none)");
  belay_state_clear(state);
  rows.ids = &id;
  rows.first_id = 1;
  belay_state_add_rows_by_id(state, "x", &rows);
  ExpectCode(__FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
             belay_save(test->comm, PathOf(test, "wrong"), 1, state, NULL));
  ExpectMessage(__FILE__, __LINE__, "out of range");
  ExpectCode(__FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
             belay_state_add_rows(state, "x", &rows));
  ExpectMessage(__FILE__, __LINE__, "call belay_state_add_rows_by_id");
  rows.reserved[3] = 1;
  ExpectCode(__FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
             belay_state_add_rows_by_id(state, "x", &rows));
  ExpectMessage(__FILE__, __LINE__, "the member reserved");
  rows.reserved[3] = 0;
  rows.total = -1;
  ExpectCode(__FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
             belay_state_add_rows_by_id(state, "x", &rows));
  ExpectMessage(__FILE__, __LINE__, "negative total (found -1)");
  belay_state_clear(state);
  belay_fields_create(8, &fields);
  rows =
      (belay_rows){.fields = fields, .count = &many, .capacity = 4, .data = x};
  ExpectCode(__FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
             belay_state_add_rows(state, "x", &rows));
  ExpectMessage(__FILE__, __LINE__, "no fields");
  belay_fields_add(fields, "a b", BELAY_F64, 0, NULL, 0);
  ExpectCode(__FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
             belay_state_add_rows(state, "x", &rows));
  ExpectMessage(__FILE__, __LINE__, "may only have");
  belay_fields_free(&fields);
  belay_state_free(&state);
}
