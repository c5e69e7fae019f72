// Ghost cells, layouts on a mesh, log messages and verification.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "c_test.h"

enum { kPlateRows = 8, kPlateColumns = 6 };

static double PlateValueAt(int64_t i, int64_t j) {
  return (double)(100 * i + j);
}

// Rows of a plate with one ghost cell on each side; columns are periodic.
void TestGhosts(const struct c_test* test) {
  const int64_t global[2] = {kPlateRows, kPlateColumns}, one[2] = {1, 1};
  const int64_t begin = kPlateRows * test->rank / test->size;
  const int64_t rows = kPlateRows * (test->rank + 1) / test->size - begin;
  const int64_t offset[2] = {begin, 0}, shape[2] = {rows, kPlateColumns};
  const int periodic[2] = {0, 1};
  const belay_ghosts ghosts = {.before = one, .periodic = periodic};
  const int64_t negative[2] = {-1, 0};
  const belay_ghosts bad = {.before = negative};
  const belay_ghosts later = {.before = one, .reserved = {0, 1}};
  const int64_t width = kPlateColumns + 2;
  double* const u = calloc((size_t)((rows + 2) * width), sizeof(double));
  char dir[4096];
  belay_state* state = NULL;
  strcpy(dir, PathOf(test, "ghosts"));
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < kPlateColumns; ++j) {
      u[(i + 1) * width + j + 1] = PlateValueAt(begin + i, j);
    }
  }
  belay_state_create(&state);
  ExpectCode(
      __FILE__, __LINE__, BELAY_OK,
      belay_state_add_piece_with_ghosts(state, "u", BELAY_F64, 2, global,
                                        offset, shape, NULL, &ghosts, u));
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_save(test->comm, dir, 1, state, NULL));
  for (int64_t i = 0; i < (rows + 2) * width; ++i) u[i] = -1;
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_restore(test->comm, dir, 1, state, NULL, NULL));
  for (int64_t i = -1; i <= rows; ++i) {
    for (int64_t j = -1; j <= kPlateColumns; ++j) {
      const int is_inside = begin + i >= 0 && begin + i < kPlateRows;
      const double needed =
          is_inside
              ? PlateValueAt(begin + i, (j + kPlateColumns) % kPlateColumns)
              : -1;
      ExpectInt(__FILE__, __LINE__, (int64_t)needed,
                (int64_t)u[(i + 1) * width + j + 1]);
    }
  }
  belay_state_clear(state);
  ExpectCode(__FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
             belay_state_add_piece_with_ghosts(state, "u", BELAY_F64, 2, global,
                                               offset, shape, NULL, &bad, u));
  ExpectCode(__FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
             belay_state_add_piece_with_ghosts(state, "u", BELAY_F64, 2, global,
                                               offset, shape, NULL, &later, u));
  ExpectMessage(__FILE__, __LINE__, "the member reserved");
  belay_state_free(&state);
  free(u);
}

// The layout in which the ranks cut an array by columns; two ranks of a longer
// mesh hold replicas.
static void TestTextsOfLayouts(void) {
  const int64_t global[2] = {7, 5};
  int64_t offset[2], shape[2];
  char text[64];
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_layout_box("[x,y] on x=2,y=2", 2, global, 3, offset, shape));
  ExpectInt(__FILE__, __LINE__, 4332,
            1000 * offset[0] + 100 * offset[1] + 10 * shape[0] + shape[1]);
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_layout_on_ranks("[x,-] on x=2,y=4", 6, text, sizeof(text)));
  ExpectText(__FILE__, __LINE__, "[x,-] on x=3,y=2", text);
  ExpectCode(__FILE__, __LINE__, BELAY_OUT_OF_RANGE,
             belay_layout_on_ranks("[x,-] on x=2,y=4", 6, text, 16));
  ExpectCode(__FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
             belay_layout_on_ranks("[x,-] on x=2,y=4", 0, text, sizeof(text)));
  ExpectCode(__FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
             belay_layout_on_ranks("[x", 6, text, sizeof(text)));
  ExpectCode(__FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
             belay_layout_box("[x,y] on x=2,y=2", 2, global, 4, NULL, NULL));
  ExpectCode(__FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
             belay_layout_box(NULL, 2, global, 0, NULL, NULL));
}

