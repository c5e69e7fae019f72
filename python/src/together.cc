#include "together.h"

#include <cstdint>
#include <exception>
#include <optional>

#include "belay/save_restore.h"
#include "options.h"

namespace belay::python {
namespace {

std::string ObjectOf(py::handle directory, py::handle step) {
  try {
    const std::string path = PathOf(directory);
    const std::optional<int64_t> number = StepOf(step);
    return number ? StepPath(path, *number) : path;
  } catch (const std::exception&) {
    return "";
  }
}

}  // namespace

Call CallOn(const Comm& comm, double deadline_seconds, const std::string& name,
            py::handle directory, py::handle step) {
  return {comm, deadline_seconds, name, ObjectOf(directory, step)};
}

CommContext ContextOf(const Call& call, const char* stage) {
  std::string operation = call.name;
  if (!call.object.empty()) operation += " \"" + call.object + "\"";
  CommContext context{.comm = call.comm,
                      .deadline = Deadline(call.comm, call.deadline_seconds,
                                           operation, /*watchdog=*/false)};
  context.deadline.Enter(stage);
  return context;
}

}  // namespace belay::python
