// Results of saves and restores as text and in the log.

#ifndef BELAY_PIPELINE_RESULT_TEXT_H_
#define BELAY_PIPELINE_RESULT_TEXT_H_

#include <string>

#include "belay/options.h"
#include "belay/status.h"
#include "mpi/collective.h"

namespace belay {

// Logs a result, or the error of all ranks. Local; rank 0 logs.
void LogResult(const CommContext& context, const Agreed<SaveResult>& result);
void LogResult(const CommContext& context, const Agreed<RestoreResult>& result);

// Warns that a restore of the newest step in `dir` has found none: the path may
// be wrong. Local; rank 0 logs.
void LogNoStep(const CommContext& context, const std::string& dir);

// Logs an error. Local; rank 0 logs.
void LogError(const CommContext& context, const Status& status);

}  // namespace belay

#endif  // BELAY_PIPELINE_RESULT_TEXT_H_