// Rows of a plate become columns.
void TestLayouts(const struct c_test* test) {
  const int64_t global[2] = {kPlateRows, kPlateColumns};
  int64_t offset[2], shape[2];
  double u[kPlateRows * kPlateColumns];
  char rows[64], columns[64], dir[4096];
  belay_state* state = NULL;
  TestTextsOfLayouts();
  strcpy(dir, PathOf(test, "layouts"));
  ExpectCode(
      __FILE__, __LINE__, BELAY_OK,
      belay_layout_on_ranks("[r,-] on r=1", test->size, rows, sizeof(rows)));
  snprintf(columns, sizeof(columns), "[-,c] on c=%d", test->size);
  belay_layout_box(rows, 2, global, test->rank, offset, shape);
  for (int64_t i = 0; i < shape[0] * kPlateColumns; ++i) {
    u[i] = PlateValueAt(offset[0] + i / kPlateColumns, i % kPlateColumns);
  }
  belay_state_create(&state);
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_state_add_laid_out(state, "u", BELAY_F64, rows, 2, global,
                                      test->rank, NULL, NULL, u));
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_save(test->comm, dir, 1, state, NULL));
  belay_state_clear(state);
  belay_layout_box(columns, 2, global, test->rank, offset, shape);
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_state_add_laid_out(state, "u", BELAY_F64, columns, 2, global,
                                      test->rank, NULL, NULL, u));
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_restore(test->comm, dir, 1, state, NULL, NULL));
  for (int64_t i = 0; i < kPlateRows * shape[1]; ++i) {
    ExpectInt(__FILE__, __LINE__,
              (int64_t)PlateValueAt(i / shape[1], offset[1] + i % shape[1]),
              (int64_t)u[i]);
  }
  belay_state_clear(state);
  ExpectCode(__FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
             belay_state_add_laid_out(state, "u", BELAY_F64, "[x]", 2, global,
                                      test->rank, NULL, NULL, u));
  ExpectMessage(__FILE__, __LINE__, "add \"u\": ");
  belay_state_free(&state);
}

// A mesh of more or fewer ranks than there are.
static void TestMeshOf(const struct c_test* test, int ranks) {
  const int64_t global[1] = {24};
  double u[24] = {0};
  char layout[64], message[256], dir[4096];
  belay_state* state = NULL;
  strcpy(dir, PathOf(test, "mesh"));
  snprintf(layout, sizeof(layout), "[-] on x=%d", ranks);
  belay_state_create(&state);
  ExpectCode(__FILE__, __LINE__,
             test->rank < ranks ? BELAY_OK : BELAY_INVALID_ARGUMENT,
             belay_state_add_laid_out(state, "u", BELAY_F64, layout, 1, global,
                                      test->rank, NULL, NULL, u));
  snprintf(message, sizeof(message),
           "\"u\": the layout %s is for another number of ranks (need", layout);
  for (int restores = 0; restores < 2; ++restores) {
    ExpectCode(__FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
               restores ? belay_restore(test->comm, dir, BELAY_LATEST_STEP,
                                        state, NULL, NULL)
                        : belay_save(test->comm, dir, 1, state, NULL));
    ExpectMessage(__FILE__, __LINE__, message);
    if (ranks > test->size) {
      ExpectMessage(__FILE__, __LINE__, "belay_layout_on_ranks makes one");
    }
  }
  belay_state_free(&state);
}

void TestMeshes(const struct c_test* test) {
  TestMeshOf(test, test->size + 1);
  TestMeshOf(test, 8 * test->size);
  if (test->size > 1) TestMeshOf(test, test->size - 1);
}

struct messages {
  int count;
  int worst;
  char last[512];
};

static void TakeMessage(void* context, int level, const char* message) {
  struct messages* const all = context;
  ++all->count;
  if (level > all->worst) all->worst = level;
  snprintf(all->last, sizeof(all->last), "%s", message);
}

void TestLog(const struct c_test* test) {
  struct messages all = {0, -1, ""};
  double value = 1;
  belay_state* state = NULL;
  char dir[4096];
  strcpy(dir, PathOf(test, "log"));
  belay_state_create(&state);
  belay_state_add_scalar(state, "value", BELAY_F64, &value);
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_set_log(TakeMessage, &all, BELAY_LOG_INFO));
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_save(test->comm, dir, 1, state, NULL));
  if (test->rank == 0) {
    ExpectInt(__FILE__, __LINE__, 1, all.count);
    ExpectInt(__FILE__, __LINE__, BELAY_LOG_INFO, all.worst);
    ExpectInt(__FILE__, __LINE__, 1, strstr(all.last, "step_00000001") != NULL);
  } else {
    ExpectInt(__FILE__, __LINE__, 0, all.count);
  }
  all.count = 0;
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_set_log(TakeMessage, &all, BELAY_LOG_ERROR));
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_restore(test->comm, dir, 1, state, NULL, NULL));
  ExpectInt(__FILE__, __LINE__, 0, all.count);
  ExpectCode(__FILE__, __LINE__, BELAY_ALREADY_EXISTS,
             belay_save(test->comm, dir, 1, state, NULL));
  ExpectInt(__FILE__, __LINE__, test->rank == 0 ? 1 : 0, all.count);
  ExpectCode(__FILE__, __LINE__, BELAY_OK, belay_set_log(NULL, NULL, 0));
  ExpectCode(__FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
             belay_set_log(TakeMessage, &all, 4));
  belay_state_free(&state);
}

