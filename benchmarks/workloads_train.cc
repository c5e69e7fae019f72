// The cost of saves in the background for a training.

#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "arrays.h"
#include "belay/checkpoint_manager.h"
#include "training_loop.h"
#include "workloads.h"

namespace belay::bench {
namespace {

constexpr int64_t kRowsPerRank = 640;  // 60 MiB

// A training loop with saves at an interval of steps.
struct SavingLoop {
  std::shared_ptr<TrainingLoop> loop;
  std::string name = "waiting";
  std::optional<AsyncOptions> async;
  int64_t every = 1;
  int64_t runs = 0;
  int64_t saves = 0;
};

Status TrainWithSaves(SavingLoop& saving) {
  TrainingLoop& loop = *saving.loop;
  ++saving.runs;
  saving.saves = 0;
  auto manager = CheckpointManager::Create(
      loop.checkpoint,
      absl::StrCat(loop.dir, "_", saving.name, "_", saving.runs),
      {.save_policy = {.save_interval_steps = saving.every,
                       .save_first_step = false},
       .async = saving.async,
       .retention = {.max_to_keep = 2},
       .save = {.durable = loop.durable}});
  if (!manager.ok()) return manager.status();
  for (int64_t i = 1; i <= loop.steps; ++i) {
    loop.Compute();
    const Status copied = manager->WaitForSnapshot();
    if (!copied.ok()) return copied;
    loop.Update();
    const StatusOr<bool> due = manager->ShouldSave(i);
    if (!due.ok()) return due.status();
    if (!*due) continue;
    const StatusOr<ManagedSave> saved = manager->Save(i);
    if (!saved.ok()) return saved.status();
    ++saving.saves;
  }
  return manager->Wait().status();
}

Contender TrainingWith(std::shared_ptr<SavingLoop> saving) {
  return {.name = saving->name,
          .run = [saving] { return TrainWithSaves(*saving); },
          .check = nullptr,
          .clean = nullptr,
          .detail =
              [saving] {
                if (saving->loop == nullptr) return std::string();
                return absl::StrFormat("%d steps, %d saves",
                                       saving->loop->steps, saving->saves);
              }};
}

// Returns the number of steps between two foreground saves at which saves make
// the loop slower by a fifth. Collective.
StatusOr<int64_t> StepsPerSave(SavingLoop waiting) {
  constexpr double kSlowdown = 0.2;
  constexpr int64_t kSteps = 480;
  constexpr int64_t kEvery = 16;
  TrainingLoop& loop = *waiting.loop;
  const int64_t steps = std::exchange(loop.steps, kSteps);
  waiting.every = kEvery;
  waiting.runs = -1000;                     // separate directories
  Status status = TrainWithSaves(waiting);  // warm
  const double start = MPI_Wtime();
  if (status.ok()) status = TrainWithSaves(waiting);
  const double with = MPI_Wtime() - start;
  for (int64_t i = 0; i < kSteps; ++i) loop.Step();
  const double without = MPI_Wtime() - start - with;
  loop.steps = steps;
  if (!status.ok()) return status;
  double every = kEvery * (with / without - 1) / kSlowdown;
  MPI_Bcast(&every, 1, MPI_DOUBLE, 0, loop.comm.raw());
  return std::max<int64_t>(1, static_cast<int64_t>(every));
}

int NumCores() { return static_cast<int>(std::thread::hardware_concurrency()); }

// Runs the contender only on the ranks of the loop; the others leave the cores
// to them.
Contender OnRanksOf(const Comm& part, Contender contender) {
  if (part.size() == 0) contender.run = [] { return absl::OkStatus(); };
  return contender;
}

// Compares the same training with saves of each kind and without saves, on one
// rank per core.
StatusOr<std::vector<Contender>> RaceTrainings(const Context& context,
                                               const Medium& medium,
                                               int cores) {
  const bool takes_part = context.comm->rank() < std::max(1, cores);
  StatusOr<Comm> split = context.comm->Split(takes_part ? 0 : -1);
  if (!split.ok()) return split.status();
  // Leaked on purpose: the process ends soon.
  const Comm& part = *new Comm(*std::move(split));
  std::vector<Contender> contenders;
  std::shared_ptr<TrainingLoop> loop;
  auto waiting = std::make_shared<SavingLoop>();
  Status status;
  if (takes_part) {
    loop = std::make_shared<TrainingLoop>(
        part, Scaled(context, kStepsOfLoop) / 4 + 1,
        Scaled(context, kRowsPerRank) * part.size());
    loop->dir = absl::StrCat(medium.dir, "/loop_on_", part.size());
    loop->durable = medium.durable;
    waiting->loop = loop;
    const StatusOr<int64_t> every = StepsPerSave(*waiting);
    status = every.status();
    if (every.ok()) waiting->every = *every;
  }
  WaitForAll(context.comm->raw());  // during the measurement of saves
  status = AllOk(*context.comm, status);
  if (!status.ok()) return status;
  auto background = std::make_shared<SavingLoop>(*waiting);
  background->name = "background";
  background->async.emplace();
  auto lazy = std::make_shared<SavingLoop>(*background);
  lazy->name = "lazy";
  lazy->async->snapshot = SnapshotMode::kLazy;
  contenders.push_back(OnRanksOf(part, WithoutCheckpoints(loop)));
  for (const auto& saving : {waiting, background, lazy}) {
    contenders.push_back(OnRanksOf(part, TrainingWith(saving)));
  }
  return contenders;
}

}  // namespace

Workload TrainWithSavesInTheBackground() {
  return {.title =
              "train on all cores but one, with saves that slow the loop "
              "by 20 % if it waits",
          .comparisons = {{"train.waiting", "waiting", "without", {}},
                          {.name = "train.async",
                           .contender = "background",
                           .baseline = "without",
                           .bar = 1.06,
                           .on_disk = true},
                          {.name = "train.lazy",
                           .contender = "lazy",
                           .baseline = "without",
                           .bar = 1.03,
                           .on_disk = true}},
          .make = [](const Context& context, const Medium& medium) {
            return RaceTrainings(context, medium, NumCores() - 1);
          }};
}

Workload TrainOnAllCores() {
  return {.title =
              "train on all cores, with saves that slow the loop by 20 % "
              "if it waits",
          .comparisons = {{.name = "train.async.busy",
                           .contender = "background",
                           .baseline = "waiting",
                           .bar = 1.0,
                           .on_disk = true}},
          .make = [](const Context& context, const Medium& medium) {
            return RaceTrainings(context, medium, NumCores());
          }};
}

}  // namespace belay::bench
