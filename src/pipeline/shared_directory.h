// Whether all hosts see what rank 0 has made.

#ifndef BELAY_PIPELINE_SHARED_DIRECTORY_H_
#define BELAY_PIPELINE_SHARED_DIRECTORY_H_

#include <string>

#include "belay/status.h"
#include "mpi/collective.h"

namespace belay {

// How long a host waits for what another one has made. Local.
double SharedDirectorySeconds(double deadline_seconds);

// Agrees on `mine`, and that every rank passes true. Collective; agreed. Same
// on all ranks: `operation`, how the message starts, and `seconds`, how long
// they have waited, and `did_see`, whether they have seen others there before.
// Errors: FailedPrecondition, or Unavailable if they did - not all do; says
//   which hosts.
Status AgreeOnSharedDirectory(CommContext& context, const Status& mine,
                              bool sees, bool did_see,
                              const std::string& operation, double seconds);

}  // namespace belay

#endif  // BELAY_PIPELINE_SHARED_DIRECTORY_H_
