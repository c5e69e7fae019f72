// Savers, managers, runs and readers.

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "c_test.h"

void TestSaver(const struct c_test* test) {
  const int64_t length = 3;
  int64_t data[3] = {1, 2, 3}, in[3] = {0, 0, 0}, step = 0;
  int is_pending = 1;
  char dir[4096];
  belay_saver* saver = NULL;
  belay_options* options = NULL;
  belay_state *state = NULL, *other = NULL;
  strcpy(dir, PathOf(test, "saver"));
  belay_state_create(&state);
  belay_state_add_array(state, "u", BELAY_I64, 1, &length, NULL, data);
  belay_options_create(&options);
  belay_options_set(options, "max_staging_bytes", "1000000");
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_saver_create(test->comm, options, &saver));
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_saver_committed_step(saver, &step));
  ExpectInt(__FILE__, __LINE__, BELAY_NO_STEP, step);
  for (int64_t i = 0; i < 3; ++i) {
    data[0] = 100 + i;
    ExpectCode(__FILE__, __LINE__, BELAY_OK,
               belay_saver_save(saver, dir, i, state, NULL));
    data[0] = -1;  // copied already
  }
  belay_saver_committed_step(saver, &step);
  ExpectInt(__FILE__, __LINE__, 1, step);
  while (is_pending) {
    ExpectCode(__FILE__, __LINE__, BELAY_OK,
               belay_saver_poll(saver, &is_pending));
  }
  belay_saver_committed_step(saver, &step);
  ExpectInt(__FILE__, __LINE__, 2, step);
  ExpectCode(__FILE__, __LINE__, BELAY_ALREADY_EXISTS,
             belay_saver_save(saver, dir, 2, state, NULL));
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_saver_save(saver, dir, 3, state, NULL));
  ExpectCode(__FILE__, __LINE__, BELAY_OK, belay_saver_wait(saver));
  ExpectCode(__FILE__, __LINE__, BELAY_OK, belay_saver_close(&saver));
  ExpectInt(__FILE__, __LINE__, 1, saver == NULL);
  belay_state_create(&other);
  belay_state_add_array(other, "u", BELAY_I64, 1, &length, NULL, in);
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_restore(test->comm, dir, 2, other, NULL, NULL));
  ExpectInt(__FILE__, __LINE__, 102, in[0]);
  belay_options_set(options, "max_staging_bytes", "many");
  ExpectCode(__FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
             belay_saver_create(test->comm, options, &saver));
  belay_options_free(&options);
  belay_state_free(&other);
  belay_state_free(&state);
}

static int calls = 0;

static int Start(void* context) {
  ++calls;
  *(int64_t*)context = 5;
  return BELAY_OK;
}

static int Refuse(void* context) {
  (void)context;
  return BELAY_UNAVAILABLE;
}

// Saves steps 0 to 9 as the options say, with ShouldSave.
static void SaveTen(belay_manager* manager, int64_t* counter) {
  int should_save = 0, saved = 0, should_stop = 1;
  for (int64_t step = 0; step < 10; ++step) {
    *counter = step;
    ExpectCode(__FILE__, __LINE__, BELAY_OK,
               belay_manager_should_save(manager, step, &should_save));
    ExpectInt(__FILE__, __LINE__, step % 3 == 0, should_save);
    if (!should_save) continue;
    ExpectCode(__FILE__, __LINE__, BELAY_OK,
               belay_manager_save(manager, step, 0, &saved));
    ExpectInt(__FILE__, __LINE__, 1, saved);
  }
  belay_manager_should_stop(manager, &should_stop);
  ExpectInt(__FILE__, __LINE__, 0, should_stop);
}

