// The cost of a manager: a restart compared with a plain restore, and a
// training with checkpoints compared with one without.

#include <signal.h>

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
#include "belay/arrays/layout.h"
#include "belay/checkpoint.h"
#include "belay/checkpoint_manager.h"
#include "training_loop.h"
#include "workloads.h"

namespace belay::bench {
namespace {

constexpr int64_t kLoopRows = 2048;  // of each: 192 MiB in all
constexpr double kBudget = 0.035;

// Saves a run on one rank fewer. Collective.
Status SaveByFewer(const Comm& comm, const std::string& dir, int64_t rows) {
  const int fewer = std::max(1, comm.size() - 1);
  StatusOr<Comm> part = comm.Split(comm.rank() < fewer ? 0 : -1);
  if (!part.ok()) return part.status();
  Status status;
  if (comm.rank() < fewer) {
    LoopModel model(*part, rows);
    for (auto& tensor : model.tensors)
      std::fill(tensor.begin(), tensor.end(), 7);
    Checkpoint checkpoint(*part, {{"model", model}});
    auto manager = CheckpointManager::Create(checkpoint, dir);
    status = manager.status();
    for (int64_t step : {1, 2, 3}) {
      if (status.ok()) status = manager->Save(step).status();
    }
    status.Update(part->Close());
  }
  return AllOk(comm, status);
}

struct RunRestorer {
  explicit RunRestorer(const Comm& over, int64_t rows)
      : comm(over), model(over, rows), checkpoint(over, {{"model", model}}) {}

  Status Check() const {
    for (const auto& tensor : model.tensors) {
      for (float value : tensor) {
        if (value != 7) return absl::DataLossError("another value than saved");
      }
    }
    return absl::OkStatus();
  }

  const Comm& comm;
  LoopModel model;
  Checkpoint checkpoint;
  std::string dir;
};

Contender PlainRestore(std::shared_ptr<RunRestorer> restorer) {
  return {.name = "restore",
          .run =
              [restorer] {
                return restorer->checkpoint.Restore(restorer->dir).status();
              },
          .check = [restorer] { return restorer->Check(); }};
}

// Does everything that a job does in the library before its first step.
Status RestartOnce(RunRestorer& restorer) {
  auto manager = CheckpointManager::Create(
      restorer.checkpoint, restorer.dir,
      {.stop_signals = {SIGUSR1, SIGTERM}, .retention = {.max_to_keep = 3}});
  if (!manager.ok()) return manager.status();
  return manager->RestoreOrInitialize().status();
}

Contender Restart(std::shared_ptr<RunRestorer> restorer) {
  return {.name = "restart",
          .run = [restorer] { return RestartOnce(*restorer); },
          .check = [restorer] { return restorer->Check(); }};
}

Status TrainWithCheckpoints(TrainingLoop& loop) {
  ++loop.runs;
  loop.saves = 0;
  auto manager = CheckpointManager::Create(
      loop.checkpoint, absl::StrCat(loop.dir, "_", loop.runs),
      // Failures are so frequent that the budget determines the interval.
      {.save_policy = {.auto_interval =
                           AutoInterval{.mtbf_seconds = 1,
                                        .overhead_budget = kBudget}},
       .retention = {.max_to_keep = 2},
       .save = {.durable = loop.durable}});
  if (!manager.ok()) return manager.status();
  for (int64_t i = 0; i < loop.steps; ++i) {
    loop.Step();
    const StatusOr<bool> due = manager->ShouldSave(i);
    if (!due.ok()) return due.status();
    if (!*due) continue;
    const StatusOr<ManagedSave> saved = manager->Save(i);
    if (!saved.ok()) return saved.status();
    loop.saves += saved->outcome == SaveOutcome::kSaved ? 1 : 0;
  }
  return absl::OkStatus();
}

Contender WithCheckpoints(std::shared_ptr<TrainingLoop> loop) {
  return {.name = "with",
          .run = [loop] { return TrainWithCheckpoints(*loop); },
          .check = nullptr,
          .clean = nullptr,
          .detail =
              [loop] {
                return absl::StrFormat("%d steps, %d saves", loop->steps,
                                       loop->saves);
              }};
}

// Compares a manager that is called in each step with the cheapest way to
// agree.
StatusOr<std::vector<Contender>> RaceCallsThatDoNothing(const Context& context,
                                                        const Medium& medium) {
  struct Asked {
    State state;
    std::optional<CheckpointManager> manager;
    int64_t step = 0;
  };
  auto asked = std::make_shared<Asked>();
  auto manager = CheckpointManager::Create(
      *context.comm, asked->state, absl::StrCat(medium.dir, "/asked"),
      {.save_policy = {.save_interval_steps = int64_t{1} << 60,
                       .save_first_step = false},
       .save = {.durable = false}});
  if (!manager.ok()) return manager.status();
  asked->manager.emplace(*std::move(manager));
  constexpr int kCalls = 2000;
  Contender ask{.name = "ask", .run = [asked]() -> Status {
                  for (int i = 0; i < kCalls; ++i) {
                    const auto due = asked->manager->ShouldSave(++asked->step);
                    if (!due.ok()) return due.status();
                    if (*due) return absl::InternalError("a save is due");
                  }
                  return absl::OkStatus();
                }};
  Contender reduce{.name = "MPI_Allreduce", .run = [context]() -> Status {
                     int64_t word = 1;
                     for (int i = 0; i < kCalls; ++i) {
                       MPI_Allreduce(MPI_IN_PLACE, &word, 1, MPI_INT64_T,
                                     MPI_MAX, context.comm->raw());
                     }
                     return absl::OkStatus();
                   }};
  return std::vector<Contender>{std::move(ask), std::move(reduce)};
}

}  // namespace

Workload RestartRun() {
  return {.title = "restart on one rank more, beside a plain restore",
          .comparisons = {{"restore.restart", "restart", "restore", 1.2}},
          .make = [](const Context& context,
                     const Medium& medium) -> StatusOr<std::vector<Contender>> {
            const int64_t rows = Scaled(context, kLoopRows);
            auto restorer = std::make_shared<RunRestorer>(*context.comm, rows);
            restorer->dir = absl::StrCat(medium.dir, "/run");
            const Status saved =
                SaveByFewer(*context.comm, restorer->dir, rows);
            if (!saved.ok()) return saved;
            return std::vector<Contender>{PlainRestore(restorer),
                                          Restart(restorer)};
          }};
}

Workload CallsThatDoNothing() {
  return {.title = "ask a manager 2,000 times, which saves nothing",
          .comparisons = {{"manager.should_save", "ask", "MPI_Allreduce", 3}},
          .make = RaceCallsThatDoNothing};
}

Workload TrainAtAdvisedInterval() {
  return {.title = "train with checkpoints at the advised interval",
          .comparisons = {{"train.interval", "with", "without", 1 + kBudget}},
          .make = [](const Context& context,
                     const Medium& medium) -> StatusOr<std::vector<Contender>> {
            auto loop = std::make_shared<TrainingLoop>(
                *context.comm, Scaled(context, kStepsOfLoop), kRowsOfLoop);
            loop->dir = absl::StrCat(medium.dir, "/loop");
            loop->durable = medium.durable;
            return std::vector<Contender>{WithoutCheckpoints(loop),
                                          WithCheckpoints(loop)};
          }};
}

}  // namespace belay::bench
