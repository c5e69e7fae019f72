// Rows, of numbers and of structs, with and without ids.

#include <mpi.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "c_test.h"

enum { kMax = 32 };

static const int64_t kThree[1] = {3};

// Particles: three arrays with one count, in memory for kMax of them.
struct particles {
  int32_t count;
  int64_t id[kMax];
  double x[kMax][3];
  double* mass;  // allocated anew for any number
  int64_t mass_capacity;
};

static void* ResizeMass(void* context, int64_t count) {
  struct particles* const all = context;
  if (count > all->mass_capacity) {
    all->mass = realloc(all->mass, (size_t)count * sizeof(double));
    all->mass_capacity = count;
  }
  return all->mass;
}

// Rank r has r + 2 of them, or none if it is the second of several.
static int64_t CountOf(int rank) { return rank == 1 ? 0 : rank + 2; }

static void FillParticles(struct particles* all, int rank) {
  int64_t first = 0;
  for (int r = 0; r < rank; ++r) first += CountOf(r);
  all->count = (int32_t)CountOf(rank);
  ResizeMass(all, all->count);
  for (int32_t i = 0; i < all->count; ++i) {
    all->id[i] = first + i;
    all->mass[i] = 0.5 * (double)(first + i);
    for (int k = 0; k < 3; ++k) all->x[i][k] = (double)(10 * (first + i) + k);
  }
}

static int64_t CountWrongParticles(const struct particles* all, int64_t first) {
  int64_t wrong = 0;
  for (int32_t i = 0; i < all->count; ++i) {
    wrong += all->id[i] != first + i;
    wrong += all->mass[i] != 0.5 * (double)(first + i);
    for (int k = 0; k < 3; ++k) {
      wrong += all->x[i][k] != (double)(10 * (first + i) + k);
    }
  }
  return wrong;
}

static belay_state* DescribeParticles(struct particles* all, int64_t capacity) {
  belay_state* state = NULL;
  const belay_rows id = {.dtype = BELAY_I64,
                         .count32 = &all->count,
                         .capacity = capacity,
                         .data = all->id};
  const belay_rows x = {.dtype = BELAY_F64,
                        .ndim = 1,
                        .shape = kThree,
                        .count32 = &all->count,
                        .capacity = capacity,
                        .data = all->x};
  const belay_rows mass = {.dtype = BELAY_F64,
                           .count32 = &all->count,
                           .resize = ResizeMass,
                           .context = all};
  belay_state_create(&state);
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_state_add_rows(state, "particles/id", &id));
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_state_add_rows(state, "particles/x", &x));
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_state_add_rows(state, "particles/mass", &mass));
  return state;
}

// On the ranks of `comm`, other ones than have saved: even parts.
static void RestoreOnOthers(belay_comm* comm, const char* dir, int64_t total) {
  struct particles all = {0};
  int rank = 0, size = 0;
  int64_t count = 0;
  belay_comm_rank(comm, &rank);
  belay_comm_size(comm, &size);
  const int64_t needed = total / size + (rank < total % size);
  belay_state* state = DescribeParticles(&all, kMax);
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_count_rows(comm, dir, 1, "particles/x", &count));
  ExpectInt(__FILE__, __LINE__, needed, count);
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_restore(comm, dir, 1, state, NULL, NULL));
  ExpectInt(__FILE__, __LINE__, needed, all.count);
  ExpectInt(__FILE__, __LINE__, 0,
            CountWrongParticles(&all, all.count > 0 ? all.id[0] : 0));
  belay_state_free(&state);
  free(all.mass);
}

// A manager sets the count as well, and saves what is in the state then.
static void TestManagedRows(const struct c_test* test, const char* dir,
                            belay_state* state, struct particles* all) {
  belay_manager* manager = NULL;
  int64_t restored = BELAY_NO_STEP;
  int saved = 0;
  const int32_t count = all->count;
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_manager_create(test->comm, state, dir, NULL, &manager));
  all->count = 0;
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_manager_restore_latest(manager, NULL, &restored));
  ExpectInt(__FILE__, __LINE__, 2, restored);
  ExpectInt(__FILE__, __LINE__, count + 1, all->count);
  --all->count;
  belay_state_clear(state);
  const belay_rows id = {.dtype = BELAY_I64,
                         .count32 = &all->count,
                         .capacity = kMax,
                         .data = all->id};
  belay_state_add_rows(state, "particles/id", &id);
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_manager_save(manager, 3, 1, &saved));
  ExpectInt(__FILE__, __LINE__, 1, saved);
  all->count = 0;
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_manager_restore(manager, 3, NULL));
  ExpectInt(__FILE__, __LINE__, count, all->count);
  ExpectCode(__FILE__, __LINE__, BELAY_OK, belay_manager_close(&manager));
}