static void TestManaged(const struct c_test* test, const char* async) {
  int64_t counter = 0, restored = 0, steps[4] = {0, 0, 0, 0}, count = 0;
  char name[16] = "first", dir[4096];
  belay_manager* manager = NULL;
  belay_options* options = NULL;
  belay_state* state = NULL;
  strcpy(dir, PathOf(test, async[0] == 't' ? "managed_async" : "managed"));
  belay_state_create(&state);
  belay_state_add_scalar(state, "counter", BELAY_I64, &counter);
  belay_state_add_string(state, "name", name, sizeof(name));
  belay_options_create(&options);
  belay_options_set(options, "save_interval_steps", "3");
  belay_options_set(options, "max_to_keep", "2");
  belay_options_set(options, "async_save", async);
  belay_options_set(options, "stop_signals", "SIGUSR1, SIGTERM");
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_manager_create(test->comm, state, dir, options, &manager));
  calls = 0;
  ExpectCode(__FILE__, __LINE__, BELAY_UNAVAILABLE,
             belay_manager_restore_or_initialize(
                 manager, NULL, test->rank == 0 ? Refuse : Start, &counter,
                 &restored));
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_manager_restore_or_initialize(manager, NULL, Start, &counter,
                                                 &restored));
  ExpectInt(__FILE__, __LINE__, test->rank == 0 ? 1 : 2, calls);
  ExpectInt(__FILE__, __LINE__, 5, counter);
  ExpectInt(__FILE__, __LINE__, BELAY_NO_STEP, restored);
  SaveTen(manager, &counter);
  ExpectCode(__FILE__, __LINE__, BELAY_OK, belay_manager_wait(manager));
  belay_manager_latest_step(manager, &restored);
  ExpectInt(__FILE__, __LINE__, 9, restored);
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_list_steps(dir, 4, steps, &count));
  ExpectInt(__FILE__, __LINE__, 2, count);
  ExpectInt(__FILE__, __LINE__, 609, 100 * steps[0] + steps[1]);
  counter = -1;
  strcpy(name, "other");
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_manager_restore_latest(manager, NULL, &restored));
  ExpectInt(__FILE__, __LINE__, 9, counter);
  ExpectText(__FILE__, __LINE__, "first", name);
  ExpectCode(__FILE__, __LINE__, BELAY_OK, belay_manager_close(&manager));
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_manager_create(test->comm, state, dir, NULL, &manager));
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_manager_restore(manager, 6, NULL));
  ExpectInt(__FILE__, __LINE__, 6, counter);
  ExpectCode(__FILE__, __LINE__, BELAY_OK, belay_manager_close(&manager));
  belay_options_free(&options);
  belay_state_free(&state);
}

// Which steps from 0 to 9 a manager with these options saves, as a number of
// ten digits.
static int64_t SavedSteps(belay_comm* comm, belay_state* state, const char* dir,
                          const belay_options* options) {
  belay_manager* manager = NULL;
  int64_t saved_steps = 0;
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_manager_create(comm, state, dir, options, &manager));
  for (int64_t step = 0; step < 10; ++step) {
    int saved = 0;
    belay_manager_set_metric(manager, "loss", step == 4 ? 0.5 : 1.5);
    ExpectCode(__FILE__, __LINE__, BELAY_OK,
               belay_manager_save(manager, step, 0, &saved));
    // With `snapshot` the program must not change its values before.
    ExpectCode(__FILE__, __LINE__, BELAY_OK,
               belay_manager_wait_for_snapshot(manager));
    saved_steps = 10 * saved_steps + saved;
  }
  ExpectCode(__FILE__, __LINE__, BELAY_OK, belay_manager_close(&manager));
  return saved_steps;
}

