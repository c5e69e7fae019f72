// belay._core, on which the package `belay` is built. The Python files document
// each function. Here all arguments are objects, so that an invalid argument on
// one rank is found inside the collective call and reported on all ranks.

#include <pybind11/pybind11.h>

#include "belay/manager/stop_reason.h"
#include "belay/version.h"
#include "errors.h"
#include "log.h"
#include "save_restore.h"

PYBIND11_MODULE(_core, module) {
  namespace python = belay::python;
  python::RegisterErrors();
  python::DefineLog(module);
  python::DefineLayouts(module);
  python::DefineResults(module);
  python::DefineSaveRestore(module);
  python::DefineManager(module);
  python::DefineAsync(module);
  python::DefineReader(module);
  python::DefineVariable(module);
  python::DefineCopies(module);
  python::DefineSimulate(module);
  module.attr("version") = BELAY_VERSION;
  module.attr("STOPPED_EXIT_CODE") = belay::kStoppedExitCode;
}
