// The handlers' part in the end of a save.
#include <set>
#include <string>

#include "absl/strings/str_format.h"
#include "base/guarded.h"
#include "checkpoint/save_run.h"
#include "model/stored_values.h"

namespace belay {
namespace {

// The handler of that name that the registry has, or that a value came with;
// null if rank 0 has none.
TypeHandlerPtr HandlerNamed(const SaveRun& run, const std::string& typestr) {
  const HandlerTable::Entry* entry = run.handlers->FindTypestr(typestr);
  if (entry != nullptr) return entry->handler;
  for (const TypeHandlerPtr& handler : run.listing.handlers) {
    if (handler->typestr() == typestr) return handler;
  }
  return nullptr;
}

}  // namespace

Status FindFinalizers(SaveRun& run) {
  std::set<std::string> typestrs;
  for (const std::string& typestr : run.cache.planned.saved.values.typestr) {
    if (!typestrs.insert(typestr).second) continue;
    StatusOr<TypeHandlerPtr> handler =
        Guarded([&] { return HandlerNamed(run, typestr); });
    if (!handler.ok()) return handler.status();
    if (*handler == nullptr && IsStandardTypestr(typestr)) continue;
    if (*handler == nullptr) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "save \"%s\": another rank uses the handler \"%s\", which rank 0 "
          "does not have: register it on all ranks",
          run.path, typestr));
    }
    run.finalizers.push_back(*std::move(handler));
  }
  return absl::OkStatus();
}

Status FinalizeHandlers(const SaveRun& run) {
  for (const TypeHandlerPtr& handler : run.finalizers) {
    const Status status =
        Guarded([&] { return handler->Finalize(run.Directory()); });
    if (status.ok()) continue;
    return Status(status.code(),
                  absl::StrFormat("save \"%s\": finalize \"%s\": %s", run.path,
                                  handler->typestr(), status.message()));
  }
  return absl::OkStatus();
}

}  // namespace belay
