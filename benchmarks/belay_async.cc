// Saves in the background: measures the call, the commit and the wait.

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "belay/async_saver.h"
#include "contenders.h"
#include "saver.h"

namespace belay::bench {
namespace {

struct BackgroundSaver {
  Saver saver;
  AsyncOptions options;
  std::optional<AsyncSaver> async;
  bool kept = true;
};

std::shared_ptr<BackgroundSaver> MakeSaver(const std::string& name,
                                           const Context& context,
                                           const Medium& medium,
                                           std::shared_ptr<Arrays> arrays) {
  auto background = std::make_shared<BackgroundSaver>();
  Saver& saver = background->saver;
  saver.comm = context.comm;
  saver.stages = context.stages;
  saver.state = MakeState(*arrays, arrays->buffer);
  saver.arrays = std::move(arrays);
  saver.dir = absl::StrCat(medium.dir, "/", name);
  saver.options.durable = medium.durable;
  // Ranks write different numbers of bytes.
  background->options.initial_staging_bytes =
      saver.arrays->plain_bytes + saver.arrays->plain_bytes / 8;
  return background;
}

Status BeginSave(BackgroundSaver& background) {
  Saver& saver = background.saver;
  return background.async
      ->Save(saver.dir, saver.step, saver.state, saver.options)
      .status();
}

void CreateSaver(BackgroundSaver& background) {
  background.async.emplace(*background.saver.comm, background.options);
}

void Take(const std::optional<SaveResult>& ended, Saver& saver) {
  if (!ended) return;
  saver.last = *ended;
  ++saver.step;
}

// Waits for the save, so that the check finds a complete step.
Status EndSave(BackgroundSaver& background) {
  StatusOr<std::optional<SaveResult>> ended = background.async->Wait();
  if (!ended.ok()) return ended.status();
  Take(*ended, background.saver);
  // The next save is then again a first save.
  if (!background.kept) CreateSaver(background);
  return absl::OkStatus();
}

Status CheckBackground(BackgroundSaver& background) {
  const Status status = EndSave(background);
  return status.ok() ? RestoreElsewhere(background.saver) : status;
}

Status CleanBackground(BackgroundSaver& background) {
  const Status status = EndSave(background);
  if (!status.ok()) return status;
  return RemoveLastStep(background.saver);
}

Contender ContenderOf(const std::string& name,
                      std::shared_ptr<BackgroundSaver> background,
                      std::function<Status()> run) {
  CreateSaver(*background);
  return {.name = name,
          .run = std::move(run),
          .check = [background] { return CheckBackground(*background); },
          .clean = [background] { return CleanBackground(*background); },
          .detail = [background] { return SaveText(background->saver); },
          .planning_bytes =
              [background] {
                return background->saver.last.counters.agreement_bytes;
              }};
}

// Begins a save, then computes and polls until it is committed.
Status SaveWhileComputing(BackgroundSaver& background, Computing& computing) {
  const Status begun = BeginSave(background);
  if (!begun.ok()) return begun;
  while (background.async->is_pending()) {
    computing.Compute();
    StatusOr<std::optional<SaveResult>> ended = background.async->Poll();
    if (!ended.ok()) return ended.status();
    Take(*ended, background.saver);
  }
  return absl::OkStatus();
}

// The thread copies while the program computes.
Status SaveLazily(BackgroundSaver& background, Computing& computing,
                  int pieces) {
  const Status begun = BeginSave(background);
  if (!begun.ok()) return begun;
  for (int i = 0; i < pieces; ++i) computing.Compute();
  return background.async->WaitForSnapshot();
}

// Begins a save while another one is in progress, for which it waits.
Status SaveAfterOther(BackgroundSaver& background) {
  Saver& saver = background.saver;
  ++saver.step;
  StatusOr<PendingSave> begun =
      background.async->Save(saver.dir, saver.step, saver.state, saver.options);
  if (!begun.ok()) return begun.status();
  if (!begun->finished) return absl::InternalError("no save was under way");
  saver.last = *begun->finished;
  return absl::OkStatus();
}

// Removes the last two steps.
Status CleanBoth(BackgroundSaver& background) {
  const Status before = RemoveLastStep(background.saver);
  return before.ok() ? CleanBackground(background) : before;
}

}  // namespace

Computing::Computing(const Comm& comm, bool on_all_cores)
    : computes_(comm.rank() <
                std::max<int>(
                    1, static_cast<int>(std::thread::hardware_concurrency()) -
                           (on_all_cores ? 0 : 1))),
      values_(size_t{1} << 18, 1) {}

void Computing::Compute() {
  if (!computes_) {
    // Sleep, to leave the free core free: a rank that polls all the time would
    // use it.
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return;
  }
  constexpr int kRounds = 20;
  for (int round = 0; round < kRounds; ++round) {
    for (float& value : values_) value = 0.5F * value + 1;
  }
}

Contender BelayAsyncSave(const std::string& name, const Context& context,
                         const Medium& medium, std::shared_ptr<Arrays> arrays,
                         bool kept) {
  auto background = MakeSaver(name, context, medium, std::move(arrays));
  background->kept = kept;
  return ContenderOf(name, background,
                     [background] { return BeginSave(*background); });
}

Contender BelayAsyncCommit(const std::string& name, const Context& context,
                           const Medium& medium, std::shared_ptr<Arrays> arrays,
                           std::shared_ptr<Computing> computing) {
  auto background = MakeSaver(name, context, medium, std::move(arrays));
  return ContenderOf(name, background, [background, computing] {
    return SaveWhileComputing(*background, *computing);
  });
}

Contender BelayAsyncWait(const std::string& name, const Context& context,
                         const Medium& medium, std::shared_ptr<Arrays> arrays,
                         std::shared_ptr<Computing> computing) {
  auto background = MakeSaver(name, context, medium, std::move(arrays));
  Contender contender = ContenderOf(
      name, background, [background] { return SaveAfterOther(*background); });
  contender.prepare = [background, computing] {
    const Status begun = BeginSave(*background);
    if (begun.ok()) computing->Compute();
    return begun;
  };
  contender.clean = [background] { return CleanBoth(*background); };
  return contender;
}

Contender BelayLazySave(const std::string& name, const Context& context,
                        const Medium& medium, std::shared_ptr<Arrays> arrays,
                        std::shared_ptr<Computing> computing, int pieces) {
  auto background = MakeSaver(name, context, medium, std::move(arrays));
  background->options.snapshot = SnapshotMode::kLazy;
  return ContenderOf(name, background, [background, computing, pieces] {
    return SaveLazily(*background, *computing, pieces);
  });
}

Contender ComputeOnly(const std::string& name,
                      std::shared_ptr<Computing> computing, int pieces) {
  return {.name = name, .run = [computing, pieces] {
            for (int i = 0; i < pieces; ++i) computing->Compute();
            return absl::OkStatus();
          }};
}

int PiecesFor(const Comm& comm, Computing& computing, double seconds) {
  constexpr int kTried = 20;
  MPI_Barrier(comm.raw());
  const double start = MPI_Wtime();
  for (int i = 0; i < kTried; ++i) computing.Compute();
  double took = MPI_Wtime() - start;
  MPI_Allreduce(MPI_IN_PLACE, &took, 1, MPI_DOUBLE, MPI_MAX, comm.raw());
  return std::max(1, static_cast<int>(seconds * kTried / took));
}

}  // namespace belay::bench
