// Saving and restoring a belay_state.

#include "belay/save_restore.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "belay/belay_c.h"
#include "belay/options.h"
#include "belay/status.h"
#include "c/error.h"
#include "c/handles.h"
#include "c/option_reader.h"
#include "c/prepare.h"

namespace {

using belay::Status;
using belay::StatusOr;
using belay::c::Call;
using belay::c::Give;
using belay::c::NullArgument;
using belay::c::PrepareTogether;

// The arguments that both kinds of restore take. Collective.
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

// Gives the program what a restore has changed. Collective.
Status FinishRestore(const belay_comm& comm, const char* dir,
                     const std::vector<std::string>& missing,
                     belay_state& state, const belay_options* given) {
  return PrepareTogether(comm.comm, belay::c::DeadlineOf(given),
                         belay::c::OperationOn("restore", dir),
                         [&] { return belay::c::GiveValues(missing, state); });
}

}  // namespace

int belay_save(belay_comm* comm, const char* dir, int64_t step,
               belay_state* state, const belay_options* options) {
  return Call([&]() -> Status {
    if (comm == nullptr) return NullArgument("comm");
    std::string path;
    belay::SaveOptions save;
    Status status =
        PrepareTogether(comm->comm, belay::c::DeadlineOf(options),
                        belay::c::OperationOn("save", dir), [&]() -> Status {
                          Status mine = belay::c::TakeText("dir", dir, path);
                          mine.Update(belay::c::TakeValues(state));
                          mine.Update(belay::c::ReadSaveOptions(options, save));
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
  return Call([&]() -> Status {
    if (comm == nullptr) return NullArgument("comm");
    std::string path;
    belay::RestoreOptions restore;
    Status status = PrepareRestore(*comm, dir, state, options, path, restore);
    if (!status.ok()) return status;
    std::optional<int64_t> number;
    if (step != BELAY_LATEST_STEP) number = step;
    const StatusOr<belay::RestoreResult> restored =
        belay::Restore(comm->comm, path, number, state->state, restore);
    if (!restored.ok()) {
      belay::c::GiveCountsOfResized(state->rows);
      return restored.status();
    }
    status = FinishRestore(*comm, dir, restored->missing, *state, options);
    if (status.ok()) Give(restored_step, restored->step);
    return status;
  });
}

int belay_restore_latest_or_nothing(belay_comm* comm, const char* dir,
                                    belay_state* state,
                                    const belay_options* options,
                                    int64_t* restored_step) {
  return Call([&]() -> Status {
    if (comm == nullptr) return NullArgument("comm");
    std::string path;
    belay::RestoreOptions restore;
    Status status = PrepareRestore(*comm, dir, state, options, path, restore);
    if (!status.ok()) return status;
    const StatusOr<std::optional<belay::RestoreResult>> restored =
        belay::RestoreLatestOrNothing(comm->comm, path, state->state, restore);
    if (!restored.ok()) {
      belay::c::GiveCountsOfResized(state->rows);
      return restored.status();
    }
    if (*restored) {
      status = FinishRestore(*comm, dir, (*restored)->missing, *state, options);
    }
    if (!status.ok()) return status;
    Give(restored_step, *restored ? (*restored)->step : BELAY_NO_STEP);
    return absl::OkStatus();
  });
}

int belay_list_steps(const char* dir, int64_t capacity, int64_t* steps,
                     int64_t* count) {
  return Call([&]() -> Status {
    if (dir == nullptr) return NullArgument("dir");
    if (steps == nullptr && capacity > 0) return NullArgument("steps");
    const StatusOr<std::vector<int64_t>> listed = belay::ListSteps(dir);
    if (!listed.ok()) return listed.status();
    const auto found = static_cast<int64_t>(listed->size());
    std::copy_n(listed->begin(), std::clamp<int64_t>(capacity, 0, found),
                steps);
    Give(count, found);
    return absl::OkStatus();
  });
}
