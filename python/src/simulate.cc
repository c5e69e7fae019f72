// belay.simulate: returns the counts of `belay simulate` as a dict.

#include "workload/simulate.h"

#include <pybind11/stl.h>

#include <string>

#include "errors.h"
#include "options.h"
#include "save_restore.h"

namespace belay::python {
namespace {

py::dict SaveOf(const Simulation& simulation) {
  const SimulatedSave& save = simulation.save;
  py::dict found;
  found["parallelism"] = ToString(simulation.from);
  found["ranks"] = simulation.from.num_ranks();
  found["arrays"] = save.num_arrays;
  found["boxes"] = save.num_listed;
  found["bytes"] = save.bytes;
  found["files"] = save.num_files;
  found["datasets"] = save.num_datasets;
  found["chunked_datasets"] = save.num_chunked;
  found["rounds"] = save.rounds;
  found["written_bytes"] = save.written_bytes;
  found["requests"] = save.requests;
  found["planning_messages"] = save.planning_messages;
  found["planning_bytes"] = save.planning_bytes;
  found["plan_seconds"] = save.plan_seconds;
  return found;
}

py::dict RestoreOf(const Simulation& simulation) {
  const SimulatedRestore& restore = simulation.restore;
  py::dict found;
  found["parallelism"] = ToString(*simulation.to);
  found["ranks"] = simulation.to->num_ranks();
  found["note"] = restore.note;
  found["needed_bytes"] = restore.needed_bytes;
  found["pieces"] = simulation.pieces;
  found["wanted_bytes"] = restore.wanted_bytes;
  found["read_bytes"] = restore.read_bytes;
  found["requests"] = restore.requests;
  found["delivered_bytes"] = restore.delivered_bytes;
  found["messages"] = restore.messages;
  found["message_bytes"] = restore.message_bytes;
  found["rounds"] = restore.rounds;
  found["plan_seconds"] = restore.plan_seconds;
  return found;
}

py::dict SimulateModel(py::handle model, const std::string& models,
                       const std::string& from, py::handle to,
                       const py::dict& given) {
  SimulationOptions options{
      .model = PathOf(model, "model"), .model_folders = {models}, .from = from};
  if (!to.is_none()) options.to = py::str(to);
  OptionReader reader(given);
  reader.Read("file_layout", options.file_layout);
  reader.Read("read_sharing", options.read_sharing);
  bool weights_only = false;
  reader.Read("weights_only", weights_only);
  options.adamw = !weights_only;
  reader.Read("divide", options.divide);
  reader.Read("ranks_per_node", options.ranks_per_node);
  reader.Read("pad_vocabulary", options.pad_vocabulary);
  reader.Finish();
  const Simulation simulation =
      Unlocked([&] { return RunSimulation(options); });
  py::dict found;
  found["model"] = simulation.model.name;
  found["parameters"] = NumParameters(simulation.model);
  found["save"] = SaveOf(simulation);
  if (simulation.to) found["restore"] = RestoreOf(simulation);
  return found;
}

}  // namespace

void DefineSimulate(py::module_& module) {
  module.def("simulate", &SimulateModel);
}

}  // namespace belay::python
