// Sharding policies.

#include <stdio.h>
#include <string.h>

#include "c_test.h"

// How often a policy was called, and how it answers.
struct policy {
  int calls;
  int64_t groups;
  int code;
};

// Whether a data file of a step is there.
static int HasFile(const char* dir, int step, int file, int files) {
  char path[4200];
  FILE* opened = NULL;
  snprintf(path, sizeof(path), "%s/step_%08d/data_%05d_of_%05d.h5", dir, step,
           file, files);
  opened = fopen(path, "rb");
  if (opened != NULL) fclose(opened);
  return opened != NULL;
}

// Each key apart, and of "u" the rows of even and of odd numbers.
static int GroupRows(void* context, const belay_shardable_tensor* pieces,
                     int64_t count, belay_grouping* grouping) {
  struct policy* policy = (struct policy*)context;
  ++policy->calls;
  for (int64_t i = 0; i < count; ++i) {
    const belay_shardable_tensor* piece = &pieces[i];
    ExpectInt(__FILE__, __LINE__, 0, piece->node);
    ExpectInt(__FILE__, __LINE__, 1,
              strncmp(piece->device, "/job:", 5) == 0 &&
                  strstr(piece->device, "/device:CPU:0") != NULL);
    if (strcmp(piece->key, "u") != 0) {
      belay_grouping_add(grouping, policy->groups - 1, i, NULL, NULL);
      continue;
    }
    ExpectInt(__FILE__, __LINE__, BELAY_F64, piece->dtype);
    ExpectInt(__FILE__, __LINE__, 2, piece->ndim);
    ExpectInt(__FILE__, __LINE__, 3, piece->global_shape[1]);
    ExpectInt(__FILE__, __LINE__, piece->shape[0] * 24, piece->bytes);
    for (int64_t row = 0; row < piece->shape[0]; ++row) {
      const int64_t offset[2] = {piece->offset[0] + row, 0}, shape[2] = {1, 3};
      ExpectCode(__FILE__, __LINE__, BELAY_OK,
                 belay_grouping_add(grouping, row % 2, i, offset, shape));
    }
  }
  return policy->code;
}

// Each piece apart.
static int PiecesApart(void* context, const belay_shardable_tensor* pieces,
                       int64_t count, belay_grouping* grouping) {
  (void)context;
  (void)pieces;
  for (int64_t i = 0; i < count; ++i) {
    belay_grouping_add(grouping, i, i, NULL, NULL);
  }
  return BELAY_OK;
}

// As the context says: what no policy may do.
static int GroupBadly(void* context, const belay_shardable_tensor* pieces,
                      int64_t count, belay_grouping* grouping) {
  const int64_t offset[2] = {0, 0}, shape[2] = {1000, 1000};
  (void)pieces;
  switch (*(const int*)context) {
    case 0:
      return BELAY_UNAVAILABLE;
    case 1:
      belay_grouping_add(grouping, 0, count, NULL, NULL);
      return BELAY_OK;
    case 2:
      belay_grouping_add(grouping, -1, 0, NULL, NULL);
      return BELAY_OK;
    case 3:
      belay_grouping_add(grouping, 0, 0, offset, NULL);
      return BELAY_OK;
    case 4:
      belay_grouping_add(grouping, 0, 0, offset, shape);
      return BELAY_OK;
    default:
      return BELAY_OK;  // nothing is in a group
  }
}

