// What a manager costs: a restart beside a plain restore, and a training with
// checkpoints beside one without.

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
#include "workloads.h"

namespace belay::bench {
namespace {

constexpr int64_t kLoopTensors = 24;
constexpr int64_t kLoopColumns = 1024;
constexpr int64_t kLoopRows = 2048;  // of each: 192 MiB in all
constexpr int64_t kRowsOfLoop = 64;  // 6 MiB in all
constexpr int64_t kStepsOfLoop = 2400;
constexpr int kRoundsOfStep = 60;  // some milliseconds
constexpr double kBudget = 0.035;

// A model whose tensors are cut by rows over the ranks of `over`.
struct Model {
  Model(const Comm& over, int64_t rows)
      : layout(Layout::Create(Mesh::Create({{"rows", over.size()}}).value(),
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

// Fills a run by ranks that are one fewer. Collective.
Status SaveByFewer(const Comm& comm, const std::string& dir, int64_t rows) {
  const int fewer = std::max(1, comm.size() - 1);
  StatusOr<Comm> part = comm.Split(comm.rank() < fewer ? 0 : -1);
  if (!part.ok()) return part.status();
  Status status;
  if (comm.rank() < fewer) {
    Model model(*part, rows);
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

struct Restorer {
  explicit Restorer(const Comm& over, int64_t rows)
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
  Model model;
  Checkpoint checkpoint;
  std::string dir;
};

Contender PlainRestore(std::shared_ptr<Restorer> restorer) {
  return {.name = "restore",
          .run =
              [restorer] {
                return restorer->checkpoint.Restore(restorer->dir).status();
              },
          .check = [restorer] { return restorer->Check(); }};
}

// All that a job does in the library before its first step.
Status RestartOnce(Restorer& restorer) {
  auto manager = CheckpointManager::Create(
      restorer.checkpoint, restorer.dir,
      {.stop_signals = {SIGUSR1, SIGTERM}, .max_to_keep = 3});
  if (!manager.ok()) return manager.status();
  return manager->RestoreOrInitialize().status();
}

Contender Restart(std::shared_ptr<Restorer> restorer) {
  return {.name = "restart",
          .run = [restorer] { return RestartOnce(*restorer); },
          .check = [restorer] { return restorer->Check(); }};
}

// A training whose steps compute and talk to all ranks, as trainings do.
struct Loop {
  Loop(const Comm& over, int64_t num_steps)
      : comm(over),
        steps(num_steps),
        model(over, kRowsOfLoop),
        checkpoint(over, {{"model", model}}) {}

  void Step() {
    Compute();
    Update();
  }

  // Reads the model only.
  void Compute() {
    gradient.assign(model.tensors[0].begin(), model.tensors[0].end());
    for (int round = 0; round < kRoundsOfStep; ++round) {
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
  Model model;
  Checkpoint checkpoint;
  std::string dir;
  bool durable = false;
  double sum = 0;
  std::vector<float> gradient;
  int64_t saves = 0;
  int64_t runs = 0;
};

Contender WithoutCheckpoints(std::shared_ptr<Loop> loop) {
  return {.name = "without", .run = [loop]() -> Status {
            for (int64_t i = 0; i < loop->steps; ++i) loop->Step();
            return absl::OkStatus();
          }};
}

Status TrainWithCheckpoints(Loop& loop) {
  ++loop.runs;
  loop.saves = 0;
  auto manager = CheckpointManager::Create(
      loop.checkpoint, absl::StrCat(loop.dir, "_", loop.runs),
      // So many failures that the budget decides.
      {.auto_interval =
           AutoInterval{.mtbf_seconds = 1, .overhead_budget = kBudget},
       .max_to_keep = 2,
       .save = {.durable = loop.durable}});
  if (!manager.ok()) return manager.status();
  for (int64_t i = 0; i < loop.steps; ++i) {
    loop.Step();
    const StatusOr<bool> due = manager->ShouldSave(i);
    if (!due.ok()) return due.status();
    if (!*due) continue;
    const StatusOr<ManagedSave> saved = manager->Save(i);
    if (!saved.ok()) return saved.status();
    loop.saves += saved->saved ? 1 : 0;
  }
  return absl::OkStatus();
}

Contender WithCheckpoints(std::shared_ptr<Loop> loop) {
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

// A loop that saves every so many steps.
struct SavingLoop {
  std::shared_ptr<Loop> loop;
  std::string name = "waiting";
  std::optional<AsyncOptions> async;
  int64_t every = 1;
  int64_t runs = 0;
  int64_t saves = 0;
};

Status TrainWithSaves(SavingLoop& saving) {
  Loop& loop = *saving.loop;
  ++saving.runs;
  saving.saves = 0;
  auto manager = CheckpointManager::Create(
      loop.checkpoint,
      absl::StrCat(loop.dir, "_", saving.name, "_", saving.runs),
      {.save_interval_steps = saving.every,
       .save_first_step = false,
       .async = saving.async,
       .max_to_keep = 2,
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
  return manager->WaitUntilFinished().status();
}

Contender Saving(std::shared_ptr<SavingLoop> saving) {
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

// How many steps must lie between two saves, each of which the loop waits for,
// so that they make it a fifth slower. Collective.
StatusOr<int64_t> StepsPerSave(SavingLoop waiting) {
  constexpr double kSlowdown = 0.2;
  constexpr int64_t kSteps = 480;
  constexpr int64_t kEvery = 16;
  Loop& loop = *waiting.loop;
  const int64_t steps = std::exchange(loop.steps, kSteps);
  waiting.every = kEvery;
  waiting.runs = -1000;                     // directories of its own
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

// Lets only the ranks of the loop run it; the others leave them their cores.
Contender OnRanksOf(const Comm& part, Contender contender) {
  if (part.size() == 0) contender.run = [] { return absl::OkStatus(); };
  return contender;
}

// The same training with saves of each kind, and without any, on one rank for
// each of so many cores.
StatusOr<std::vector<Contender>> RaceTrainings(const Context& context,
                                               const Medium& medium,
                                               int cores) {
  const bool takes_part = context.comm->rank() < std::max(1, cores);
  StatusOr<Comm> split = context.comm->Split(takes_part ? 0 : -1);
  if (!split.ok()) return split.status();
  // Of a process that ends soon.
  const Comm& part = *new Comm(*std::move(split));
  std::vector<Contender> contenders;
  std::shared_ptr<Loop> loop;
  auto waiting = std::make_shared<SavingLoop>();
  Status status;
  if (takes_part) {
    loop = std::make_shared<Loop>(part, Scaled(context, kStepsOfLoop) / 2 + 1);
    loop->dir = absl::StrCat(medium.dir, "/loop_on_", part.size());
    loop->durable = medium.durable;
    waiting->loop = loop;
    const StatusOr<int64_t> every = StepsPerSave(*waiting);
    status = every.status();
    if (every.ok()) waiting->every = *every;
  }
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
    contenders.push_back(OnRanksOf(part, Saving(saving)));
  }
  return contenders;
}

// A manager that is asked in each step, and the cheapest way to agree.
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
      {.save_interval_steps = int64_t{1} << 60,
       .save_first_step = false,
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
            auto restorer = std::make_shared<Restorer>(*context.comm, rows);
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

Workload TrainAtAdvisedInterval() {
  return {.title = "train with checkpoints at the advised interval",
          .comparisons = {{"train.interval", "with", "without", 1 + kBudget}},
          .make = [](const Context& context,
                     const Medium& medium) -> StatusOr<std::vector<Contender>> {
            auto loop = std::make_shared<Loop>(*context.comm,
                                               Scaled(context, kStepsOfLoop));
            loop->dir = absl::StrCat(medium.dir, "/loop");
            loop->durable = medium.durable;
            return std::vector<Contender>{WithoutCheckpoints(loop),
                                          WithCheckpoints(loop)};
          }};
}

}  // namespace belay::bench
