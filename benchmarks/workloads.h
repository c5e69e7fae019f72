// The registry: every workload of the benchmark.

#ifndef BELAY_BENCHMARKS_WORKLOADS_H_
#define BELAY_BENCHMARKS_WORKLOADS_H_

#include <vector>

#include "race.h"

namespace belay::bench {

// 12 arrays, 1 GiB in total, partitioned by rows or by columns
// (workloads_large.cc).
Workload SaveRows();
Workload RestoreRows();
Workload SavePerTask();
Workload SaveColumns();
Workload AsyncLarge();
Workload RestoreColumns();

// One replica per rank, read once for all ranks (workloads_replicas.cc).
Workload SaveReplicas();
Workload RestoreReplicas();

// Pieces with ghost cells, and lists of particles (workloads_simulation.cc).
Workload SaveHalo2d();
Workload SaveHalo3d();
Workload SaveShortRows();
Workload SaveParticles();
Workload RestoreParticles();
Workload SaveIds();
Workload RestoreIds();
Workload CallsThatDoNothing();

// Large arrays as another dtype, and in chunks (workloads_args.cc).
Workload SaveWithArgs();

// Many small arrays (workloads_small.cc).
Workload Save1000();
Workload Save10000();
Workload Restore1000();
Workload Restore10000();
Workload AsyncSmall();

// Bytes that ranks send to plan the next save (workloads_small.cc).
Workload PlanningBytes10();
Workload PlanningBytes1000();
Workload PlanningBytes100000();

// GPT-2 with AdamW, tensor and data parallel (workloads_gpt2.cc).
Workload SaveGpt2();
Workload RestoreGpt2();
Workload AsyncGpt2();
Workload AsyncGpt2AfterTheCall();
Workload AsyncGpt2BeforeTheEnd();
Workload ReshardGpt2();
Workload SaveZero();

// Rows of a sharded variable, without files (workloads_sharded.cc).
Workload ScatterAddRows();
Workload LookUpRows();
Workload ReadAllRows();

// Planning alone, on one rank (workloads_plan.cc).
Workload PlanMaxShardSize();

// Planning for thousands of ranks, on one (workloads_models.cc).
Workload CoverOf1024();
Workload CoverOf2048();
Workload CoverOfGrid();
Workload FindPiecesOfMove();
Workload PlanOfMove();
Workload PlanOfMoveByBoxes();
Workload PlanOfLlama();

// Choosing the chunks of many arrays, on one rank (workloads_chunks.cc).
Workload ChooseChunks();

// The objects of a large program, on one rank (workloads_graph.cc).
Workload MergeObjectGraphs();

// Opening a checkpoint of many arrays, on one rank (workloads_reader.cc).
Workload OpenReader();

// The cost of a manager in a restore, and in a training (workloads_manager.cc).
Workload RestartRun();
Workload TrainAtAdvisedInterval();
Workload TrainWithSavesInTheBackground();
Workload TrainOnAllCores();

inline std::vector<Workload> AllWorkloads() {
  return {SaveRows(),
          RestoreRows(),
          SavePerTask(),
          SaveColumns(),
          RestoreColumns(),
          SaveReplicas(),
          RestoreReplicas(),
          SaveWithArgs(),
          SaveHalo2d(),
          SaveHalo3d(),
          SaveShortRows(),
          SaveParticles(),
          RestoreParticles(),
          SaveIds(),
          RestoreIds(),
          CallsThatDoNothing(),
          Save1000(),
          Save10000(),
          Restore1000(),
          Restore10000(),
          PlanningBytes10(),
          PlanningBytes1000(),
          PlanningBytes100000(),
          SaveGpt2(),
          RestoreGpt2(),
          ReshardGpt2(),
          SaveZero(),
          AsyncGpt2(),
          AsyncGpt2AfterTheCall(),
          AsyncGpt2BeforeTheEnd(),
          AsyncLarge(),
          AsyncSmall(),
          RestartRun(),
          TrainAtAdvisedInterval(),
          TrainWithSavesInTheBackground(),
          TrainOnAllCores(),
          ScatterAddRows(),
          LookUpRows(),
          ReadAllRows(),
          PlanMaxShardSize(),
          CoverOf1024(),
          CoverOf2048(),
          CoverOfGrid(),
          FindPiecesOfMove(),
          PlanOfMove(),
          PlanOfMoveByBoxes(),
          PlanOfLlama(),
          ChooseChunks(),
          MergeObjectGraphs(),
          OpenReader()};
}

}  // namespace belay::bench

#endif  // BELAY_BENCHMARKS_WORKLOADS_H_