static void TestManagerOptions(const struct c_test* test) {
  char dir[4096];
  belay_manager* manager = NULL;
  belay_options *chosen = NULL, *rare = NULL, *bad = NULL;
  belay_state* state = NULL;
  int64_t counter = 0, kept[4] = {0, 0, 0, 0}, count = 0;
  belay_state_create(&state);
  belay_state_add_scalar(state, "counter", BELAY_I64, &counter);
  belay_options_create(&chosen);
  belay_options_set(chosen, "save_interval_steps", "100");
  belay_options_set(chosen, "save_first_step", "false");
  belay_options_set(chosen, "save_on_steps", "4, 7");
  belay_options_set(chosen, "best_metric", "loss");
  belay_options_set(chosen, "best_mode", "min");
  belay_options_set(chosen, "max_to_keep", "1");
  belay_options_set(chosen, "keep_checkpoints_without_metrics", "false");
  strcpy(dir, PathOf(test, "chosen_steps"));
  ExpectInt(__FILE__, __LINE__, 100100,
            SavedSteps(test->comm, state, dir, chosen));
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_list_steps(dir, 4, kept, &count));
  ExpectInt(__FILE__, __LINE__, 1, count);
  ExpectInt(__FILE__, __LINE__, 4, kept[0]);
  belay_options_create(&rare);
  belay_options_set(rare, "mtbf_seconds", "1e9");
  belay_options_set(rare, "overhead_budget", "0.001");
  belay_options_set(rare, "async_save", "true");
  belay_options_set(rare, "snapshot", "lazy");
  strcpy(dir, PathOf(test, "rare_steps"));
  ExpectInt(__FILE__, __LINE__, 1000000000,
            SavedSteps(test->comm, state, dir, rare));
  belay_options_create(&bad);
  belay_options_set(bad, "mtbf_seconds", "0");
  belay_options_set(bad, "save_interval_steps", "2");
  belay_options_set(bad, "keep_checkpoints_without_metrics", "false");
  ExpectCode(__FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
             belay_manager_create(test->comm, state, dir, bad, &manager));
  // Without the names of functions that only C++ can pass.
  ExpectMessage(__FILE__, __LINE__,
                "mtbf_seconds takes the place of save_interval_steps, "
                "save_on_steps and save_first_step; set only one of them; "
                "keep_checkpoints_without_metrics needs best_metric; "
                "mtbf_seconds is out of range (need more than 0, found 0) [");
  belay_options_free(&bad);
  belay_options_free(&rare);
  belay_options_free(&chosen);
  belay_state_free(&state);
}

// Rows are copied in the call: the program goes on with others.
void TestRowsInBackground(const struct c_test* test) {
  int32_t count = 3 + test->rank;
  int64_t data[8] = {0};
  const belay_rows rows = {
      .dtype = BELAY_I64, .count32 = &count, .capacity = 8, .data = data};
  char dir[4096];
  belay_saver* saver = NULL;
  belay_state* state = NULL;
  strcpy(dir, PathOf(test, "rows_in_background"));
  for (int i = 0; i < 8; ++i) data[i] = 10 * test->rank + i;
  belay_state_create(&state);
  belay_state_add_rows(state, "rows", &rows);
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_saver_create(test->comm, NULL, &saver));
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_saver_save(saver, dir, 1, state, NULL));
  count = 1;
  data[0] = -1;
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_saver_save(saver, dir, 2, state, NULL));
  memset(data, 0, sizeof(data));
  ExpectCode(__FILE__, __LINE__, BELAY_OK, belay_saver_close(&saver));
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_restore(test->comm, dir, 2, state, NULL, NULL));
  ExpectInt(__FILE__, __LINE__, 1, count);
  ExpectInt(__FILE__, __LINE__, -1, data[0]);
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_restore(test->comm, dir, 1, state, NULL, NULL));
  ExpectInt(__FILE__, __LINE__, 3 + test->rank, count);
  for (int i = 0; i < count; ++i) {
    ExpectInt(__FILE__, __LINE__, 10 * test->rank + i, data[i]);
  }
  belay_state_free(&state);
}

void TestManager(const struct c_test* test) {
  belay_manager* manager = NULL;
  belay_state* state = NULL;
  TestManagerOptions(test);
  TestManaged(test, "false");
  TestManaged(test, "true");
  belay_state_create(&state);
  ExpectCode(__FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
             belay_manager_create(test->comm,
                                  test->rank == test->size - 1 ? NULL : state,
                                  test->dir, NULL, &manager));
  ExpectMessage(__FILE__, __LINE__, "the argument state is null [rank");
  ExpectInt(__FILE__, __LINE__, 1, manager == NULL);
  belay_state_free(&state);
}

