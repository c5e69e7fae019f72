// BELAY_TRANSFER: how every save writes, whatever the program says.

#ifndef BELAY_SAVE_OPERATOR_TRANSFER_H_
#define BELAY_SAVE_OPERATOR_TRANSFER_H_

#include <string>

#include "belay/comm.h"
#include "belay/options.h"
#include "belay/status.h"

namespace belay {

// Returns the options of a save into `path`, with the transfer that rank 0's
// environment had when `comm` was duplicated, if it had any. Local; the same on
// all ranks.
// Errors: InvalidArgument - the variable names no transfer.
StatusOr<SaveOptions> WithOperatorTransfer(const Comm& comm,
                                           const std::string& path,
                                           const SaveOptions& options);

}  // namespace belay

#endif  // BELAY_SAVE_OPERATOR_TRANSFER_H_