// A rank that gets more rows than it has room for is an error on all.
static void TestTooManyRows(const struct c_test* test, const char* dir) {
  struct particles all = {0};
  const int64_t needed = CountOf(test->rank);
  belay_state* state =
      DescribeParticles(&all, test->rank == 0 ? needed - 1 : kMax);
  ExpectCode(__FILE__, __LINE__, BELAY_FAILED_PRECONDITION,
             belay_restore(test->comm, dir, 1, state, NULL, NULL));
  ExpectMessage(__FILE__, __LINE__,
                "restore \"particles/id\": the range of this rank does not fit "
                "its number of rows (need 2, found 1)");
  belay_state_free(&state);
  free(all.mass);
  all.mass = NULL;
  all.mass_capacity = 0;
  all.count = test->rank == 0 ? -1 : 0;
  state = DescribeParticles(&all, kMax);
  ExpectCode(__FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
             belay_save(test->comm, dir, 2, state, NULL));
  ExpectMessage(__FILE__, __LINE__,
                "rows \"particles/id\": invalid number of rows");
  belay_state_free(&state);
  free(all.mass);
}

void TestRows(const struct c_test* test) {
  struct particles out = {0}, in = {0};
  char dir[4096];
  MPI_Comm some = MPI_COMM_NULL;
  belay_comm* others = NULL;
  int64_t total = 0, first = 0, count = 0;
  for (int r = 0; r < test->size; ++r) {
    if (r < test->rank) first += CountOf(r);
    total += CountOf(r);
  }
  strcpy(dir, PathOf(test, "rows"));
  FillParticles(&out, test->rank);
  belay_state* state = DescribeParticles(&out, kMax);
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_save(test->comm, dir, 0, state, NULL));
  ++out.count;  // each save takes those that are there then
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_save(test->comm, dir, 2, state, NULL));
  --out.count;
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_save(test->comm, dir, 1, state, NULL));
  belay_state_free(&state);

  state = DescribeParticles(&in, kMax);
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_restore(test->comm, dir, 1, state, NULL, NULL));
  ExpectInt(__FILE__, __LINE__, out.count, in.count);
  ExpectInt(__FILE__, __LINE__, 0, CountWrongParticles(&in, first));
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_count_rows(test->comm, dir, BELAY_LATEST_STEP,
                              "particles/id", &count));
  ExpectInt(__FILE__, __LINE__, out.count + 1, count);
  ExpectCode(__FILE__, __LINE__, BELAY_NOT_FOUND,
             belay_count_rows(test->comm, dir, 1, "particles/y", &count));
  ExpectCode(__FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
             belay_count_rows(test->comm, test->rank == 0 ? NULL : dir, 1,
                              "particles/x", &count));
  TestManagedRows(test, dir, state, &in);
  belay_state_free(&state);
  TestTooManyRows(test, dir);

  const int is_one = test->rank < (test->size + 1) / 2;
  MPI_Comm_split(MPI_COMM_WORLD, is_one, test->rank, &some);
  belay_comm_create(some, &others);
  if (is_one) RestoreOnOthers(others, dir, total);
  belay_comm_free(&others);
  MPI_Comm_free(&some);
  free(out.mass);
  free(in.mass);
}

// Memory for one row, and no more.
static void* ResizeOne(void* context, int64_t count) {
  return count <= 1 ? context : NULL;
}

// What a function does not give is an error of the save or of the restore.
static void TestNoMemory(const struct c_test* test, const char* dir) {
  double y = 1;
  int64_t count = 1;
  const belay_rows rows = {
      .dtype = BELAY_F64, .count = &count, .resize = ResizeOne, .context = &y};
  belay_state* state = NULL;
  belay_state_create(&state);
  belay_state_add_rows(state, "y", &rows);
  ExpectCode(__FILE__, __LINE__, BELAY_RESOURCE_EXHAUSTED,
             belay_restore(test->comm, dir, 1, state, NULL, NULL));
  ExpectMessage(__FILE__, __LINE__, "\"y\"");
  ExpectInt(__FILE__, __LINE__, 1, count);
  count = 2;
  ExpectCode(__FILE__, __LINE__, BELAY_RESOURCE_EXHAUSTED,
             belay_save(test->comm, dir, 9, state, NULL));
  ExpectMessage(__FILE__, __LINE__,
                "rows \"y\": resize returned null (need memory for 2 rows)");
  count = 1;
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_save(test->comm, dir, 9, state, NULL));
  belay_state_free(&state);
}

