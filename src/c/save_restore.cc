// Saving and restoring a belay_state.
#include "belay/save_restore.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "belay/async_saver.h"
#include "belay/belay_c.h"
#include "belay/options.h"
#include "belay/status.h"
#include "belay/values/async_options.h"
#include "c/error.h"
#include "c/handles.h"
#include "c/options.h"
#include "core/status_macros.h"

namespace {

using belay::Status;
using belay::StatusOr;
using belay::c::Call;
using belay::c::Give;
using belay::c::NullArgument;
using belay::c::PrepareTogether;

// Reads the arguments that both kinds of restore take. Collective.
Status PrepareRestore(const belay_comm& comm, const char* dir,
                      belay_state* state, const belay_options* given,
                      std::string& path, belay::RestoreOptions& options) {
  return PrepareTogether(
      comm.comm, belay::c::DeadlineOf(given),
      belay::c::OperationOn("restore", dir), [&]() -> Status {
        Status status = belay::c::TakeText("dir", dir, path);
        status.Update(belay::c::TakeValues(state));
        status.Update(belay::c::ReadRestoreOptions(given, options));
        return status;
      });
}

// Returns the results of a restore to the program. Collective.
Status FinishRestore(const belay_comm& comm, const char* dir,
                     const std::vector<std::string>& missing,
                     belay_state& state, const belay_options* given) {
  return PrepareTogether(comm.comm, belay::c::DeadlineOf(given),
                         belay::c::OperationOn("restore", dir),
                         [&] { return belay::c::GiveValues(missing, state); });
}

// Restores with `function`, which gets directory and options. Collective.
template <typename F>
int Restore(belay_comm* comm, const char* dir, belay_state* state,
            const belay_options* options, int64_t* step, F function) {
  return Call({{"comm", comm}}, [&]() -> Status {
    std::string path;
    belay::RestoreOptions restore;
    BELAY_RETURN_IF_ERROR(
        PrepareRestore(*comm, dir, state, options, path, restore));
    const StatusOr<std::optional<belay::RestoreResult>> restored =
        function(path, restore);
    if (!restored.ok()) {
      belay::c::GiveCountsOfResized(state->rows);
      return restored.status();
    }
    if (*restored) {
      BELAY_RETURN_IF_ERROR(
          FinishRestore(*comm, dir, (*restored)->missing, *state, options));
    }
    Give(step, *restored ? (*restored)->step : BELAY_NO_STEP);
    return absl::OkStatus();
  });
}

}  // namespace

int belay_save(belay_comm* comm, const char* dir, int64_t step,
               belay_state* state, const belay_options* options) {
  return Call({{"comm", comm}}, [&]() -> Status {
    std::string path;
    belay::SaveOptions save;
    Status status =
        PrepareTogether(comm->comm, belay::c::DeadlineOf(options),
                        belay::c::OperationOn("save", dir), [&]() -> Status {
                          Status mine = belay::c::TakeText("dir", dir, path);
                          mine.Update(belay::c::TakeValues(state));
                          mine.Update(belay::c::ReadOptions(options, save));
                          return mine;
                        });
    if (!status.ok()) return status;
    save.cache = &comm->cache;
    return belay::Save(comm->comm, path, step, state->state, save).status();
  });
}

int belay_restore(belay_comm* comm, const char* dir, int64_t step,
                  belay_state* state, const belay_options* options,
                  int64_t* restored_step) {
  return Restore(
      comm, dir, state, options, restored_step,
      [&](const std::string& path, const belay::RestoreOptions& restore)
          -> StatusOr<std::optional<belay::RestoreResult>> {
        std::optional<int64_t> number;
        if (step != BELAY_LATEST_STEP) number = step;
        return belay::Restore(comm->comm, path, number, state->state, restore);
      });
}

int belay_restore_latest(belay_comm* comm, const char* dir, belay_state* state,
                         const belay_options* options, int64_t* restored_step) {
  return Restore(
      comm, dir, state, options, restored_step,
      [&](const std::string& path, const belay::RestoreOptions& restore) {
        return belay::RestoreLatest(comm->comm, path, state->state, restore);
      });
}

