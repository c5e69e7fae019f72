// Mistakes of one rank or of all, and options.

#include <stdio.h>
#include <string.h>

#include "c_test.h"

// Saves a state with a mistake: all ranks get its code and a text with `text`.
static void ExpectSave(const struct c_test* test, int line, belay_state* state,
                       int code, const char* text) {
  ExpectCode(__FILE__, line, code,
             belay_save(test->comm, PathOf(test, "errors"), 1, state, NULL));
  ExpectMessage(__FILE__, line, text);
}

static void TestMistakesInStates(const struct c_test* test) {
  const int is_last = test->rank == test->size - 1;
  const int64_t length = 4, negative = -1, zero = 0, five = 5;
  double data[4] = {0, 0, 0, 0};
  char last[64];
  belay_state* state = NULL;
  snprintf(last, sizeof(last), "[rank %d of %d]", test->size - 1, test->size);

  belay_state_create(&state);
  if (is_last) {  // what one rank does wrong
    ExpectCode(__FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
               belay_state_add_array(state, "u", 99, 1, &length, NULL, data));
  }
  ExpectSave(test, __LINE__, state, BELAY_INVALID_ARGUMENT,
             "add \"u\": unknown dtype (found number 99)");
  ExpectMessage(__FILE__, __LINE__, last);
  belay_state_free(&state);

  belay_state_create(&state);
  belay_state_add_array(state, "u", BELAY_F64, 1, &length, NULL, data);
  if (is_last) {
    ExpectCode(
        __FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
        belay_state_add_array(state, NULL, BELAY_F64, 1, &length, NULL, data));
  }
  ExpectSave(test, __LINE__, state, BELAY_INVALID_ARGUMENT, "key is null");
  belay_state_free(&state);

  belay_state_create(&state);
  ExpectCode(
      __FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
      belay_state_add_array(state, "u", BELAY_F64, 1, &length, NULL, NULL));
  ExpectCode(__FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
             belay_state_add_array(state, "v", BELAY_F64, 1, NULL, NULL, data));
  ExpectCode(
      __FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
      belay_state_add_array(state, "v", BELAY_F64, 1, &negative, NULL, data));
  ExpectCode(__FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
             belay_state_add_string(state, "s", NULL, 3));
  ExpectCode(__FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
             belay_state_add_per_rank(state, "p", BELAY_F64, 1, data, 9));
  ExpectSave(test, __LINE__, state, BELAY_INVALID_ARGUMENT, "\"u\"");
  belay_state_free(&state);

  belay_state_create(&state);  // what a binding has found
  if (is_last) {
    ExpectCode(__FILE__, __LINE__, BELAY_UNIMPLEMENTED,
               belay_state_fail(state, BELAY_UNIMPLEMENTED, "no such kind"));
  }
  ExpectSave(test, __LINE__, state, BELAY_UNIMPLEMENTED, "no such kind");
  belay_state_free(&state);

  belay_state_create(&state);  // a piece outside of its array
  belay_state_add_piece(state, "u", BELAY_F64, 1, &length, &zero, &five, NULL,
                        data);
  ExpectSave(test, __LINE__, state, BELAY_OUT_OF_RANGE, "\"u\"");
  belay_state_free(&state);
}

static void TestRanksThatDisagree(const struct c_test* test) {
  const int64_t shape = test->rank == 0 ? 4 : 3;
  double data[4] = {1, 2, 3, 4};
  belay_state* state = NULL;
  if (test->size == 1) return;
  belay_state_create(&state);
  belay_state_add_array(state, "u", BELAY_F64, 1, &shape, NULL, data);
  ExpectSave(test, __LINE__, state, BELAY_INVALID_ARGUMENT, "\"u\"");
  belay_state_free(&state);

  belay_state_create(&state);
  ExpectCode(
      __FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
      belay_save(test->comm, PathOf(test, "errors"), test->rank, state, NULL));
  ExpectMessage(__FILE__, __LINE__, "step differs between ranks");
  ExpectCode(
      __FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
      belay_save(test->comm, test->rank == 1 ? NULL : "x", 1, state, NULL));
  ExpectMessage(__FILE__, __LINE__, "the argument dir is null [rank 1 of");
  ExpectCode(__FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
             belay_restore(test->comm, "x", 1, test->rank == 1 ? NULL : state,
                           NULL, NULL));
  ExpectMessage(__FILE__, __LINE__, "the argument state is null [rank 1 of");
  belay_state_free(&state);
}

