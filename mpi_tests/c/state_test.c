// Arrays, pieces, values of each rank and strings, saved and restored.

#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "c_test.h"

enum { kRows = 7, kColumns = 5 };

// A cut of a table by rows or by columns, inside memory with a border.
struct piece {
  int64_t offset[2];
  int64_t shape[2];
  int64_t strides[2];
  double* memory;
  double* first;  // element of the piece
};

static struct piece Cut(const struct c_test* test, int axis, int border) {
  const int64_t lengths[2] = {kRows, kColumns};
  const int64_t begin = lengths[axis] * test->rank / test->size;
  const int64_t end = lengths[axis] * (test->rank + 1) / test->size;
  struct piece piece = {{0, 0}, {kRows, kColumns}, {0, 1}, NULL, NULL};
  piece.offset[axis] = begin;
  piece.shape[axis] = end - begin;
  piece.strides[0] = piece.shape[1] + 2 * border;
  piece.memory =
      calloc((size_t)((piece.shape[0] + 2 * border) * piece.strides[0]),
             sizeof(double));
  piece.first = piece.memory + border * piece.strides[0] + border;
  return piece;
}

static double ValueAt(const struct piece* piece, int64_t i, int64_t j) {
  return (double)((piece->offset[0] + i) * 100 + piece->offset[1] + j) + 0.5;
}

static void Fill(struct piece* piece) {
  for (int64_t i = 0; i < piece->shape[0]; ++i) {
    for (int64_t j = 0; j < piece->shape[1]; ++j) {
      piece->first[i * piece->strides[0] + j] = ValueAt(piece, i, j);
    }
  }
}

static int64_t CountWrong(const struct piece* piece) {
  int64_t wrong = 0;
  for (int64_t i = 0; i < piece->shape[0]; ++i) {
    for (int64_t j = 0; j < piece->shape[1]; ++j) {
      wrong += piece->first[i * piece->strides[0] + j] != ValueAt(piece, i, j);
    }
  }
  return wrong;
}

static int AddPiece(belay_state* state, const struct piece* piece,
                    int has_border) {
  const int64_t global[2] = {kRows, kColumns};
  return belay_state_add_piece(
      state, "model/table", BELAY_F64, 2, global, piece->offset, piece->shape,
      has_border ? piece->strides : NULL, piece->first);
}

// Rows inside a border are restored as dense columns, and the other values
// beside them.
// What each rank has computed for itself, with another last bit.
void TestFromRank0(const struct c_test* test) {
  const int64_t shape[2] = {2, 2}, apart[2] = {1, 3};
  double dt = 0, norms[6] = {0};
  char dir[4096];
  belay_state* state = NULL;
  strcpy(dir, PathOf(test, "from_rank0"));
  belay_state_create(&state);
  ExpectCode(
      __FILE__, __LINE__, BELAY_OK,
      belay_state_add_from_rank0(state, "dt", BELAY_F64, 0, NULL, NULL, &dt));
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_state_add_from_rank0(state, "norms", BELAY_F64, 2, shape,
                                        apart, norms));
  for (int step = 1; step <= 3; ++step) {
    dt = 0.25 * (1 + test->rank * 0x1p-52);
    for (int i = 0; i < 6; ++i) norms[i] = 10 * test->rank + i;
    ExpectCode(__FILE__, __LINE__, BELAY_OK,
               belay_save(test->comm, dir, step, state, NULL));
    dt = -1;
    for (int i = 0; i < 6; ++i) norms[i] = -1;
    ExpectCode(__FILE__, __LINE__, BELAY_OK,
               belay_restore(test->comm, dir, step, state, NULL, NULL));
    ExpectInt(__FILE__, __LINE__, 1, dt == 0.25);
    for (int i = 0; i < 6; ++i) {
      ExpectInt(__FILE__, __LINE__, i % 3 == 2 ? -1 : i, (int64_t)norms[i]);
    }
  }
  ExpectCode(__FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
             belay_state_add_from_rank0(state, "none", BELAY_F64, 0, NULL, NULL,
                                        NULL));
  belay_state_free(&state);
  // The error of other values names it.
  belay_state_create(&state);
  dt = 0.25 * (1 + test->rank * 0x1p-52);
  belay_state_add_scalar(state, "dt", BELAY_F64, &dt);
  if (test->size > 1) {
    ExpectCode(__FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
               belay_save(test->comm, dir, 9, state, NULL));
    ExpectMessage(__FILE__, __LINE__, "by belay_state_add_from_rank0");
  }
  belay_state_free(&state);
}

