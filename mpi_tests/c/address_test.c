// Values that lie elsewhere than when they were added.

#include <stdlib.h>
#include <string.h>

#include "c_test.h"

enum { kOwned = 4, kWithGhosts = 6 };

// A program of two time levels.
struct levels {
  double memory[2][kOwned];
  double ghosts[2][kWithGhosts];
  int64_t own[2][3];
  char text[2][8];
  int now;
};

static void Fill(const struct c_test* test, int64_t step,
                 struct levels* levels) {
  const double first = (double)(100 * step + 10 * test->rank);
  const int now = levels->now;
  for (int i = 0; i < kOwned; ++i) {
    levels->memory[now][i] = first + i;
    levels->ghosts[now][i + 1] = -first - i;
  }
  for (int i = 0; i < 3; ++i) levels->own[now][i] = (int64_t)first + 5 + i;
  memset(levels->text[now], 0, sizeof(levels->text[now]));
  memset(levels->text[now], 'a' + (int)step, 1 + (size_t)step);
}

static void ExpectFilled(const struct c_test* test, int64_t step,
                         const struct levels* found) {
  struct levels needed = *found;
  const int now = found->now;
  Fill(test, step, &needed);
  ExpectInt(__FILE__, __LINE__, 0,
            memcmp(needed.memory[now], found->memory[now],
                   sizeof(needed.memory[now])));
  ExpectInt(__FILE__, __LINE__, 0,
            memcmp(needed.ghosts[now] + 1, found->ghosts[now] + 1,
                   kOwned * sizeof(double)));
  ExpectInt(__FILE__, __LINE__, 0,
            memcmp(needed.own[now], found->own[now], sizeof(needed.own[now])));
  ExpectText(__FILE__, __LINE__, needed.text[now], found->text[now]);
}

static belay_state* Describe(const struct c_test* test, struct levels* levels) {
  const int64_t global[1] = {kOwned * test->size};
  const int64_t offset[1] = {kOwned * test->rank}, shape[1] = {kOwned};
  const int64_t one[1] = {1};
  const belay_ghosts ghosts = {.before = one};
  belay_state* state = NULL;
  belay_state_create(&state);
  belay_state_add_piece(state, "u", BELAY_F64, 1, global, offset, shape, NULL,
                        levels->memory[0]);
  belay_state_add_piece_with_ghosts(state, "g", BELAY_F64, 1, global, offset,
                                    shape, NULL, &ghosts, levels->ghosts[0]);
  belay_state_add_per_rank(state, "own", BELAY_I64, 3, levels->own[0],
                           BELAY_OTHER_RANKS_ERROR);
  belay_state_add_string(state, "text", levels->text[0],
                         sizeof(levels->text[0]));
  return state;
}

// Says where all that is current lies.
static void Swap(belay_state* state, struct levels* levels) {
  const int now = levels->now = 1 - levels->now;
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_state_set_address(state, "u", 0, levels->memory[now]));
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_state_set_address(state, "g", 0, levels->ghosts[now]));
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_state_set_address(state, "own", 0, levels->own[now]));
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_state_set_address(state, "text", 0, levels->text[now]));
}

void TestSwapped(const struct c_test* test) {
  struct levels levels = {.now = 0};
  belay_state* state = Describe(test, &levels);
  belay_saver* saver = NULL;
  char dir[4096];
  strcpy(dir, PathOf(test, "swapped"));
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_saver_create(test->comm, NULL, &saver));
  for (int64_t step = 1; step <= 6; ++step) {
    Swap(state, &levels);
    Fill(test, step, &levels);
    ExpectCode(__FILE__, __LINE__, BELAY_OK,
               step < 4 ? belay_save(test->comm, dir, step, state, NULL)
                        : belay_saver_save(saver, dir, step, state, NULL));
  }
  ExpectCode(__FILE__, __LINE__, BELAY_OK, belay_saver_close(&saver));
  for (int64_t step = 6; step >= 1; --step) {
    Swap(state, &levels);
    ExpectCode(__FILE__, __LINE__, BELAY_OK,
               belay_restore(test->comm, dir, step, state, NULL, NULL));
    ExpectFilled(test, step, &levels);
  }
  belay_state_free(&state);
}

