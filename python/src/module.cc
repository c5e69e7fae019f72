// belay._core: what the package `belay` is made of. Its Python files document
// each function; here all arguments are objects, so that what is wrong with
// them on one rank is found inside the call and reaches all ranks.

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
