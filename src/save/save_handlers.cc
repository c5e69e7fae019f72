// The handlers that have a part in the end of a save.
#include <algorithm>
#include <iterator>
#include <set>
#include <string>

#include "absl/strings/str_format.h"
#include "base/catch_exceptions.h"
#include "plan/stored/form_key.h"
#include "plan/stored/stored_values.h"
#include "save/save_stages.h"

namespace belay {
namespace {

// The handlers of that name with which rank 0 has listed values or, if it has
// listed none, that of the registry. Local.
std::vector<TypeHandlerPtr> HandlersNamed(const ListedSave& listed,
                                          const std::string& typestr) {
  std::vector<TypeHandlerPtr> handlers;
  for (const TypeHandlerPtr& handler : listed.listing.handlers) {
    if (handler->typestr() == typestr) handlers.push_back(handler);
  }
  const HandlerTable::Entry* entry =
      listed.origin.handlers->FindTypestr(typestr);
  if (handlers.empty() && entry != nullptr) {
    handlers.push_back(entry->handler);
  }
  return handlers;
}

}  // namespace

StatusOr<std::vector<TypeHandlerPtr>> FindFinalizers(const SaveTarget& target,
                                                     const ListedSave& listed,
                                                     const StoredValues& values,
                                                     StepInProgress& step) {
  std::vector<TypeHandlerPtr> finalizers;
  std::set<std::string> typestrs;
  for (size_t i = 0; i < values.typestr.size(); ++i) {
    const std::string& typestr = values.typestr[i];
    if (IsFormKey(values.key[i]) || !typestrs.insert(typestr).second) continue;
    std::vector<TypeHandlerPtr> handlers;
    const Status asked = CatchExceptions([&] {
      handlers = HandlersNamed(listed, typestr);
      std::ranges::copy_if(
          handlers, std::back_inserter(finalizers),
          [](const TypeHandlerPtr& one) { return one->HasFinalize(); });
      return absl::OkStatus();
    });
    if (!asked.ok()) {
      step.program_failed = true;
      return asked;
    }
    if (handlers.empty() && !IsStandardTypestr(typestr)) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "save \"%s\": another rank uses the handler \"%s\", which rank 0 "
          "does not have: register it on all ranks",
          target.path, typestr));
    }
  }
  return finalizers;
}

}  // namespace belay
