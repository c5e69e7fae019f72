// Arguments that have to be the same on all ranks.

#ifndef BELAY_PIPELINE_AGREE_ARGUMENTS_H_
#define BELAY_PIPELINE_AGREE_ARGUMENTS_H_

#include <string_view>
#include <vector>

#include "belay/status.h"
#include "mpi/collective.h"
#include "pipeline/save_options.h"

namespace belay {

// Fails everywhere if ranks passed different ones: one small all-reduce if they
// are equal, and one for each argument to say which differs. Collective;
// agreed.
// Errors: InvalidArgument - `operation: NAME differs between ranks: ...`.
Status AgreeOnArguments(CommContext& context, std::string_view operation,
                        const std::vector<CommonOption>& arguments);

}  // namespace belay

#endif  // BELAY_PIPELINE_AGREE_ARGUMENTS_H_
