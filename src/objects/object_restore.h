// Restores of objects.

#ifndef BELAY_OBJECTS_OBJECT_RESTORE_H_
#define BELAY_OBJECTS_OBJECT_RESTORE_H_

#include <string>
#include <vector>

#include "belay/objects/load_status.h"
#include "belay/options.h"
#include "belay/status.h"
#include "core/agreed.h"
#include "mpi/collective.h"

namespace belay {

// Values of objects that are stored in another form than they are wanted in:
// what becomes of a restore then, and what its status says.

// Refuses what the options do not let pass. The report is equal on all ranks.
// Collective; agreed.
// Errors: FailedPrecondition - values of another dtype, shape or type.
Agreed<> RefuseMismatches(CommContext& context, const std::string& path,
                          const LoadReport& report, MismatchPolicy mismatched);

// The status with a warning for each value that is left as it is, if that is
// asked for.
LoadStatus WithMismatchWarnings(const LoadStatus& status,
                                MismatchPolicy mismatched);

// Adds the conversions of arrays that handlers listed, which showed only then.
LoadStatus WithConversions(const LoadStatus& status,
                           const std::vector<Conversion>& conversions);

}  // namespace belay

#endif  // BELAY_OBJECTS_OBJECT_RESTORE_H_