static void TakeProgress(void* context, int64_t done, int64_t total) {
  int64_t* const last = context;
  ExpectInt(__FILE__, __LINE__, 1, done >= last[0] && done <= total);
  last[0] = done;
  last[1] = total;
}

// A step that is sound, and one of whose bytes is changed.
void TestVerify(const struct c_test* test) {
  int64_t last[2] = {0, -1};
  double values[64];
  const int64_t shape = 64;
  belay_state* state = NULL;
  char dir[4096], file[8192];
  strcpy(dir, PathOf(test, "verify"));
  for (int i = 0; i < 64; ++i) values[i] = 77;
  belay_state_create(&state);
  belay_state_add_array(state, "values", BELAY_F64, 1, &shape, NULL, values);
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_save(test->comm, dir, 1, state, NULL));
  belay_state_clear(state);
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_save(test->comm, PathOf(test, "nothing"), 1, state, NULL));
  belay_state_free(&state);
  if (test->rank != 0) return;
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_verify(dir, TakeProgress, last));
  ExpectInt(__FILE__, __LINE__, last[1], last[0]);
  ExpectInt(__FILE__, __LINE__, 1, last[1] >= (int64_t)sizeof(values));
  snprintf(file, sizeof(file), "%s/step_00000001/data_00000_of_00001.h5", dir);
  FILE* const data = fopen(file, "r+b");
  ExpectInt(__FILE__, __LINE__, 0, fseek(data, -1, SEEK_END));
  fputc(1, data);
  fclose(data);
  ExpectCode(__FILE__, __LINE__, BELAY_DATA_LOSS,
             belay_verify(dir, NULL, NULL));
  ExpectMessage(__FILE__, __LINE__, "\"values\"");
  ExpectCode(__FILE__, __LINE__, BELAY_NOT_FOUND,
             belay_verify(PathOf(test, "no_such_run"), NULL, NULL));
  last[0] = 0;
  last[1] = -1;  // a step without values
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_verify(PathOf(test, "nothing"), TakeProgress, last));
  ExpectInt(__FILE__, __LINE__, 0, last[1]);
}

void TestPieces(const struct c_test* test) {
  const int64_t begin = kPlateRows * test->rank / test->size;
  const int64_t rows = kPlateRows * (test->rank + 1) / test->size - begin;
  belay_piece plate = {.ndim = 2,
                       .global_shape = {kPlateRows, kPlateColumns},
                       .offset = {begin, 0},
                       .shape = {rows, kPlateColumns},
                       .ghosts_before = {1, 0},
                       .ghosts_after = {1, 0}};
  const size_t count = (size_t)((rows + 2) * kPlateColumns);
  double* const u = calloc(count, sizeof(double));
  double* const v = calloc(count, sizeof(double));
  char dir[4096];
  belay_state* state = NULL;
  strcpy(dir, PathOf(test, "pieces"));
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < kPlateColumns; ++j) {
      u[(i + 1) * kPlateColumns + j] = PlateValueAt(begin + i, j);
      v[(i + 1) * kPlateColumns + j] = -PlateValueAt(begin + i, j);
    }
  }
  belay_state_create(&state);
  ExpectCode(
      __FILE__, __LINE__, BELAY_OK,
      belay_state_add_pieces(state, BELAY_F64, &plate, "u", u, "v", v, NULL));
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_save(test->comm, dir, 1, state, NULL));
  for (size_t i = 0; i < count; ++i) u[i] = v[i] = 0;
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_restore(test->comm, dir, 1, state, NULL, NULL));
  for (int64_t i = -1; i <= rows; ++i) {
    if (begin + i < 0 || begin + i >= kPlateRows) continue;
    for (int64_t j = 0; j < kPlateColumns; ++j) {
      const int64_t at = (i + 1) * kPlateColumns + j;
      ExpectInt(__FILE__, __LINE__, 1,
                u[at] == PlateValueAt(begin + i, j) && v[at] == -u[at]);
    }
  }
  belay_state_clear(state);
  plate.ndim = 9;
  ExpectCode(__FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
             belay_state_add_pieces(state, BELAY_F64, &plate, "u", u, NULL));
  ExpectMessage(__FILE__, __LINE__, "need 0 to 8, found 9");
  ExpectCode(__FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
             belay_save(test->comm, dir, 2, state, NULL));
  belay_state_free(&state);
  belay_state_create(&state);
  plate.ndim = 2;
  plate.reserved[1] = 1;
  ExpectCode(__FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
             belay_state_add_pieces(state, BELAY_F64, &plate, "u", u, NULL));
  ExpectCode(__FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
             belay_state_add_pieces(state, BELAY_F64, NULL, "u", u, NULL));
  belay_state_free(&state);
  free(v);
  free(u);
}
