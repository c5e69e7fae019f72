// belay_manager: the steps of a run. belay_run: all that a run consists of.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "belay/belay_c.h"
#include "belay/checkpoint_manager.h"
#include "belay/manager/manager_options.h"
#include "belay/options.h"
#include "belay/status.h"
#include "c/error.h"
#include "c/handles.h"
#include "c/options.h"
#include "core/log.h"
#include "core/option_text.h"
#include "core/status_macros.h"

namespace {

using belay::CheckpointManager;
using belay::RestoreOptions;
using belay::Status;
using belay::StatusOr;
using belay::c::Call;
using belay::c::Give;
using belay::c::NullArgument;
using belay::c::PrepareTogether;

// Calls the program's function, and converts its code to a Status.
Status Initialize(const belay_manager& manager) {
  if (manager.initialize == nullptr) return absl::OkStatus();
  const int code = manager.initialize(manager.context);
  if (code == BELAY_OK) return absl::OkStatus();
  const bool is_known = *belay_code_name(code) != '\0';
  return Status(static_cast<absl::StatusCode>(is_known ? code : BELAY_UNKNOWN),
                absl::StrFormat("initialize returned the code %d", code));
}

// Checks and reads the input of a save or a restore. Collective.
Status Prepare(const belay_manager& manager, const char* operation,
               const belay_options* given, RestoreOptions* options) {
  return PrepareTogether(
      manager.comm->comm, manager.deadline_seconds, operation, [&]() -> Status {
        Status mine = belay::c::TakeValues(manager.state);
        if (options != nullptr) {
          mine.Update(belay::c::ReadRestoreOptions(given, *options));
        }
        return mine;
      });
}

// Returns the results of a restore to the program. Collective.
Status Finish(const belay_manager& manager,
              const StatusOr<belay::ManagedRestore>& restored, int64_t* step) {
  if (!restored.ok()) {
    belay::c::GiveCountsOfResized(manager.state->rows);
    return restored.status();
  }
  const std::vector<std::string> missing =
      restored->result ? restored->result->missing : std::vector<std::string>();
  Status status;
  if (restored->step) {
    status = PrepareTogether(
        manager.comm->comm, manager.deadline_seconds, "restore",
        [&] { return belay::c::GiveValues(missing, *manager.state); });
  }
  if (status.ok()) Give(step, restored->step.value_or(BELAY_NO_STEP));
  return status;
}

bool IsSaved(belay::SaveOutcome outcome) {
  return outcome == belay::SaveOutcome::kSaved ||
         outcome == belay::SaveOutcome::kBegun;
}

// Reads the options, restores with `function`, and returns the results to the
// program. Collective.
template <typename F>
int Restore(belay_manager* manager, const belay_options* options, int64_t* step,
            F function) {
  return Call({{"manager", manager}}, [&]() -> Status {
    RestoreOptions restore;
    BELAY_RETURN_IF_ERROR(Prepare(*manager, "restore", options, &restore));
    return Finish(*manager, function(*manager->manager, restore), step);
  });
}

// Saves a step if it is due. Collective.
StatusOr<belay::SaveOutcome> SaveIfDue(belay_manager& manager, int64_t step,
                                       bool force) {
  const Status status = Prepare(manager, "save", nullptr, nullptr);
  if (!status.ok()) return status;
  belay::ManagedSaveOptions options;
  options.force = force;
  if (!manager.metrics.empty()) options.metrics = manager.metrics;
  const StatusOr<belay::ManagedSave> saved =
      manager.manager->Save(step, options);
  if (!saved.ok()) return saved.status();
  if (IsSaved(saved->outcome)) manager.metrics.clear();
  return saved->outcome;
}

}  // namespace

int belay_manager_create(belay_comm* comm, belay_state* state, const char* dir,
                         const belay_options* options, belay_manager** result) {
  return Call([&]() -> Status {
    belay::SetLanguageOfProgram(belay::Language::kC);  // for later log messages
    if (result != nullptr) *result = nullptr;
    if (comm == nullptr) return NullArgument("comm");
    std::unique_ptr<belay_manager> handle;
    std::string path;
    belay::ManagerOptions manager;
    const double deadline = belay::c::DeadlineOf(options);
    Status status = PrepareTogether(
        comm->comm, deadline, belay::c::OperationOn("manage", dir),
        [&]() -> Status {
          if (result == nullptr) return NullArgument("result");
          Status mine = belay::c::TakeText("dir", dir, path);
          mine.Update(belay::c::TakeValues(state));
          mine.Update(belay::c::ReadOptions(options, manager));
          handle.reset(new belay_manager{comm, state, deadline});
          manager.init_fn = [own = handle.get()] { return Initialize(*own); };
          return mine;
        });
    if (!status.ok()) return status;
    manager.save.cache = &comm->cache;
    StatusOr<CheckpointManager> created =
        CheckpointManager::Create(comm->comm, state->state, path, manager);
    if (!created.ok()) return created.status();
    handle->manager.emplace(*std::move(created));
    *result = handle.release();
    return absl::OkStatus();
  });
}

int belay_manager_restore_or_initialize(belay_manager* manager,
                                        const belay_options* options,
                                        int (*initialize)(void* context),
                                        void* context, int64_t* restored_step) {
  return Restore(manager, options, restored_step,
                 [&](CheckpointManager& run, const RestoreOptions& restore) {
                   manager->initialize = initialize;
                   manager->context = context;
                   auto restored = run.RestoreOrInitialize(restore);
                   manager->initialize = nullptr;
                   return restored;
                 });
}

int belay_manager_restore_latest(belay_manager* manager,
                                 const belay_options* options,
                                 int64_t* restored_step) {
  return Restore(manager, options, restored_step,
                 [](CheckpointManager& run, const RestoreOptions& restore) {
                   return run.RestoreLatest(restore);
                 });
}