static void TestBoxes(const belay_reader* reader) {
  const int64_t offset[2] = {2, 1}, shape[2] = {3, 2}, far[2] = {6, 1};
  double box[6] = {0}, whole[35] = {0};
  float single[6];
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_reader_read(reader, "model/table", BELAY_F64, 2, offset,
                               shape, box));
  for (int i = 0; i < 6; ++i) {
    ExpectInt(__FILE__, __LINE__, (2 + i / 2) * 100 + 1 + i % 2,
              (int64_t)box[i]);
  }
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_reader_read(reader, "model/table", BELAY_F64, 2, NULL, NULL,
                               whole));
  ExpectInt(__FILE__, __LINE__, 604, (int64_t)whole[34]);
  ExpectCode(
      __FILE__, __LINE__, BELAY_OUT_OF_RANGE,
      belay_reader_read(reader, "model/table", BELAY_F64, 2, far, shape, box));
  ExpectCode(__FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
             belay_reader_read(reader, "model/table", BELAY_F64, 1, offset,
                               shape, box));
  ExpectCode(__FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
             belay_reader_read(reader, "model/table", BELAY_F64, 2, offset,
                               NULL, box));
  ExpectCode(__FILE__, __LINE__, BELAY_FAILED_PRECONDITION,
             belay_reader_read(reader, "model/table", BELAY_F32, 2, offset,
                               shape, single));
  ExpectCode(__FILE__, __LINE__, BELAY_NOT_FOUND,
             belay_reader_read(reader, "model/tabel", BELAY_F64, 2, offset,
                               shape, box));
  ExpectMessage(__FILE__, __LINE__, "model/table");
}

// What the large array below has at a place.
static unsigned char ByteAt(int64_t i, int64_t j, int64_t k) {
  return (unsigned char)(i * 7 + j * 3 + k);
}

// A box that is read in more than one piece.
static void TestLargeBox(const struct c_test* test) {
  enum { kX = 3, kY = 9000, kZ = 1000 };
  const int64_t whole[3] = {kX, kY, kZ}, offset[3] = {0, 10, 1};
  const int64_t shape[3] = {kX, kY - 20, kZ - 2};
  unsigned char* const out = malloc((size_t)kX * kY * kZ);
  unsigned char* const in = malloc((size_t)(shape[0] * shape[1] * shape[2]));
  char dir[4096];
  int64_t wrong = 0;
  belay_state* state = NULL;
  belay_reader* reader = NULL;
  strcpy(dir, PathOf(test, "large"));
  for (int64_t i = 0; i < kX * kY * kZ; ++i) {
    out[i] = ByteAt(i / kZ / kY, i / kZ % kY, i % kZ);
  }
  belay_state_create(&state);
  belay_state_add_array(state, "large", BELAY_U8, 3, whole, NULL, out);
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_save(test->comm, dir, 0, state, NULL));
  belay_state_free(&state);
  ExpectCode(__FILE__, __LINE__, BELAY_OK, belay_reader_open(dir, &reader));
  ExpectCode(
      __FILE__, __LINE__, BELAY_OK,
      belay_reader_read(reader, "large", BELAY_U8, 3, offset, shape, in));
  belay_reader_close(&reader);
  for (int64_t i = 0; i < shape[0] * shape[1] * shape[2]; ++i) {
    wrong += in[i] != ByteAt(i / shape[2] / shape[1],
                             10 + i / shape[2] % shape[1], 1 + i % shape[2]);
  }
  ExpectInt(__FILE__, __LINE__, 0, wrong);
  free(in);
  free(out);
}

// Reads the steps that TestStates and TestStrings have saved.
// Opens a run with three values. Collective.
static belay_run* OpenRun(const char* dir, const char* options, double* time,
                          char name[8]) {
  belay_run* run = NULL;
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_run_open(MPI_COMM_WORLD, dir, options, &run));
  belay_state_add_scalar(belay_run_state(run), "time", BELAY_F64, time);
  belay_state_add_string(belay_run_state(run), "name", name, 8);
  return run;
}

