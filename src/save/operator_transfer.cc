#include "save/operator_transfer.h"

#include <string_view>

#include "absl/strings/str_format.h"
#include "format/paths.h"
#include "manager/rules/operator_options.h"

namespace belay {

StatusOr<SaveOptions> WithOperatorTransfer(const Comm& comm,
                                           const std::string& path,
                                           const SaveOptions& options) {
  SaveOptions changed = options;
  const StatusOr<OperatorOptions> wanted =
      ParseOperatorOptions([&](const char* name) -> const char* {
        const bool is_asked = std::string_view(name) == "BELAY_TRANSFER";
        return is_asked ? comm.transfer_variable().c_str() : nullptr;
      });
  if (!wanted.ok()) {
    return Status(wanted.status().code(),
                  absl::StrFormat("save \"%s\": %s", ParentOf(path),
                                  wanted.status().message()));
  }
  ApplyToSave(*wanted, changed);
  return changed;
}

}  // namespace belay
