#include "save_restore.h"

#include <functional>
#include <optional>
#include <utility>

#include "belay/save_restore.h"
#include "belay/values/restore_values.h"
#include "comm.h"
#include "errors.h"
#include "options.h"
#include "state.h"

namespace belay::python {
namespace {

SaveResult SaveState(py::handle comm, py::handle directory, py::handle step,
                     py::handle state, const py::dict& given) {
  KeptComm& kept = KeptCommOf(comm);
  const CommUse use(kept.is_in_use);
  BoundState bound(Purpose::kSave, kept.comm.rank());
  SaveOptions options;
  std::string path;
  int64_t number = 0;
  PrepareTogether(kept.comm, DeadlineOf(given), [&] {
    path = PathOf(directory);
    number = StepOf(step).value_or(-1);
    OptionReader reader(given);
    ReadSaveOptions(reader, options);
    reader.Finish();
    bound.Bind(state);
  });
  options.cache = &kept.cache;
  return Unlocked(
      [&] { return Save(kept.comm, path, number, bound.state(), options); });
}

// Lets the program's arrays and a new structure take what was restored; agrees
// that this has worked. Collective.
py::object FinishTogether(const Comm& comm, double deadline_seconds,
                          const RestoreResult& result,
                          const std::function<py::object()>& state) {
  py::object restored;
  PrepareTogether(comm, deadline_seconds,
                  [&] { restored = RestoreResultOf(result, state()); });
  return restored;
}

// What both kinds of restore read.
struct RestoreCall {
  std::string path;
  std::optional<int64_t> step;
  RestoreOptions options;
};

RestoreCall CallOf(py::handle directory, py::handle step,
                   const py::dict& given) {
  RestoreCall call{PathOf(directory), StepOf(step), {}};
  OptionReader reader(given);
  ReadRestoreOptions(reader, call.options);
  reader.Finish();
  return call;
}

py::object RestoreState(py::handle comm, py::handle directory, py::handle state,
                        py::handle step, const py::dict& given) {
  KeptComm& kept = KeptCommOf(comm);
  const CommUse use(kept.is_in_use);
  BoundState bound(Purpose::kRestore, kept.comm.rank());
  RestoreCall call;
  PrepareTogether(kept.comm, DeadlineOf(given), [&] {
    call = CallOf(directory, step, given);
    bound.Bind(state);
  });
  const RestoreResult result = Unlocked([&] {
    return Restore(kept.comm, call.path, call.step, bound.state(),
                   call.options);
  });
  return FinishTogether(kept.comm, DeadlineOf(given), result,
                        [&] { return bound.Rebuild(); });
}

py::object RestoreLatest(py::handle comm, py::handle directory,
                         py::handle state, const py::dict& given) {
  KeptComm& kept = KeptCommOf(comm);
  const CommUse use(kept.is_in_use);
  BoundState bound(Purpose::kRestore, kept.comm.rank());
  RestoreCall call;
  PrepareTogether(kept.comm, DeadlineOf(given), [&] {
    call = CallOf(directory, py::none(), given);
    bound.Bind(state);
  });
  const std::optional<RestoreResult> result = Unlocked([&] {
    return RestoreLatestOrNothing(kept.comm, call.path, bound.state(),
                                  call.options);
  });
  if (!result) return py::none();
  return FinishTogether(kept.comm, DeadlineOf(given), *result,
                        [&] { return bound.Rebuild(); });
}

py::object RestoreAll(py::handle comm, py::handle directory, py::handle step,
                      const py::dict& given) {
  KeptComm& kept = KeptCommOf(comm);
  const CommUse use(kept.is_in_use);
  RestoreCall call;
  PrepareTogether(kept.comm, DeadlineOf(given),
                  [&] { call = CallOf(directory, step, given); });
  // The number and the path of the step come with the choice.
  const ChosenStep chosen = Unlocked([&] {
    return ChooseStep(kept.comm, call.path, call.step, call.options);
  });
  ValueTree tree = Unlocked([&] {
    return RestoreTree(kept.comm, chosen.path(), kLatestStep, call.options);
  });
  RestoreResult result;
  result.path = chosen.path();
  result.step = chosen.step();
  return FinishTogether(kept.comm, DeadlineOf(given), result,
                        [&] { return ObjectOf(tree); });
}

}  // namespace

void DefineSaveRestore(py::module_& module) {
  module.def("save", &SaveState);
  module.def("restore", &RestoreState);
  module.def("restore_latest", &RestoreLatest);
  module.def("restore_all", &RestoreAll);
  module.def("step_path", [](py::handle directory, int64_t step) {
    return StepPath(PathOf(directory), step);
  });
  module.def("list_steps", [](py::handle directory, const std::string& prefix) {
    const std::string path = PathOf(directory);
    return Unlocked([&] { return ListSteps(path, prefix); });
  });
}

}  // namespace belay::python
