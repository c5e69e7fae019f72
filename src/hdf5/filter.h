// Filters that HDF5 has, of its own or from plugins.

#ifndef BELAY_HDF5_FILTER_H_
#define BELAY_HDF5_FILTER_H_

#include <vector>

#include "belay/status.h"
#include "belay/values/save_args.h"

namespace belay::h5 {

// Checks that chunks can pass these filters on their way to a file. Local.
// Errors: FailedPrecondition - HDF5 does not have one, or only for reading;
//   Internal.
Status CheckCanWrite(const std::vector<Filter>& filters);

// Checks that chunks can pass these filters on their way back. Local.
// Errors: FailedPrecondition - HDF5 does not have one; Internal.
Status CheckCanRead(const std::vector<Filter>& filters);

}  // namespace belay::h5

#endif  // BELAY_HDF5_FILTER_H_
