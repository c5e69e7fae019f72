// What saves and restores did, as text and in the log.

#ifndef BELAY_PIPELINE_RESULT_TEXT_H_
#define BELAY_PIPELINE_RESULT_TEXT_H_

#include <string>

#include "belay/options.h"
#include "belay/status.h"
#include "mpi/collective.h"

namespace belay {

// Tells the log of a result, or of the error that all ranks have. Local; one
// rank does so.
void LogResult(const CommContext& context, const Agreed<SaveResult>& result);
void LogResult(const CommContext& context, const Agreed<RestoreResult>& result);

// Warns that a program that goes on from the newest step in `dir` has found
// none: the directory may be misspelt, or the working directory another one.
// Local; one rank does so.
void LogNoStep(const CommContext& context, const std::string& dir);

// The same as LogResult of an error alone.
void LogError(const CommContext& context, const Status& status);

}  // namespace belay

#endif  // BELAY_PIPELINE_RESULT_TEXT_H_