static void TestWhatIsNotThere(const struct c_test* test) {
  const int64_t length = 4, other = 5;
  double data[5] = {1, 2, 3, 4, 5};
  float single[5];
  int64_t restored = 7;
  char dir[4096];
  belay_state *state = NULL, *in = NULL;
  strcpy(dir, PathOf(test, "missing"));
  belay_state_create(&state);
  belay_state_add_array(state, "u", BELAY_F64, 1, &length, NULL, data);
  ExpectCode(__FILE__, __LINE__, BELAY_NOT_FOUND,
             belay_restore(test->comm, dir, 1, state, NULL, NULL));
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_restore_latest(test->comm, dir, state, NULL, &restored));
  ExpectInt(__FILE__, __LINE__, BELAY_NO_STEP, restored);
  ExpectCode(__FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
             belay_restore(test->comm, dir, -1, state, NULL, NULL));
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_save(test->comm, dir, 1, state, NULL));
  ExpectCode(__FILE__, __LINE__, BELAY_ALREADY_EXISTS,
             belay_save(test->comm, dir, 1, state, NULL));
  ExpectMessage(__FILE__, __LINE__, "or set the option overwrite");
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_restore_latest(test->comm, dir, state, NULL, &restored));
  ExpectInt(__FILE__, __LINE__, 1, restored);

  belay_state_create(&in);
  belay_state_add_array(in, "v", BELAY_F64, 1, &length, NULL, data);
  ExpectCode(__FILE__, __LINE__, BELAY_NOT_FOUND,
             belay_restore(test->comm, dir, 1, in, NULL, NULL));
  ExpectMessage(__FILE__, __LINE__, "\"v\"");
  belay_state_free(&in);
  belay_state_create(&in);
  belay_state_add_array(in, "u", BELAY_F64, 1, &other, NULL, data);
  ExpectCode(__FILE__, __LINE__, BELAY_FAILED_PRECONDITION,
             belay_restore(test->comm, dir, 1, in, NULL, NULL));
  belay_state_free(&in);
  belay_state_create(&in);
  belay_state_add_array(in, "u", BELAY_F32, 1, &length, NULL, single);
  ExpectCode(__FILE__, __LINE__, BELAY_FAILED_PRECONDITION,
             belay_restore(test->comm, dir, 1, in, NULL, NULL));
  belay_state_free(&in);
  belay_state_free(&state);
}

static void TestNullHandles(const struct c_test* test) {
  belay_state* state = NULL;
  belay_comm* comm = NULL;
  const int64_t length = 1;
  double value = 0;
  ExpectCode(__FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
             belay_comm_create(MPI_COMM_NULL, &comm));
  ExpectCode(__FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
             belay_comm_create(MPI_COMM_WORLD, NULL));
  ExpectCode(__FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
             belay_state_create(NULL));
  ExpectCode(
      __FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
      belay_state_add_array(NULL, "u", BELAY_F64, 1, &length, NULL, &value));
  ExpectCode(__FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
             belay_save(NULL, "x", 1, state, NULL));
  ExpectMessage(__FILE__, __LINE__, "the argument comm is null");
  ExpectCode(__FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
             belay_save(test->comm, "x", 1, NULL, NULL));
  ExpectCode(__FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
             belay_saver_poll(NULL, NULL));
  ExpectCode(__FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
             belay_manager_wait(NULL));
  ExpectCode(__FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
             belay_reader_step(NULL, NULL));
  ExpectCode(__FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
             belay_reader_time(NULL, NULL));
  ExpectCode(__FILE__, __LINE__, BELAY_OK, belay_comm_free(NULL));
  ExpectCode(__FILE__, __LINE__, BELAY_OK, belay_comm_free(&comm));
  ExpectCode(__FILE__, __LINE__, BELAY_OK, belay_saver_close(NULL));
  ExpectCode(__FILE__, __LINE__, BELAY_OK, belay_manager_close(NULL));
  belay_check(BELAY_OK, NULL, 0);  // returns
  belay_state_free(NULL);
  belay_state_free(&state);
  belay_options_free(NULL);
  belay_reader_close(NULL);
  ExpectText(__FILE__, __LINE__, "DATA_LOSS", belay_code_name(BELAY_DATA_LOSS));
  ExpectText(__FILE__, __LINE__, "", belay_code_name(99));
}