void TestStates(const struct c_test* test) {
  struct piece rows = Cut(test, 0, 1), columns = Cut(test, 1, 0);
  const int64_t shape[3] = {2, 1, 3}, apart[3] = {1, 6, 2};
  int32_t array[6] = {1, 2, 3, 4, 5, 6}, array2[6] = {0};
  float complex_number[2] = {1.5F, -2}, complex_number2[2] = {0, 0};
  int64_t step = 41, step2 = 0, restored = 0;
  uint16_t own[4] = {0}, own2[4] = {0};
  belay_state *out = NULL, *in = NULL;
  Fill(&rows);
  for (int i = 0; i < 4; ++i) own[i] = (uint16_t)(10 * test->rank + i);
  ExpectCode(__FILE__, __LINE__, BELAY_OK, belay_state_create(&out));
  ExpectCode(__FILE__, __LINE__, BELAY_OK, AddPiece(out, &rows, 1));
  belay_state_add_array(out, "array", BELAY_I32, 3, shape, NULL, array);
  belay_state_add_scalar(out, "complex", BELAY_C64, complex_number);
  belay_state_add_scalar(out, "step", BELAY_I64, &step);
  belay_state_add_per_rank(out, "own", BELAY_U16, 4 - test->rank % 2, own,
                           BELAY_OTHER_RANKS_ERROR);
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_save(test->comm, test->dir, 3, out, NULL));

  belay_state_create(&in);
  ExpectCode(__FILE__, __LINE__, BELAY_OK, AddPiece(in, &columns, 0));
  belay_state_add_array(in, "array", BELAY_I32, 3, shape, apart, array2);
  belay_state_add_scalar(in, "complex", BELAY_C64, complex_number2);
  belay_state_add_scalar(in, "step", BELAY_I64, &step2);
  belay_state_add_per_rank(in, "own", BELAY_U16, 4 - test->rank % 2, own2,
                           BELAY_OTHER_RANKS_ERROR);
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_restore(test->comm, test->dir, BELAY_LATEST_STEP, in, NULL,
                           &restored));
  ExpectInt(__FILE__, __LINE__, 3, restored);
  ExpectInt(__FILE__, __LINE__, 0, CountWrong(&columns));
  for (int i = 0; i < 6; ++i) {  // column-major
    ExpectInt(__FILE__, __LINE__, array[i], array2[i / 3 + 2 * (i % 3)]);
  }
  ExpectInt(__FILE__, __LINE__, 0,
            memcmp(complex_number, complex_number2, sizeof(complex_number)));
  ExpectInt(__FILE__, __LINE__, 41, step2);
  ExpectInt(__FILE__, __LINE__, 0, memcmp(own, own2, 3 * sizeof(own[0])));
  ExpectInt(__FILE__, __LINE__, test->rank % 2 ? 0 : own[3], own2[3]);
  belay_state_free(&out);
  belay_state_free(&in);
  ExpectInt(__FILE__, __LINE__, 1, in == NULL && out == NULL);
  free(rows.memory);
  free(columns.memory);
}

// A string of C, one of Fortran, and one that is too long for its buffer.
void TestStrings(const struct c_test* test) {
  char name[16] = "a plate", title[8] = {'t', 'w', 'o', ' ', 'w'};
  char name2[16] = "something else", title2[8], narrow[3] = "";
  char dir[4096];
  belay_state *out = NULL, *in = NULL;
  strcpy(dir, PathOf(test, "strings"));
  memset(title + 5, ' ', 3);
  belay_state_create(&out);
  belay_state_add_string(out, "name", name, sizeof(name));
  belay_state_add_padded_string(out, "title", title, sizeof(title));
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_save(test->comm, dir, 0, out, NULL));
  strcpy(name, "a longer plate");  // each save takes what is there then
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_save(test->comm, dir, 1, out, NULL));

  belay_state_create(&in);
  belay_state_add_string(in, "name", name2, sizeof(name2));
  belay_state_add_padded_string(in, "title", title2, sizeof(title2));
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_restore(test->comm, dir, 0, in, NULL, NULL));
  ExpectText(__FILE__, __LINE__, "a plate", name2);
  ExpectInt(__FILE__, __LINE__, 0, memcmp("two w   ", title2, 8));
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_restore(test->comm, dir, 1, in, NULL, NULL));
  ExpectText(__FILE__, __LINE__, "a longer plate", name2);
  belay_state_free(&in);

  // Too narrow on the last rank only, an error on all.
  belay_state_create(&in);
  if (test->rank == test->size - 1) {
    belay_state_add_string(in, "name", narrow, sizeof(narrow));
  } else {
    belay_state_add_string(in, "name", name2, sizeof(name2));
  }
  ExpectCode(__FILE__, __LINE__, BELAY_OUT_OF_RANGE,
             belay_restore(test->comm, dir, 1, in, NULL, NULL));
  ExpectMessage(__FILE__, __LINE__, "restore \"name\": the string is longer");
  belay_state_free(&in);
  belay_state_free(&out);
}
