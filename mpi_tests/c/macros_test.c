// Numbers by the name and the type of their variables. Compiled as C11.

#include <complex.h>
#include <string.h>

#include "c_test.h"

// Expects that a step has the key with this dtype.
static void ExpectDtype(const belay_reader* reader, const char* key,
                        int needed) {
  int dtype = 0, ndim = -1;
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_reader_describe(reader, key, &dtype, &ndim, 0, NULL));
  ExpectInt(__FILE__, __LINE__, needed, dtype);
  ExpectInt(__FILE__, __LINE__, 0, ndim);
}

void TestMacros(const struct c_test* test) {
  double time = 1.5, dt = 0.25;
  float factor = 2;
  int cycle = 3;
  unsigned count = 4;
  long long total = 5;
  uint64_t seed = 6;
  _Bool is_done = 1;
  double complex wave = 7;
  char dir[4096];
  belay_state* state = NULL;
  belay_reader* reader = NULL;
  strcpy(dir, PathOf(test, "macros"));
  belay_state_create(&state);
  BELAY_ADD_SCALAR(state, factor);
  BELAY_ADD_SCALAR(state, cycle);
  BELAY_ADD_SCALAR(state, count);
  BELAY_ADD_SCALAR(state, total);
  BELAY_ADD_SCALAR(state, seed);
  BELAY_ADD_SCALAR(state, is_done);
  BELAY_ADD_SCALAR(state, wave);
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_state_add_scalars(state, BELAY_F64, "time", &time, "dt", &dt,
                                     NULL));
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_save(test->comm, dir, 1, state, NULL));
  time = dt = 0;
  cycle = 0;
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_restore(test->comm, dir, 1, state, NULL, NULL));
  ExpectInt(__FILE__, __LINE__, 1, time == 1.5 && dt == 0.25 && cycle == 3);
  ExpectCode(__FILE__, __LINE__, BELAY_OK, belay_reader_open(dir, &reader));
  ExpectDtype(reader, "time", BELAY_F64);
  ExpectDtype(reader, "factor", BELAY_F32);
  ExpectDtype(reader, "cycle", BELAY_I32);
  ExpectDtype(reader, "count", BELAY_U32);
  ExpectDtype(reader, "total", BELAY_I64);
  ExpectDtype(reader, "seed", BELAY_U64);
  ExpectDtype(reader, "is_done", BELAY_BOOL);
  ExpectDtype(reader, "wave", BELAY_C128);
  belay_reader_close(&reader);
  ExpectCode(__FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
             belay_state_add_scalars(state, BELAY_F64, "a", &time, "b",
                                     (double*)NULL, NULL));
  belay_state_free(&state);
}
