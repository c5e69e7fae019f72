// A training that the manager workloads run with and without saves.

#ifndef BELAY_BENCHMARKS_TRAINING_LOOP_H_
#define BELAY_BENCHMARKS_TRAINING_LOOP_H_

#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "belay/arrays/layout.h"
#include "belay/checkpoint.h"
#include "race.h"

namespace belay::bench {

inline constexpr int64_t kLoopTensors = 24;
inline constexpr int64_t kLoopColumns = 1024;
inline constexpr int64_t kRowsOfLoop = 64;  // 6 MiB in all
inline constexpr int64_t kStepsOfLoop = 2400;
inline constexpr int64_t kRoundsOfStep = 60;  // some milliseconds

// A model whose tensors are partitioned by rows over the ranks of `over`.
struct LoopModel {
  LoopModel(const Comm& over, int64_t rows)
      : layout(
            Layout::Create(belay::Mesh::Create({{"rows", over.size()}}).value(),
                           {{"rows"}, {}})
                .value()),
        shape({rows, kLoopColumns}) {
    const Box mine = layout.LocalBox(shape, over.rank()).value();
    tensors.assign(kLoopTensors,
                   std::vector<float>(NumElements(mine.shape), 1));
  }

  void Track(Tracker& tracker) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      tracker.Child(absl::StrCat("tensor_", i),
                    TrackedValue(layout, shape, tensors[i]));
    }
  }

  Layout layout;
  Shape shape;
  std::vector<std::vector<float>> tensors;
};

// A training whose steps compute and communicate with all ranks.
struct TrainingLoop {
  // The duration of a step does not depend on `rows`.
  TrainingLoop(const Comm& over, int64_t num_steps, int64_t rows)
      : comm(over),
        steps(num_steps),
        rounds(std::max<int64_t>(1, kRoundsOfStep * kRowsOfLoop / rows)),
        model(over, rows),
        checkpoint(over, {{"model", model}}) {}

  void Step() {
    Compute();
    Update();
  }

  // Only reads the model. Not inlined, so that all trainings run the same code.
  [[gnu::noinline]] void Compute() {
    gradient.assign(model.tensors[0].begin(), model.tensors[0].end());
    for (int64_t round = 0; round < rounds; ++round) {
      for (float& value : gradient) value = 0.5F * value + 1;
      for (float value : gradient) sum += value;
    }
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_MAX, comm.raw());
  }

  void Update() {
    std::copy(gradient.begin(), gradient.end(), model.tensors[0].begin());
  }

  const Comm& comm;
  int64_t steps;
  int64_t rounds;
  LoopModel model;
  Checkpoint checkpoint;
  std::string dir;
  bool durable = false;
  double sum = 0;
  std::vector<float> gradient;
  int64_t saves = 0;
  int64_t runs = 0;
};

inline Contender WithoutCheckpoints(std::shared_ptr<TrainingLoop> loop) {
  return {.name = "without", .run = [loop]() -> Status {
            for (int64_t i = 0; i < loop->steps; ++i) loop->Step();
            return absl::OkStatus();
          }};
}

}  // namespace belay::bench

#endif  // BELAY_BENCHMARKS_TRAINING_LOOP_H_
