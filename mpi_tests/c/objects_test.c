// Objects of a C++ program, as a program in C sees them.

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
