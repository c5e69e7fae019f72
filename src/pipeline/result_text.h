// What saves and restores did, as text and in the log.

#ifndef BELAY_PIPELINE_RESULT_TEXT_H_
#define BELAY_PIPELINE_RESULT_TEXT_H_

#include "belay/options.h"
#include "belay/status.h"
#include "mpi/collective.h"

namespace belay {

// Tells the log of a result, or of the error that all ranks have. Local; one
// rank does so.
void LogResult(const CommContext& context, const StatusOr<SaveResult>& result);
void LogResult(const CommContext& context,
               const StatusOr<RestoreResult>& result);

// The same of an error alone. Local.
void LogError(const CommContext& context, const Status& status);

}  // namespace belay

#endif  // BELAY_PIPELINE_RESULT_TEXT_H_