void TestErrors(const struct c_test* test) {
  TestMistakesInStates(test);
  TestRanksThatDisagree(test);
  TestWhatIsNotThere(test);
  TestNullHandles(test);
}

// Options of one rank that cannot be read are an error on all ranks.
// The deadline of a communicator, also where only one rank has it wrong.
static void TestOptionsOfComm(const struct c_test* test) {
  belay_comm* comm = NULL;
  belay_options* options = NULL;
  belay_options_create(&options);
  belay_options_set(options, "deadline_seconds", "60");
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_comm_create_with_options(MPI_COMM_WORLD, options, &comm));
  ExpectCode(__FILE__, __LINE__, BELAY_OK, belay_comm_free(&comm));
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_comm_create_with_options(MPI_COMM_WORLD, NULL, &comm));
  ExpectCode(__FILE__, __LINE__, BELAY_OK, belay_comm_free(&comm));
  belay_options_set(options, "deadline_seconds",
                    test->rank == test->size - 1 ? "-1" : "60");
  ExpectCode(__FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
             belay_comm_create_with_options(MPI_COMM_WORLD, options, &comm));
  ExpectMessage(__FILE__, __LINE__,
                "deadline_seconds is out of range (need at least 0, found -1) "
                "[rank ");
  ExpectInt(__FILE__, __LINE__, 1, comm == NULL);
  belay_options_set(options, "deadline_seconds", "60");
  belay_options_set(options, "deadline_second", "60");
  ExpectCode(__FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
             belay_comm_create_with_options(MPI_COMM_WORLD, options, &comm));
  ExpectMessage(__FILE__, __LINE__,
                "option \"deadline_second\": no such option here (need one of "
                "deadline_seconds); close to it: \"deadline_seconds\" [rank ");
  belay_options_free(&options);
}

void TestOptions(const struct c_test* test) {
  belay_options *options = NULL, *cast = NULL, *bad = NULL;
  const int64_t length = 3;
  double data[3] = {1, 2, 3};
  float single[3] = {0, 0, 0};
  char dir[4096];
  belay_state *state = NULL, *in = NULL;
  strcpy(dir, PathOf(test, "options"));
  belay_state_create(&state);
  belay_state_add_array(state, "u", BELAY_F64, 1, &length, NULL, data);
  belay_options_create(&options);
  belay_options_set(options, "overwrite", "true");
  belay_options_set(options, "durable", "false");
  belay_options_set(options, "transfer", "two_phase");
  belay_options_set(options, "deadline_seconds", "60.5");
  for (int i = 0; i < 2; ++i) {
    ExpectCode(__FILE__, __LINE__, BELAY_OK,
               belay_save(test->comm, dir, 1, state, options));
  }
  belay_state_create(&in);
  belay_state_add_array(in, "u", BELAY_F32, 1, &length, NULL, single);
  belay_options_create(&cast);
  belay_options_set(cast, "allow_dtype_cast", "true");
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_restore(test->comm, dir, 1, in, cast, NULL));
  ExpectInt(__FILE__, __LINE__, 1, single[2] == 3.0F);
  // A value that the dtype of the program does not have.
  data[1] = 1e300;
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_save(test->comm, dir, 2, state, options));
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_restore(test->comm, dir, 2, in, cast, NULL));
  belay_options_set(cast, "strict_dtype", "true");
  ExpectCode(__FILE__, __LINE__, BELAY_FAILED_PRECONDITION,
             belay_restore(test->comm, dir, 2, in, cast, NULL));
  ExpectMessage(__FILE__, __LINE__, "too large for f32");

  belay_options_create(&bad);
  belay_options_set(bad, "overwrite", test->rank == 0 ? "perhaps" : "true");
  ExpectCode(__FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
             belay_save(test->comm, dir, 1, state, bad));
  ExpectMessage(__FILE__, __LINE__,
                "option \"overwrite\": unusable value (need true or false, "
                "found \"perhaps\") [rank 0 of");
  ExpectCode(__FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
             belay_save(test->comm, dir, 1, state, cast));
  ExpectMessage(__FILE__, __LINE__,
                "option \"allow_dtype_cast\": no such option here");
  ExpectCode(__FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
             belay_options_set(bad, NULL, "1"));
  TestOptionsOfComm(test);
  belay_options_free(&options);
  belay_options_free(&cast);
  belay_options_free(&bad);
  belay_state_free(&in);
  belay_state_free(&state);
}
