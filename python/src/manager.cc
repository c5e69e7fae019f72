#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "belay/checkpoint_manager.h"
#include "callbacks.h"
#include "comm.h"
#include "errors.h"
#include "options.h"
#include "save_restore.h"
#include "seen_state.h"
#include "state.h"

namespace belay::python {
namespace {

py::object ValueClass(const char* name) {
  return py::module_::import("belay._values").attr(name);
}

py::object ManagedSaveOf(const ManagedSave& saved) {
  py::dict fields;
  constexpr const char* kOutcomes[] = {"skipped", "saved", "begun", "failed"};
  const bool is_saved = saved.outcome == SaveOutcome::kSaved;
  fields["outcome"] = kOutcomes[static_cast<size_t>(saved.outcome)];
  fields["reason"] = saved.reason;
  fields["result"] = is_saved ? py::cast(saved.result) : py::none();
  fields["deleted"] = saved.deleted;
  fields["notes"] = saved.notes;
  fields["failure"] = saved.failure ? ErrorOf(*saved.failure) : py::none();
  fields["finished"] = saved.finished;
  return ValueClass("ManagedSave")(**fields);
}

py::object ManagedRestoreOf(const ManagedRestore& restored,
                            const py::object& state) {
  py::list skipped;
  for (const SkippedStep& step : restored.skipped) {
    skipped.append(py::make_tuple(step.step, ErrorOf(step.status)));
  }
  py::dict fields;
  fields["step"] = restored.step;
  fields["state"] = state;
  fields["result"] =
      restored.result ? RestoreResultOf(*restored.result, state) : py::none();
  fields["skipped"] = skipped;
  fields["set_aside"] = restored.set_aside;
  fields["deleted"] = restored.deleted;
  return ValueClass("ManagedRestore")(**fields);
}

// A CheckpointManager that gets a new state in each save and restore.
class StateManager {
 public:
  StateManager(py::handle comm, py::handle directory, const py::dict& given)
      : comm_(DuplicateOf(comm, DeadlineOf(given))),
        state_(std::make_unique<State>()),
        deadline_seconds_(DeadlineOf(given)) {
    try {
      Begin(directory, given);
    } catch (...) {  // on all ranks
      const py::gil_scoped_release unlock;
      comm_.Close().IgnoreError();
      throw;
    }
  }

  bool ShouldSave(py::handle step) {
    const CommUse use(is_in_use_);
    std::optional<int64_t> number;
    PrepareTogether(CallHere("decide whether to save"),
                    [&] { number = StepOf(step); });
    return Unlocked([&] { return manager_->ShouldSave(number); });
  }

  py::object Save(py::handle step, py::handle state, const py::dict& given) {
    const CommUse use(is_in_use_);
    const ReleaseAtEnd release(saved_);
    // A function returns the state; an error of it is one of all ranks.
    auto described = py::reinterpret_borrow<py::object>(state);
    BoundState* bound = nullptr;
    const Call call = CallHere("save");
    std::optional<int64_t> number;
    ManagedSaveOptions options;
    PrepareTogether(call, [&] {
      number = StepOf(step);
      OptionReader reader(given);
      reader.Read("metrics", options.metrics);
      reader.Read("force", options.force);
      reader.Read("tolerate_failure", options.tolerate_failure);
      reader.Read("metadata", options.metadata);
      reader.Finish();
      if (PyCallable_Check(described.ptr()) != 0) described = described();
      bound = &saved_.Bind(described, comm_);
    });
    const ManagedSave saved = WithState(
        bound->state(), [&] { return manager_->Save(number, options); });
    // Values that are copied later must not change before.
    bound_ = nullptr;
    if (saved.outcome == SaveOutcome::kBegun && is_lazy_) {
      bound_ = saved_.Take();
    }
    ThrowPendingExit();
    return ManagedSaveOf(saved);
  }

  // `load` is called with the restored state, unless it is None.
  py::object Restore(py::handle given_state, py::handle step,
                     const py::dict& given, py::handle load) {
    const CommUse use(is_in_use_);
    BoundState bound(Purpose::kRestore, Open());
    std::optional<int64_t> number;
    RestoreOptions options;
    const Call call = CallHere("restore");
    auto state = py::reinterpret_borrow<py::object>(given_state);
    PrepareTogether(call, [&] {
      if (PyCallable_Check(state.ptr()) != 0) state = state();
      number = StepOf(step);
      OptionReader reader(given);
      reader.ReadAll(options);
      reader.Finish();
      bound.Bind(state);
    });
    const MismatchPolicy asked = options.missing;
    // During the call, the manager's state is that of `bound`.
    const auto rebind = [&](std::vector<std::string> keys) {
      std::swap(*state_, bound.state());
      const absl::Cleanup swap = [&] { std::swap(*state_, bound.state()); };
      bound.BindStored(state, std::move(keys));
    };
    AgreeOnState(call, &bound, rebind, options);
    ManagedRestore restored = WithState(bound.state(), [&] {
      return number ? manager_->Restore(*number, options)
                    : manager_->RestoreLatest(options);
    });
    if (restored.result) {
      TakeAbsent(asked, bound, *restored.result);
      TakeForms(call, *restored.result, bound);
    }
    py::object result;
    PrepareTogether(call, [&] {
      result =
          ManagedRestoreOf(restored, restored.step ? bound.Rebuild() : state);
      if (restored.step && !load.is_none()) load(result.attr("state"));
    });
    return result;
  }

