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

// Fails if the report, which is equal on all ranks, has mismatches that the
// options do not allow. Collective; agreed. Errors: FailedPrecondition - values
// of another dtype, shape or type.
Agreed<> RefuseMismatches(CommContext& context, const std::string& path,
                          const LoadReport& report, MismatchPolicy mismatched);

// Adds a warning for each mismatch, if the policy asks for it.
LoadStatus WithMismatchWarnings(const LoadStatus& status,
                                MismatchPolicy mismatched);

// Adds conversions that were found only when handlers listed their arrays.
LoadStatus WithConversions(const LoadStatus& status,
                           const std::vector<Conversion>& conversions);

}  // namespace belay

#endif  // BELAY_OBJECTS_OBJECT_RESTORE_H_