int belay_manager_restore(belay_manager* manager, int64_t step,
                          const belay_options* options) {
  return Restore(manager, options, nullptr,
                 [&](CheckpointManager& run, const RestoreOptions& restore) {
                   return run.Restore(step, restore);
                 });
}

int belay_manager_should_save(belay_manager* manager, int64_t step,
                              int* should_save) {
  return Call({{"manager", manager}}, [&]() -> Status {
    const StatusOr<bool> answer = manager->manager->ShouldSave(step);
    if (answer.ok()) Give(should_save, *answer);
    return answer.status();
  });
}

int belay_manager_set_metric(belay_manager* manager, const char* name,
                             double value) {
  return Call({{"manager", manager}, {"name", name}}, [&]() -> Status {
    manager->metrics[name] = value;
    return absl::OkStatus();
  });
}

int belay_manager_save(belay_manager* manager, int64_t step, int force,
                       int* saved) {
  return Call({{"manager", manager}}, [&]() -> Status {
    BELAY_ASSIGN_OR_RETURN(const belay::SaveOutcome outcome,
                           SaveIfDue(*manager, step, force != 0));
    Give(saved, IsSaved(outcome));
    return absl::OkStatus();
  });
}

int belay_manager_should_stop(const belay_manager* manager, int* should_stop) {
  return Call({{"manager", manager}}, [&]() -> Status {
    Give(should_stop, manager->manager->ShouldStop().has_value());
    return absl::OkStatus();
  });
}

int belay_manager_latest_step(const belay_manager* manager, int64_t* step) {
  return Call({{"manager", manager}}, [&]() -> Status {
    Give(step, manager->manager->LatestStep().value_or(BELAY_NO_STEP));
    return absl::OkStatus();
  });
}

int belay_manager_wait(belay_manager* manager) {
  return Call({{"manager", manager}},
              [&]() -> Status { return manager->manager->Wait().status(); });
}

int belay_manager_wait_for_snapshot(belay_manager* manager) {
  return Call({{"manager", manager}},
              [&]() -> Status { return manager->manager->WaitForSnapshot(); });
}

int belay_manager_close(belay_manager** manager) {
  return Call([&]() -> Status {
    if (manager == nullptr || *manager == nullptr) return absl::OkStatus();
    const std::unique_ptr<belay_manager> handle(
        std::exchange(*manager, nullptr));
    return handle->manager->Close();
  });
}

// --- belay_run ---

namespace {

// Reads a text of options; null: none. The function that gets them returns its
// mistakes.
belay_options OptionsOf(const char* text) {
  belay_options options;
  if (text == nullptr) return options;
  options.status = belay::ParseOptionTexts(text, options.texts);
  return options;
}

// Returns the error of a function of this interface.
Status StatusOf(int code) {
  return code == BELAY_OK ? absl::OkStatus()
                          : Status(static_cast<absl::StatusCode>(code),
                                   belay_error_message());
}

}  // namespace

int belay_run_open(MPI_Comm comm, const char* dir, const char* options,
                   belay_run** result) {
  return Call([&]() -> Status {
    if (result != nullptr) *result = nullptr;
    belay::LogInfoByDefault();
    const belay_options given = OptionsOf(options);
    const double deadline = belay::c::DeadlineOf(&given);
    BELAY_ASSIGN_OR_RETURN(belay::Comm own,
                           belay::Comm::Duplicate(comm, deadline));
    auto run = std::make_unique<belay_run>(belay_run{
        .comm = {.comm = std::move(own), .deadline_seconds = deadline}});
    const Status status = StatusOf(
        belay_manager_create(&run->comm, &run->state, dir, &given,
                             result == nullptr ? nullptr : &run->manager));
    if (status.ok()) {
      *result = run.release();
    } else {  // on all ranks alike
      run->comm.comm.Close().IgnoreError();
    }
    return status;
  });
}

belay_state* belay_run_state(belay_run* run) {
  return run == nullptr ? nullptr : &run->state;
}

belay_manager* belay_run_manager(belay_run* run) {
  return run == nullptr ? nullptr : run->manager;
}

belay_comm* belay_run_comm(belay_run* run) {
  return run == nullptr ? nullptr : &run->comm;
}

int belay_run_restore(belay_run* run, const char* options,
                      int64_t* restored_step) {
  return Call({{"run", run}}, [&]() -> Status {
    const belay_options given = OptionsOf(options);
    return StatusOf(
        belay_manager_restore_latest(run->manager, &given, restored_step));
  });
}

int belay_run_step(belay_run* run, int64_t step, int* outcome) {
  return Call({{"run", run}}, [&]() -> Status {
    BELAY_ASSIGN_OR_RETURN(const bool is_due,
                           run->manager->manager->ShouldSave(step));
    Give(outcome, BELAY_STEP_SKIPPED);
    if (!is_due) return absl::OkStatus();
    BELAY_ASSIGN_OR_RETURN(const belay::SaveOutcome done,
                           SaveIfDue(*run->manager, step, /*force=*/false));
    Give(outcome, done);
    return absl::OkStatus();
  });
}

int belay_run_should_stop(const belay_run* run, int* should_stop) {
  return Call({{"run", run}}, [&]() -> Status {
    return StatusOf(belay_manager_should_stop(run->manager, should_stop));
  });
}

int belay_run_close(belay_run** run) {
  return Call([&]() -> Status {
    if (run == nullptr || *run == nullptr) return absl::OkStatus();
    const std::unique_ptr<belay_run> handle(std::exchange(*run, nullptr));
    Status status = StatusOf(belay_manager_close(&handle->manager));
    status.Update(handle->comm.comm.Close());
    return status;
  });
}
