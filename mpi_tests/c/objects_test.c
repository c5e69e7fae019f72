// Objects of a C++ program, as a program in C sees them; and patches, which
// come and go.

#include <mpi.h>
#include <stdio.h>
#include <string.h>

#include "c_test.h"

enum { kLayerRows = 6, kLayerColumns = 4 };

// The columns of this rank of the array that C++ has cut by rows.
static belay_state* DescribeLayer(const struct c_test* test, const char* kernel,
                                  double* columns) {
  const int64_t global[2] = {kLayerRows, kLayerColumns};
  const int64_t begin = kLayerColumns * test->rank / test->size;
  const int64_t end = kLayerColumns * (test->rank + 1) / test->size;
  const int64_t offset[2] = {0, begin}, shape[2] = {kLayerRows, end - begin};
  belay_state* state = NULL;
  belay_state_create(&state);
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_state_add_piece(state, kernel, BELAY_F64, 2, global, offset,
                                   shape, NULL, columns));
  return state;
}

static int64_t CountWrongColumns(const struct c_test* test,
                                 const double* columns) {
  const int64_t begin = kLayerColumns * test->rank / test->size;
  const int64_t width = kLayerColumns * (test->rank + 1) / test->size - begin;
  int64_t wrong = 0;
  for (int64_t i = 0; i < kLayerRows * width; ++i) {
    wrong +=
        columns[i] != (double)(i / width * kLayerColumns + begin + i % width);
  }
  return wrong;
}

void TestObjects(const struct c_test* test) {
  const int64_t three = 3;
  double columns[kLayerRows * kLayerColumns], time = 0;
  float bias[3] = {0, 0, 0};
  char name[8] = "", dir[4096];
  strcpy(dir, PathOf(test, "objects"));
  SaveObjects(dir);
  belay_state* state = DescribeLayer(
      test, "layers/1/kernel/.ATTRIBUTES/VARIABLE_VALUE", columns);
  belay_state_add_array(state, "layers/1/.ATTRIBUTES/bias", BELAY_F32, 1,
                        &three, NULL, bias);
  belay_state_add_string(state, "layers/1/.ATTRIBUTES/name", name,
                         sizeof(name));
  belay_state_add_scalar(state, "/.ATTRIBUTES/time", BELAY_F64, &time);
  ExpectCode(
      __FILE__, __LINE__, BELAY_OK,
      belay_restore(test->comm, dir, BELAY_LATEST_STEP, state, NULL, NULL));
  ExpectInt(__FILE__, __LINE__, 0, CountWrongColumns(test, columns));
  ExpectInt(__FILE__, __LINE__, 1, bias[2] == 3 && time == 0.25);
  ExpectText(__FILE__, __LINE__, "dense", name);
  belay_state_free(&state);

  // The names of a C++ program are enough for it.
  strcpy(dir, PathOf(test, "names"));
  strcpy(name, "wide");
  bias[0] = 4;
  bias[1] = 5;
  bias[2] = 6;
  time = 0.75;
  state = DescribeLayer(test, "layers/1/kernel", columns);
  belay_state_add_array(state, "layers/1/bias", BELAY_F32, 1, &three, NULL,
                        bias);
  belay_state_add_string(state, "layers/1/name", name, sizeof(name));
  belay_state_add_scalar(state, "time", BELAY_F64, &time);
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_save(test->comm, dir, 1, state, NULL));
  belay_state_free(&state);
  ExpectInt(__FILE__, __LINE__, 0, CountWrongObjects(dir));
}

enum { kPatches = 7, kPatchLength = 12 };

// Adds the patches that are stored, each on one rank.
static int64_t AddStoredPatches(const struct c_test* test, const char* dir,
                                belay_state* state,
                                double patches[kPatches][kPatchLength]) {
  belay_reader* reader = NULL;
  int64_t count = 0, added = 0;
  ExpectCode(__FILE__, __LINE__, BELAY_OK, belay_reader_open(dir, &reader));
  belay_reader_num_arrays(reader, &count);
  for (int64_t i = 0; i < count; ++i) {
    const char* key = NULL;
    int dtype = 0, ndim = 0;
    int64_t shape[2] = {0, 0};
    const int64_t zero[2] = {0, 0};
    belay_reader_key(reader, i, &key);
    if (i % test->size != test->rank) continue;
    belay_reader_describe(reader, key, &dtype, &ndim, 2, shape);
    ExpectInt(__FILE__, __LINE__, kPatchLength, shape[0] * shape[1]);
    ExpectCode(__FILE__, __LINE__, BELAY_OK,
               belay_state_add_piece(state, key, dtype, ndim, shape, zero,
                                     shape, NULL, patches[added++]));
  }
  belay_reader_close(&reader);
  return added;
}

// Patches of an adaptive mesh are arrays of their own, each on one rank.
void TestPatches(const struct c_test* test) {
  const int64_t shape[2] = {3, 4}, zero[2] = {0, 0};
  double patches[kPatches][kPatchLength];
  char dir[4096], key[64];
  belay_state* state = NULL;
  strcpy(dir, PathOf(test, "patches"));
  belay_state_create(&state);
  for (int i = 0; i < kPatches; ++i) {
    for (int j = 0; j < kPatchLength; ++j) patches[i][j] = 100 * i + j;
    if (i * test->size / kPatches != test->rank) continue;
    snprintf(key, sizeof(key), "level%d/%d", i % 2, i);
    belay_state_add_piece(state, key, BELAY_F64, 2, shape, zero, shape, NULL,
                          patches[i]);
  }
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_save(test->comm, dir, 1, state, NULL));
  belay_state_clear(state);
  memset(patches, 0, sizeof(patches));
  const int64_t added = AddStoredPatches(test, dir, state, patches);
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_restore(test->comm, dir, 1, state, NULL, NULL));
  double sum = 0, total = 0;
  for (int64_t i = 0; i < added; ++i) {
    sum += patches[i][0];
    ExpectInt(__FILE__, __LINE__, 11,
              (int64_t)(patches[i][kPatchLength - 1] - patches[i][0]));
  }
  MPI_Allreduce(&sum, &total, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  ExpectInt(__FILE__, __LINE__, 2100, (int64_t)total);
  belay_state_free(&state);
}