int belay_list_steps(const char* dir, int64_t capacity, int64_t* steps,
                     int64_t* count) {
  return Call({{"dir", dir}}, [&]() -> Status {
    if (steps == nullptr && capacity > 0) return NullArgument("steps");
    BELAY_ASSIGN_OR_RETURN(const std::vector<int64_t> listed,
                           belay::ListSteps(dir));
    const auto found = static_cast<int64_t>(listed.size());
    std::copy_n(listed.begin(), std::clamp<int64_t>(capacity, 0, found), steps);
    Give(count, found);
    return absl::OkStatus();
  });
}

// belay_saver: saves in the background.

namespace {

using belay::Status;
using belay::StatusOr;
using belay::c::Call;
using belay::c::NullArgument;
using belay::c::PrepareTogether;

// Records the step of a save that has ended.
void Note(belay_saver& saver, const std::optional<belay::SaveResult>& ended) {
  if (ended) saver.committed_step = ended->step;
}

}  // namespace

int belay_saver_create(belay_comm* comm, const belay_options* options,
                       belay_saver** result) {
  return Call([&]() -> Status {
    belay::SetLanguageOfProgram(belay::Language::kC);  // for later log messages
    if (result != nullptr) *result = nullptr;
    if (comm == nullptr) return NullArgument("comm");
    std::unique_ptr<belay_saver> handle;
    Status status = PrepareTogether(
        comm->comm, comm->deadline_seconds, "create a saver", [&]() -> Status {
          if (result == nullptr) return NullArgument("result");
          belay::AsyncOptions async;
          Status mine = belay::c::ReadOptions(options, async);
          if (!mine.ok()) return mine;
          handle.reset(
              new belay_saver{comm, belay::AsyncSaver(comm->comm, async)});
          return absl::OkStatus();
        });
    if (status.ok()) *result = handle.release();
    return status;
  });
}

int belay_saver_save(belay_saver* saver, const char* dir, int64_t step,
                     belay_state* state, const belay_options* options) {
  return Call({{"saver", saver}}, [&]() -> Status {
    std::string path;
    belay::SaveOptions save;
    Status status =
        PrepareTogether(saver->comm->comm, belay::c::DeadlineOf(options),
                        belay::c::OperationOn("save", dir), [&]() -> Status {
                          Status mine = belay::c::TakeText("dir", dir, path);
                          mine.Update(belay::c::TakeValues(state));
                          mine.Update(belay::c::ReadOptions(options, save));
                          return mine;
                        });
    if (!status.ok()) return status;
    BELAY_ASSIGN_OR_RETURN(const belay::PendingSave pending,
                           saver->saver.Save(path, step, state->state, save));
    Note(*saver, pending.finished);
    Note(*saver, pending.saved);
    return absl::OkStatus();
  });
}

int belay_saver_poll(belay_saver* saver, int* is_pending) {
  return Call({{"saver", saver}}, [&]() -> Status {
    const auto ended = saver->saver.Poll();
    belay::c::Give(is_pending, saver->saver.is_pending());
    if (ended.ok()) Note(*saver, *ended);
    return ended.status();
  });
}

int belay_saver_wait(belay_saver* saver) {
  return Call({{"saver", saver}}, [&]() -> Status {
    const auto ended = saver->saver.Wait();
    if (ended.ok()) Note(*saver, *ended);
    return ended.status();
  });
}

int belay_saver_wait_for_snapshot(belay_saver* saver) {
  return Call({{"saver", saver}},
              [&]() -> Status { return saver->saver.WaitForSnapshot(); });
}

int belay_saver_committed_step(const belay_saver* saver, int64_t* step) {
  return Call({{"saver", saver}}, [&]() -> Status {
    belay::c::Give(step, saver->committed_step);
    return absl::OkStatus();
  });
}

int belay_saver_close(belay_saver** saver) {
  return Call([&]() -> Status {
    if (saver == nullptr || *saver == nullptr) return absl::OkStatus();
    const std::unique_ptr<belay_saver> handle(std::exchange(*saver, nullptr));
    return handle->saver.Close();
  });
}