// Arrays of one count that were saved with several.
void TestSharedCounts(const struct c_test* test) {
  int64_t a = 2, b = 3;
  double x[4] = {1, 2, 3, 4}, y[4] = {5, 6, 7, 8};
  belay_rows rows = {.dtype = BELAY_F64, .count = &a, .capacity = 4, .data = x};
  belay_state* state = NULL;
  char dir[4096];
  strcpy(dir, PathOf(test, "shared_counts"));
  belay_state_create(&state);
  belay_state_add_rows(state, "x", &rows);
  rows.count = &b;
  rows.data = y;
  belay_state_add_rows(state, "y", &rows);
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_save(test->comm, dir, 1, state, NULL));
  ExpectCode(__FILE__, __LINE__, BELAY_OK, belay_state_clear(state));
  rows.count = &a;
  rows.data = x;
  belay_state_add_rows(state, "x", &rows);
  rows.data = y;
  belay_state_add_rows(state, "y", &rows);
  ExpectCode(__FILE__, __LINE__, BELAY_FAILED_PRECONDITION,
             belay_restore(test->comm, dir, 1, state, NULL, NULL));
  ExpectMessage(__FILE__, __LINE__,
                "restore \"y\": it shares its count with \"x\", and this rank "
                "gets another number of rows of it (need 2, found 3)");
  belay_state_clear(state);
  rows.count = NULL;  // always as many as there is room for
  rows.capacity = 3;
  belay_state_add_rows(state, "y", &rows);
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_restore(test->comm, dir, 1, state, NULL, NULL));
  rows.capacity = 4;
  belay_state_clear(state);
  belay_state_add_rows(state, "y", &rows);
  ExpectCode(__FILE__, __LINE__, BELAY_FAILED_PRECONDITION,
             belay_restore(test->comm, dir, 1, state, NULL, NULL));
  ExpectMessage(__FILE__, __LINE__, "(need 3, found 4)");
  belay_state_clear(state);
  TestNoMemory(test, dir);
  belay_state_clear(state);
  belay_state_add_scalar(state, "z", BELAY_I64, &a);
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_save(test->comm, dir, 2, state, NULL));
  ExpectCode(__FILE__, __LINE__, BELAY_FAILED_PRECONDITION,
             belay_count_rows(test->comm, dir, 2, "z", &b));
  rows.data = NULL;
  ExpectCode(__FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
             belay_state_add_rows(state, "y", &rows));
  ExpectCode(__FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
             belay_state_add_rows(state, "y", NULL));
  belay_state_free(&state);
}

struct cell {
  int8_t is_new;
  double t;
  float v[2];
  void* next;  // not stored
};

static belay_fields* FieldsOfCell(void) {
  const int64_t two[1] = {2};
  belay_fields* fields = NULL;
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_fields_create(sizeof(struct cell), &fields));
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_fields_add(fields, "t", BELAY_F64, 0, NULL,
                              offsetof(struct cell, t)));
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_fields_add(fields, "v", BELAY_F32, 1, two,
                              offsetof(struct cell, v)));
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_fields_add(fields, "new", BELAY_I8, 0, NULL,
                              offsetof(struct cell, is_new)));
  ExpectCode(__FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
             belay_fields_add(fields, "outside", BELAY_F64, 0, NULL,
                              sizeof(struct cell) - 4));
  ExpectMessage(__FILE__, __LINE__, "\"outside\"");
  return fields;
}

// Cells with numbers from 1 on, which each run gives to other ranks; a restore
// gives the first cell to all.
void TestRowsById(const struct c_test* test) {
  struct cell cells[kMax], in[kMax];
  int32_t ids[kMax], count = 0;
  int64_t total = 3 * test->size + 1;
  char dir[4096];
  belay_state* state = NULL;
  belay_fields* fields = FieldsOfCell();
  belay_rows rows = {.fields = fields,
                     .count32 = &count,
                     .capacity = kMax,
                     .data = cells,
                     .ids32 = ids,
                     .first_id = 1,
                     .total = total};
  memset(cells, 0, sizeof(cells));
  memset(in, 0, sizeof(in));
  strcpy(dir, PathOf(test, "cells"));
  for (int32_t id = (int32_t)total; id >= 1; --id) {
    if (id % test->size != test->rank) continue;
    ids[count] = id;
    cells[count].t = 0.25 * id;
    cells[count].v[1] = (float)id;
    cells[count++].is_new = (int8_t)(id % 2);
  }
  belay_state_create(&state);
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_state_add_rows_by_id(state, "cells", &rows));
  belay_fields_free(&fields);  // the state has a copy
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_save(test->comm, dir, 1, state, NULL));
  belay_state_clear(state);

  fields = FieldsOfCell();
  rows.fields = fields;
  rows.data = in;
  in[0].next = in;
  ids[0] = 1;
  count = 1;
  for (int32_t id = 1; id <= total; ++id) {
    if ((id - 1) * test->size / total == test->rank) ids[count++] = id;
  }
  belay_state_add_rows_by_id(state, "cells", &rows);
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_restore(test->comm, dir, 1, state, NULL, NULL));
  for (int32_t i = 0; i < count; ++i) {
    ExpectInt(__FILE__, __LINE__, 1, in[i].t == 0.25 * ids[i]);
    ExpectInt(__FILE__, __LINE__, 1, in[i].v[1] == (float)ids[i]);
    ExpectInt(__FILE__, __LINE__, ids[i] % 2, in[i].is_new);
  }
  ExpectInt(__FILE__, __LINE__, 1, in[0].next == in);
  // The first cell has two owners now.
  ExpectCode(__FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
             belay_save(test->comm, dir, 2, state, NULL));
  ids[0] = 0;
  ExpectCode(__FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
             belay_restore(test->comm, dir, 1, state, NULL, NULL));
  ExpectMessage(__FILE__, __LINE__, "out of range");
  belay_fields_free(&fields);
  belay_state_free(&state);
}