  void WaitForSnapshot() {
    const CommUse use(is_in_use_);
    Open();
    if (bound_) CompareCall("wait for a snapshot of");
    Unlocked([&] { return manager_->WaitForSnapshot(); });
    bound_ = nullptr;
  }

  py::object Wait() {
    const CommUse use(is_in_use_);
    CompareCall("wait for a save of");
    const std::optional<ManagedSave> ended =
        Unlocked([&] { return manager_->Wait(); });
    bound_ = nullptr;
    return ended ? ManagedSaveOf(*ended) : py::none();
  }

  void Reload() {
    const CommUse use(is_in_use_);
    CompareCall("reload");
    Unlocked([&] { return manager_->Reload(); });
  }

  void Delete(py::handle step) {
    const CommUse use(is_in_use_);
    int64_t number = 0;
    PrepareTogether(CallHere("delete a step of"),
                    [&] { number = NumberedStepOf(step); });
    Unlocked([&] { return manager_->Delete(number); });
  }

  // Waits for a save in the background and frees the manager.
  py::object Close() {
    if (!manager_) return py::none();
    const CommUse use(is_in_use_);
    CompareCall("close");
    const StatusOr<std::optional<ManagedSave>> ended =
        WithoutLock([&] { return manager_->Wait(); });
    const Status closed = WithoutLock([&] { return manager_->Close(); });
    Abandon();
    Unlocked([&] { return comm_.Close(); });
    ThrowIfError(ended.status());
    if (*ended && (*ended)->failure) ThrowIfError(*(*ended)->failure);
    ThrowIfError(closed);
    return *ended ? ManagedSaveOf(**ended) : py::none();
  }

  // Frees everything that can be freed without the other ranks.
  void Abandon() {
    if (manager_) stop_reason_ = manager_->ShouldStop();
    WithoutLock([&] { manager_.reset(); });
    bound_ = nullptr;
  }

  // Also works if the manager is closed.
  py::object ShouldStop() {
    if (manager_) stop_reason_ = manager_->ShouldStop();
    if (!stop_reason_) return py::none();
    return py::str(stop_reason_->ToString());
  }

  CheckpointManager& manager() {
    Open();
    return *manager_;
  }

 private:
  void Begin(py::handle directory, const py::dict& given) {
    std::string path;
    ManagerOptions options;
    PrepareTogether({comm_, deadline_seconds_, "manage", ""}, [&] {
      path = PathOf(directory);
      OptionReader reader(given);
      reader.ReadAll(options);
      reader.Finish();
    });
    directory_ = path;
    is_lazy_ = options.async && options.async->snapshot == SnapshotMode::kLazy;
    manager_.emplace(Unlocked([&] {
      return CheckpointManager::Create(comm_, *state_, path, options);
    }));
  }

  const Comm& Open() const {
    if (!manager_) {
      throw StatusError(
          absl::FailedPreconditionError("the CheckpointManager is closed"));
    }
    return comm_;
  }

  // A call of the manager, which must be open.
  Call CallHere(const char* name) const {
    return {Open(), deadline_seconds_, name, directory_};
  }

  // For calls without arguments: an error names the calls that the ranks made.
  void CompareCall(const char* name) const {
    PrepareTogether(CallHere(name), [] {});
  }

  // Calls a function of the manager for these values.
  template <typename F>
  typename std::invoke_result_t<F>::value_type WithState(State& state,
                                                         F function) {
    std::swap(*state_, state);
    auto result = WithoutLock(function);
    std::swap(*state_, state);
    if (!result.ok()) ThrowPendingExit();
    return ValueOrThrow(std::move(result));
  }

  Comm comm_;
  bool is_in_use_ = false;
  std::unique_ptr<State> state_;  // borrowed by the manager
  const double deadline_seconds_;
  std::string directory_;
  SavedState saved_;
  std::unique_ptr<BoundState> bound_;  // values that are copied later
  bool is_lazy_ = false;
  std::optional<CheckpointManager> manager_;
  std::optional<StopReason> stop_reason_;
};

}  // namespace

void DefineManager(py::module_& module) {
  py::class_<StateManager>(module, "StateManager")
      .def(py::init<py::handle, py::handle, const py::dict&>())
      .def("should_save", &StateManager::ShouldSave)
      .def("save", &StateManager::Save)
      .def("restore", &StateManager::Restore, py::arg("state"), py::arg("step"),
           py::arg("options"), py::arg("load") = py::none())
      .def("wait_for_snapshot", &StateManager::WaitForSnapshot)
      .def("wait", &StateManager::Wait)
      .def("reload", &StateManager::Reload)
      .def("delete", &StateManager::Delete)
      .def("close", &StateManager::Close)
      .def("abandon", &StateManager::Abandon)
      .def("should_stop", &StateManager::ShouldStop)
      .def("steps", [](StateManager& self) { return self.manager().Steps(); })
      .def("latest_step",
           [](StateManager& self) { return self.manager().LatestStep(); })
      .def("best_step",
           [](StateManager& self) {
             return ValueOrThrow(self.manager().BestStep());
           })
      .def("step_metrics",
           [](StateManager& self, int64_t step) {
             return ValueOrThrow(self.manager().StepMetrics(step));
           })
      .def("step_path",
           [](StateManager& self, int64_t step) {
             return self.manager().StepPath(step);
           })
      .def("notes", [](StateManager& self) { return self.manager().notes(); });
}

}  // namespace belay::python