static void TestStoppedRun(const struct c_test* test) {
  double time = 0;
  char name[8] = "first", dir[4096];
  int outcome = -1, should_stop = 0;
  int64_t step = 0;
  strcpy(dir, PathOf(test, "stopped_run"));
  belay_run* run =
      OpenRun(dir, "save_interval_steps=100 stop_signals=SIGUSR1", &time, name);
  while (!should_stop && step < 50) {
    time = (double)++step;
    if (step == 5 && test->rank == 0) raise(SIGUSR1);
    ExpectCode(__FILE__, __LINE__, BELAY_OK,
               belay_run_step(run, step, &outcome));
    ExpectCode(__FILE__, __LINE__, BELAY_OK,
               belay_run_should_stop(run, &should_stop));
  }
  ExpectInt(__FILE__, __LINE__, 1, should_stop && step < 10);
  ExpectInt(__FILE__, __LINE__, BELAY_STEP_SAVED, outcome);
  ExpectCode(__FILE__, __LINE__, BELAY_OK, belay_run_close(&run));
}

static void TestBadRuns(const struct c_test* test, const char* dir) {
  belay_run* run = NULL;
  int64_t step = 0;
  int should_stop = 0;
  ExpectCode(__FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
             belay_run_open(MPI_COMM_WORLD, dir,
                            test->rank == 0 ? "max_to_kep=1" : NULL, &run));
  ExpectMessage(__FILE__, __LINE__, "close to it: \"max_to_keep\" [rank 0 of");
  ExpectInt(__FILE__, __LINE__, 1, run == NULL);
  ExpectCode(__FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
             belay_run_open(MPI_COMM_WORLD, dir,
                            test->rank == 0 ? "max_to_keep='1" : NULL, &run));
  ExpectMessage(__FILE__, __LINE__, "a quote without its end at character 13");
  ExpectCode(__FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
             belay_run_open(MPI_COMM_WORLD, NULL, NULL, &run));
  ExpectMessage(__FILE__, __LINE__, "the argument dir is null");
  ExpectCode(__FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
             belay_run_open(MPI_COMM_WORLD, dir, NULL, NULL));
  ExpectCode(__FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
             belay_run_step(NULL, 1, NULL));
  ExpectCode(__FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
             belay_run_restore(NULL, NULL, &step));
  ExpectCode(__FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
             belay_run_should_stop(NULL, &should_stop));
  ExpectMessage(__FILE__, __LINE__, "the argument run is null");
  ExpectInt(__FILE__, __LINE__, 1, belay_run_state(NULL) == NULL);
  ExpectCode(__FILE__, __LINE__, BELAY_OK, belay_run_close(NULL));
  ExpectCode(__FILE__, __LINE__, BELAY_OK, belay_run_close(&run));
}

