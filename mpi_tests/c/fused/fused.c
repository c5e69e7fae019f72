// Several boxes of one array on each rank: a fused projection, gate and up, of
// a model with tensor parallelism, and experts that are dealt out in turn.
// Another number of ranks has other boxes.
//
// usage: fused DIR save|restore

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "belay/belay_c.h"

enum { kFeatures = 13, kWidth = 5, kHalves = 2, kExperts = 12, kSize = 3 };

// What a rank holds.
struct model {
  int64_t first;  // feature of this rank, in gate and in up
  int64_t count;
  double* weight;        // gate's rows, and up's behind them
  float* bias[kHalves];  // in memory of its own each
  int32_t experts[kExperts][kSize];
  int rank;
  int size;
};

static void Check(int code) { belay_check(code, __FILE__, __LINE__); }

static struct model Allocate(void) {
  struct model model = {.weight = NULL};
  MPI_Comm_rank(MPI_COMM_WORLD, &model.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &model.size);
  model.first = kFeatures * model.rank / model.size;
  model.count = kFeatures * (model.rank + 1) / model.size - model.first;
  const size_t rows = (size_t)model.count;
  model.weight = calloc(kHalves * rows * kWidth + 1, sizeof(double));
  for (int half = 0; half < kHalves; ++half) {
    model.bias[half] = calloc(rows + 1, sizeof(float));
  }
  return model;
}

static void Free(struct model* model) {
  free(model->weight);
  free(model->bias[0]);
  free(model->bias[1]);
}

static int IsMine(const struct model* model, int expert) {
  return expert % model->size == model->rank;
}

// Each call with the same key adds a box. `halves` is 2, or the mistake of 1.
static belay_state* Describe(struct model* model, int halves) {
  const int64_t weight[2] = {kHalves * kFeatures, kWidth};
  const int64_t shape[2] = {model->count, kWidth};
  const int64_t experts[2] = {kExperts, kSize}, one[2] = {1, kSize};
  belay_state* state = NULL;
  Check(belay_state_create(&state));
  for (int half = 0; half < halves; ++half) {
    const int64_t offset[2] = {half * kFeatures + model->first, 0};
    Check(belay_state_add_piece(state, "fc1/weight", BELAY_F64, 2, weight,
                                offset, shape, NULL,
                                model->weight + half * model->count * kWidth));
    Check(belay_state_add_piece(state, "fc1/bias", BELAY_F32, 1, weight, offset,
                                shape, NULL, model->bias[half]));
  }
  for (int i = 0; i < kExperts; ++i) {
    const int64_t offset[2] = {i, 0};
    if (!IsMine(model, i)) continue;
    Check(belay_state_add_piece(state, "experts", BELAY_I32, 2, experts, offset,
                                one, NULL, model->experts[i]));
  }
  return state;
}

// Returns how many values are not those of `step`, which `fill` sets.
static int64_t Visit(struct model* model, int64_t step, int fill) {
  int64_t wrong = 0;
  for (int half = 0; half < kHalves; ++half) {
    for (int64_t i = 0; i < model->count; ++i) {
      const int64_t row = half * kFeatures + model->first + i;
      float* const bias = &model->bias[half][i];
      if (fill) *bias = (float)(step * 100 + row);
      wrong += *bias != (float)(step * 100 + row);
      for (int64_t j = 0; j < kWidth; ++j) {
        double* const weight =
            &model->weight[(half * model->count + i) * kWidth + j];
        const double needed = (double)(step * 10000 + row * 100 + j);
        if (fill) *weight = needed;
        wrong += *weight != needed;
      }
    }
  }
  for (int i = 0; i < kExperts; ++i) {
    for (int j = 0; j < kSize && IsMine(model, i); ++j) {
      const int32_t needed = (int32_t)(step * 1000 + 10 * i + j);
      if (fill) model->experts[i][j] = needed;
      wrong += model->experts[i][j] != needed;
    }
  }
  return wrong;
}

// Step 1 in the foreground, step 2 in the background. A rank that forgets its
// boxes of up is an error on all ranks.
static int64_t Save(belay_comm* comm, const char* dir, struct model* model) {
  belay_saver* saver = NULL;
  belay_state* forgets = Describe(model, model->rank == 1 ? 1 : kHalves);
  belay_state* state = Describe(model, kHalves);
  int64_t wrong = 0;
  wrong += belay_save(comm, dir, 0, forgets, NULL) != BELAY_INVALID_ARGUMENT;
  wrong += strstr(belay_error_message(), "fc1/") == NULL;
  Visit(model, 1, 1);
  Check(belay_save(comm, dir, 1, state, NULL));
  Visit(model, 2, 1);
  Check(belay_saver_create(comm, NULL, &saver));
  Check(belay_saver_save(saver, dir, 2, state, NULL));
  Visit(model, 3, 1);
  Check(belay_saver_close(&saver));
  belay_state_free(&forgets);
  belay_state_free(&state);
  return wrong;
}

// The second box of a key may have moved, too.
static int64_t Restore(belay_comm* comm, const char* dir, struct model* model) {
  belay_state* state = Describe(model, kHalves);
  float* const up = calloc((size_t)model->count + 1, sizeof(float));
  int64_t wrong = 0;
  for (int64_t step = 2; step >= 1; --step) {
    Check(belay_restore(comm, dir, step, state, NULL, NULL));
    wrong += Visit(model, step, 0);
    if (step == 1) break;
    Check(belay_state_set_address(state, "fc1/bias", 1, up));
    free(model->bias[1]);
    model->bias[1] = up;
  }
  belay_state_free(&state);
  return wrong;
}

int main(int argc, char** argv) {
  belay_comm* comm = NULL;
  MPI_Init(&argc, &argv);
  struct model model = Allocate();
  Check(belay_comm_create(MPI_COMM_WORLD, &comm));
  if (argc != 3) MPI_Abort(MPI_COMM_WORLD, 2);
  int64_t wrong = strcmp(argv[2], "save") == 0 ? Save(comm, argv[1], &model)
                                               : Restore(comm, argv[1], &model);
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
  if (model.rank == 0) {
    printf("%s on %d ranks: %lld wrong\n", argv[2], model.size,
           (long long)wrong);
  }
  Free(&model);
  Check(belay_comm_free(&comm));
  MPI_Finalize();
  return wrong == 0 ? 0 : 1;
}
