// The handlers' part in the end of a save.
#include <set>
#include <string>

#include "absl/strings/str_format.h"
#include "base/catch_exceptions.h"
#include "plan/stored/stored_values.h"
#include "save/save_run.h"

namespace belay {
namespace {

// The handlers of that name with which rank 0 has listed values or, if it has
// listed none, that of the registry. Local.
std::vector<TypeHandlerPtr> HandlersNamed(const SaveRun& run,
                                          const std::string& typestr) {
  std::vector<TypeHandlerPtr> handlers;
  for (const TypeHandlerPtr& handler : run.listing.handlers) {
    if (handler->typestr() == typestr) handlers.push_back(handler);
  }
  const HandlerTable::Entry* entry = run.handlers->FindTypestr(typestr);
  if (handlers.empty() && entry != nullptr) {
    handlers.push_back(entry->handler);
  }
  return handlers;
}

}  // namespace

Status FindFinalizers(SaveRun& run) {
  std::set<std::string> typestrs;
  for (const std::string& typestr : run.cache.planned.saved.values.typestr) {
    if (!typestrs.insert(typestr).second) continue;
    const StatusOr<std::vector<TypeHandlerPtr>> handlers =
        CatchExceptions([&] { return HandlersNamed(run, typestr); });
    if (!handlers.ok()) {
      run.handler_failed = true;
      return handlers.status();
    }
    if (handlers->empty() && !IsStandardTypestr(typestr)) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "save \"%s\": another rank uses the handler \"%s\", which rank 0 "
          "does not have: register it on all ranks",
          run.path, typestr));
    }
    run.finalizers.insert(run.finalizers.end(), handlers->begin(),
                          handlers->end());
  }
  return absl::OkStatus();
}

Status FinalizeHandlers(SaveRun& run) {
  for (const TypeHandlerPtr& handler : run.finalizers) {
    const Status status =
        CatchExceptions([&] { return handler->Finalize(run.Directory()); });
    if (status.ok()) continue;
    run.handler_failed = true;
    return Status(status.code(),
                  absl::StrFormat("save \"%s\": finalize \"%s\": %s", run.path,
                                  handler->typestr(), status.message()));
  }
  return absl::OkStatus();
}

}  // namespace belay