// Each mistake is one of the state: all ranks learn of it in the next save.
static void ExpectMistake(const struct c_test* test, int code,
                          const char* message, int what) {
  const int64_t shape[1] = {kOwned}, longer[1] = {kOwned + 1}, two[1] = {2};
  const belay_rows rows = {.dtype = BELAY_F64};
  struct levels levels = {.now = 0};
  belay_state* state = Describe(test, &levels);
  double* const data = levels.memory[1];
  int found = BELAY_OK;
  if (what == 7) belay_state_add_rows(state, "rows", &rows);
  if (test->rank == test->size - 1) {
    found = what == 0   ? belay_state_set_address(state, "none", 0, data)
            : what == 1 ? belay_state_set_address(state, "u", 1, data)
            : what == 2 ? belay_state_set_address(state, "u", -1, data)
            : what == 3 ? belay_state_set_address(state, "u", 0, NULL)
            : what == 4 ? belay_state_set_array(state, "u", 0, BELAY_F32, 1,
                                                shape, NULL, data)
            : what == 5 ? belay_state_set_array(state, "u", 0, BELAY_F64, 1,
                                                longer, NULL, data)
            : what == 6 ? belay_state_set_array(state, "u", 0, BELAY_F64, 1,
                                                shape, two, data)
                        : belay_state_set_address(state, "rows", 0, data);
    ExpectCode(__FILE__, __LINE__, code, found);
    ExpectMessage(__FILE__, __LINE__, message);
  }
  ExpectCode(
      __FILE__, __LINE__, code,
      belay_save(test->comm, PathOf(test, "no_address"), 1, state, NULL));
  ExpectMessage(__FILE__, __LINE__, message);
  belay_state_free(&state);
}

void TestWrongAddresses(const struct c_test* test) {
  ExpectMistake(test, BELAY_NOT_FOUND,
                "set the address of \"none\": the state has no such key", 0);
  ExpectMistake(test, BELAY_NOT_FOUND,
                "\"u\": no such piece (need 0 to 0, found 1)", 1);
  ExpectMistake(test, BELAY_NOT_FOUND, "(need 0 to 0, found -1)", 2);
  ExpectMistake(test, BELAY_INVALID_ARGUMENT, "\"u\": the pointer is null", 3);
  ExpectMistake(test, BELAY_INVALID_ARGUMENT,
                "another dtype than was added (need f64, found f32)", 4);
  ExpectMistake(test, BELAY_INVALID_ARGUMENT,
                "another shape than was added (need [4], found [5])", 5);
  ExpectMistake(test, BELAY_INVALID_ARGUMENT, "(need [1], found [2])", 6);
  ExpectMistake(test, BELAY_INVALID_ARGUMENT, "\"rows\": it has rows", 7);
}

// What a binding knows of its arrays has to be as it was, ghost cells included.
void TestSetArrays(const struct c_test* test) {
  const int64_t held[1] = {kWithGhosts}, owned[1] = {kOwned}, eight[1] = {8};
  struct levels levels = {.now = 0};
  belay_state* state = Describe(test, &levels);
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_state_set_array(state, "u", 0, BELAY_F64, 1, owned, NULL,
                                   levels.memory[1]));
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_state_set_array(state, "g", 0, BELAY_F64, 1, held, NULL,
                                   levels.ghosts[1]));
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_state_set_array(state, "text", 0, BELAY_STRING, 1, eight,
                                   NULL, levels.text[1]));
  belay_state_set_address(state, "own", 0, levels.own[1]);
  levels.now = 1;
  Fill(test, 2, &levels);
  ExpectCode(
      __FILE__, __LINE__, BELAY_OK,
      belay_save(test->comm, PathOf(test, "set_arrays"), 1, state, NULL));
  memset(&levels, 0, sizeof(levels));
  levels.now = 1;
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_restore(test->comm, PathOf(test, "set_arrays"), 1, state,
                           NULL, NULL));
  ExpectFilled(test, 2, &levels);
  ExpectCode(__FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
             belay_state_set_array(state, "text", 0, BELAY_STRING, 1, owned,
                                   NULL, levels.text[0]));
  ExpectMessage(__FILE__, __LINE__, "need a string of 8 bytes, found [4]");
  belay_state_free(&state);
}
