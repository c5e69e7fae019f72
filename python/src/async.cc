#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <utility>

#include "belay/async_saver.h"
#include "belay/save_restore.h"
#include "callbacks.h"
#include "comm.h"
#include "errors.h"
#include "options.h"
#include "save_restore.h"
#include "seen_state.h"

namespace belay::python {
namespace {

py::dict PendingOf(const PendingSave& pending) {
  py::dict fields;
  fields["path"] = pending.path;
  fields["step"] = pending.step;
  fields["staged_bytes"] = pending.staged_bytes;
  fields["saved"] = pending.saved;
  fields["note"] = pending.note;
  fields["finished"] = pending.finished;
  return fields;
}

// An AsyncSaver with its own communicator.
class StateSaver {
 public:
  StateSaver(py::handle comm, const py::dict& given)
      : comm_(DuplicateOf(comm, DeadlineOf(given))),
        deadline_seconds_(DeadlineOf(given)) {
    AsyncOptions options;
    try {
      PrepareTogether({comm_, deadline_seconds_, "create a saver", ""}, [&] {
        OptionReader reader(given);
        reader.ReadAll(options);
        reader.Take("deadline_seconds");  // already read by DeadlineOf
        reader.Finish();
      });
    } catch (...) {  // on all ranks
      const py::gil_scoped_release unlock;
      comm_.Close().IgnoreError();
      throw;
    }
    is_lazy_ = options.snapshot == SnapshotMode::kLazy;
    saver_.emplace(comm_, options);
  }

  py::dict Save(py::handle directory, py::handle step, py::handle state,
                const py::dict& given) {
    const CommUse use(is_in_use_);
    const ReleaseAtEnd release(state_);
    BoundState* bound = nullptr;
    Open();
    SaveOptions options;
    std::string path;
    int64_t number = 0;
    const Call call = CallOn(comm_, DeadlineOf(given), "save", directory, step);
    PrepareTogether(call, [&] {
      path = PathOf(directory);
      number = NumberedStepOf(step);
      OptionReader reader(given);
      reader.ReadAll(options);
      reader.Finish();
      bound = &state_.Bind(state, comm_);
    });
    const PendingSave pending = UnlockedWithCallbacks(call, [&] {
      return saver_->Save(path, number, bound->state(), options);
    });
    // Values that are copied later must not change before.
    if (is_lazy_ && !pending.saved) bound_ = state_.Take();
    return PendingOf(pending);
  }

  void WaitForSnapshot() {
    const CommUse use(is_in_use_);
    Open();
    if (bound_) CompareCall("wait for a snapshot");
    Unlocked([&] { return saver_->WaitForSnapshot(); });
    bound_ = nullptr;
  }

  std::optional<SaveResult> Poll() {
    const CommUse use(is_in_use_);
    Open();
    return Unlocked([&] { return saver_->Poll(); });
  }

  std::optional<SaveResult> Wait() {
    const CommUse use(is_in_use_);
    Open();
    std::optional<SaveResult> ended = Unlocked([&] { return saver_->Wait(); });
    bound_ = nullptr;
    return ended;
  }

  bool IsPending() const { return saver_ && saver_->is_pending(); }

  void Close() {
    if (!saver_) return;
    const CommUse use(is_in_use_);
    // Other threads may poll until the save has ended.
    const Status closed = WithoutLock([&] { return saver_->Close(); });
    CompareCall("close a saver");
    Abandon();
    Unlocked([&] { return comm_.Close(); });
    ThrowIfError(closed);
  }

  // Frees everything that can be freed without the other ranks.
  void Abandon() {
    WithoutLock([&] { saver_.reset(); });
    bound_ = nullptr;
  }

 private:
  const Comm& Open() const {
    if (!saver_) {
      throw StatusError(
          absl::FailedPreconditionError("the AsyncSaver is closed"));
    }
    return comm_;
  }

  // For calls without arguments: an error names the calls that the ranks made.
  void CompareCall(const char* name) const {
    PrepareTogether({comm_, deadline_seconds_, name, ""}, [] {});
  }

  Comm comm_;
  const double deadline_seconds_;
  bool is_in_use_ = false;
  bool is_lazy_ = false;
  SavedState state_;
  std::unique_ptr<BoundState> bound_;  // values that are copied later
  std::optional<AsyncSaver> saver_;
};

}  // namespace

void DefineAsync(py::module_& module) {
  py::class_<StateSaver>(module, "StateSaver")
      .def(py::init<py::handle, const py::dict&>())
      .def("save", &StateSaver::Save)
      .def("wait_for_snapshot", &StateSaver::WaitForSnapshot)
      .def("poll", &StateSaver::Poll)
      .def("wait", &StateSaver::Wait)
      .def("is_pending", &StateSaver::IsPending)
      .def("close", &StateSaver::Close)
      .def("abandon", &StateSaver::Abandon);
}

}  // namespace belay::python