void TestRun(const struct c_test* test) {
  int64_t step = 0, steps[8], count = 0;
  int outcome = -1, should_stop = 1, size = 0;
  double time = 0;
  char name[8] = "first", dir[4096];
  belay_run* run = NULL;
  strcpy(dir, PathOf(test, "run"));
  run = OpenRun(dir, "save_interval_steps=3 max_to_keep=2", &time, name);
  belay_comm_size(belay_run_comm(run), &size);
  ExpectInt(__FILE__, __LINE__, test->size, size);
  ExpectCode(__FILE__, __LINE__, BELAY_OK, belay_run_restore(run, NULL, &step));
  ExpectInt(__FILE__, __LINE__, BELAY_NO_STEP, step);
  for (int64_t i = 1; i <= 7; ++i) {
    time = (double)i;
    ExpectCode(__FILE__, __LINE__, BELAY_OK, belay_run_step(run, i, &outcome));
    ExpectInt(__FILE__, __LINE__,
              i == 1 || i % 3 == 0 ? BELAY_STEP_SAVED : BELAY_STEP_SKIPPED,
              outcome);
  }
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_run_should_stop(run, &should_stop));
  ExpectInt(__FILE__, __LINE__, 0, should_stop);
  ExpectCode(__FILE__, __LINE__, BELAY_OK, belay_run_close(&run));
  ExpectInt(__FILE__, __LINE__, 1, run == NULL);
  belay_list_steps(dir, 8, steps, &count);
  ExpectInt(__FILE__, __LINE__, 2, count);

  time = -1;
  strcpy(name, "other");
  run = OpenRun(dir, "async_save", &time, name);
  ExpectCode(__FILE__, __LINE__, BELAY_OK, belay_run_restore(run, NULL, &step));
  ExpectInt(__FILE__, __LINE__, 6, step);
  ExpectInt(__FILE__, __LINE__, 6, (int64_t)time);
  ExpectText(__FILE__, __LINE__, "first", name);
  ExpectCode(__FILE__, __LINE__, BELAY_OK, belay_run_step(run, 9, &outcome));
  ExpectInt(__FILE__, __LINE__, BELAY_STEP_BEGUN, outcome);
  ExpectCode(__FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
             belay_run_restore(run, "missing=maybe", &step));
  ExpectMessage(__FILE__, __LINE__, "need error, warn, collect, ignore");
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_run_restore(run, "missing=ignore", &step));
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_manager_wait(belay_run_manager(run)));
  ExpectCode(__FILE__, __LINE__, BELAY_OK, belay_run_close(&run));
  TestBadRuns(test, dir);
  TestStoppedRun(test);
}

void TestReader(const struct c_test* test) {
  const char* const keys[5] = {"array", "complex", "model/table", "own",
                               "step"};
  int64_t step = 0, count = 0, shape[3] = {0, 0, 0}, length = 0;
  int dtype = 0, ndim = 0;
  char text[10];
  const char* key = NULL;
  belay_reader* reader = NULL;
  ExpectCode(__FILE__, __LINE__, BELAY_NOT_FOUND,
             belay_reader_open("no such directory", &reader));
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_reader_open(test->dir, &reader));
  belay_reader_step(reader, &step);
  ExpectInt(__FILE__, __LINE__, 3, step);
  belay_reader_time(reader, &count);
  ExpectInt(__FILE__, __LINE__, 1, 1700000000 < count && count <= time(NULL));
  belay_reader_num_arrays(reader, &count);
  ExpectInt(__FILE__, __LINE__, 5, count);
  for (int64_t i = 0; i < 5; ++i) {
    ExpectCode(__FILE__, __LINE__, BELAY_OK, belay_reader_key(reader, i, &key));
    ExpectText(__FILE__, __LINE__, keys[i], key);
  }
  ExpectCode(__FILE__, __LINE__, BELAY_OUT_OF_RANGE,
             belay_reader_key(reader, 5, &key));
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_reader_describe(reader, "array", &dtype, &ndim, 3, shape));
  ExpectInt(__FILE__, __LINE__, BELAY_I32, dtype);
  ExpectInt(__FILE__, __LINE__, 3, ndim);
  ExpectInt(__FILE__, __LINE__, 213, 100 * shape[0] + 10 * shape[1] + shape[2]);
  ExpectCode(__FILE__, __LINE__, BELAY_NOT_FOUND,
             belay_reader_describe(reader, "none", &dtype, &ndim, 0, NULL));
  TestBoxes(reader);
  belay_reader_close(&reader);

  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_reader_open(PathOf(test, "strings"), &reader));
  ExpectCode(
      __FILE__, __LINE__, BELAY_OK,
      belay_reader_read_string(reader, "title", text, sizeof(text), &length));
  ExpectText(__FILE__, __LINE__, "two w", text);
  ExpectInt(__FILE__, __LINE__, 5, length);
  belay_reader_close(&reader);
  TestLargeBox(test);
}