static void TestBadPolicies(const struct c_test* test, belay_state* state,
                            belay_options* options) {
  const struct {
    int code;
    const char* text;
  } needed[6] = {
      {BELAY_UNAVAILABLE, "its function returned the code 14"},
      {BELAY_INVALID_ARGUMENT, "no such piece (need one of "},
      {BELAY_OUT_OF_RANGE, "no such group (need one of 4194304"},
      {BELAY_INVALID_ARGUMENT, "the argument shape is null"},
      {BELAY_INVALID_ARGUMENT, "the box is larger than the piece"},
      {BELAY_INVALID_ARGUMENT, "key \"u\" box \"0,4:0,3\": dropped"}};
  for (int i = 0; i < 6; ++i) {
    ExpectCode(__FILE__, __LINE__, BELAY_OK,
               belay_options_set_sharding_policy(options, "bad", NULL,
                                                 GroupBadly, &i));
    ExpectCode(
        __FILE__, __LINE__, needed[i].code,
        belay_save(test->comm, PathOf(test, "sharding"), 9, state, options));
    ExpectMessage(__FILE__, __LINE__, "policy \"bad\":");
    ExpectMessage(__FILE__, __LINE__, needed[i].text);
  }
  ExpectCode(
      __FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
      belay_options_set_sharding_policy(options, "", NULL, GroupBadly, NULL));
  ExpectCode(
      __FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
      belay_options_set_sharding_policy(options, "bad", NULL, NULL, NULL));
  ExpectCode(__FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
             belay_restore(test->comm, PathOf(test, "sharding"), 1, state,
                           options, NULL));
  ExpectMessage(__FILE__, __LINE__, "option \"sharding_policy\": no such");
  // The last call counts, in either order.
  belay_options_set(options, "sharding_policy", "a text");
  ExpectCode(
      __FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
      belay_save(test->comm, PathOf(test, "sharding"), 9, state, options));
  ExpectMessage(__FILE__, __LINE__,
                "the function belay_options_set_sharding_policy");
  belay_options_set_sharding_policy(options, "each piece apart", "version=1",
                                    PiecesApart, NULL);
  ExpectCode(
      __FILE__, __LINE__, BELAY_OK,
      belay_save(test->comm, PathOf(test, "sharding"), 8, state, options));
  belay_options_set(options, "max_shard_size", "100");
  ExpectCode(
      __FILE__, __LINE__, BELAY_INVALID_ARGUMENT,
      belay_save(test->comm, PathOf(test, "sharding"), 9, state, options));
  ExpectMessage(__FILE__, __LINE__, "option \"max_shard_size\"");
}

void TestSharding(const struct c_test* test) {
  const int64_t global[2] = {4 * test->size, 3}, shape[2] = {4, 3};
  const int64_t offset[2] = {4 * test->rank, 0};
  struct policy policy = {0, 2, BELAY_OK};
  double u[4][3], v[4][3];
  int number = 5;
  belay_state* state = NULL;
  belay_options* options = NULL;
  for (int i = 0; i < 12; ++i) u[i / 3][i % 3] = 100 * test->rank + i;
  belay_state_create(&state);
  belay_state_add_piece(state, "u", BELAY_F64, 2, global, offset, shape, NULL,
                        u);
  belay_state_add_scalar(state, "number", BELAY_I32, &number);
  belay_options_create(&options);
  belay_options_set(options, "file_layout", "per_task");
  belay_options_set(options, "transfer", "hdf5");
  belay_options_set(options, "max_shard_size", "48");
  ExpectCode(
      __FILE__, __LINE__, BELAY_OK,
      belay_save(test->comm, PathOf(test, "limited"), 1, state, options));
  belay_options_free(&options);

  belay_options_create(&options);
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_options_set_sharding_policy(options, "rows", "version=1",
                                               GroupRows, &policy));
  for (int step = 1; step < 3; ++step) {
    ExpectCode(
        __FILE__, __LINE__, BELAY_OK,
        belay_save(test->comm, PathOf(test, "sharding"), step, state, options));
    ExpectInt(__FILE__, __LINE__, 1,
              HasFile(PathOf(test, "sharding"), step, 1, 2));
  }
  // On rank 0, for each task, and not again for the plan that is reused.
  ExpectInt(__FILE__, __LINE__, test->rank == 0 ? test->size : 0, policy.calls);
  memcpy(v, u, sizeof(u));
  memset(u, 0, sizeof(u));
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_restore(test->comm, PathOf(test, "sharding"), 2, state, NULL,
                           NULL));
  ExpectInt(__FILE__, __LINE__, 0, memcmp(u, v, sizeof(u)));
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_options_set_sharding_policy(options, "each piece apart",
                                               "version=1", PiecesApart, NULL));
  ExpectCode(
      __FILE__, __LINE__, BELAY_OK,
      belay_save(test->comm, PathOf(test, "sharding"), 3, state, options));
  ExpectInt(__FILE__, __LINE__, 1, HasFile(PathOf(test, "sharding"), 3, 1, 2));
  TestBadPolicies(test, state, options);
  belay_options_free(&options);
  belay_state_free(&state);
}
