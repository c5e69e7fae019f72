#include "pipeline/agree_arguments.h"

#include "base/status_macros.h"
#include "base/text.h"
#include "bytes/fingerprint.h"
#include "bytes/wire.h"
#include "mpi/agree_same.h"

namespace belay {

Status AgreeOnArguments(CommContext& context, std::string_view operation,
                        const std::vector<CommonOption>& arguments) {
  WireWriter all;
  for (const CommonOption& argument : arguments) all.PutText(argument.bytes);
  const Status same = AgreeSame(context, Cat(operation, ": an argument"),
                                Fingerprint(all.bytes()));
  if (!absl::IsInvalidArgument(same)) return same;
  // All ranks know that something differs; what it is, is asked only now.
  for (const CommonOption& argument : arguments) {
    BELAY_RETURN_IF_AGREED(AgreeSame(context,
                                     Cat(operation, ": ", argument.name),
                                     Fingerprint(argument.bytes)));
  }
  return same;
}

}  // namespace belay
