// The single funnel between HDF5 and the rest of the library.
//
// In:  the result of one HDF5 call, the operation and the object it was for.
// Out: a Status. Each result passes exactly one fault point, after the call,
//      so that a rank with an injected fault has taken part in it.
// HDF5 never prints: its error stack becomes the message and is cleared.
// Only destructors close identifiers past the funnel.

#ifndef BELAY_HDF5_ERROR_H_
#define BELAY_HDF5_ERROR_H_

#include <hdf5.h>

#include <cstdint>
#include <string_view>

#include "belay/status.h"
#include "hdf5/handle.h"

namespace belay::h5 {

// Starts HDF5 and switches off its printing of errors, once per process. Local.
// Called by every function here that can be the first one to call HDF5.
void InitLibrary();

// Returns OK, or the failure of the HDF5 call that came just before. Local.
// `site` says what was done, such as "create dataset"; an empty `object` is
// left out of the message: site "object": HDF5's text (major: minor), or what
// the system said. The deepest message of HDF5's stack counts.
// Errors, by HDF5's text: Unavailable - the system says what TransientErrors
//   has; ResourceExhausted - no space, quota or memory;
//   NotFound - no such file or object; AlreadyExists; PermissionDenied;
//   DataLoss - truncated, not HDF5, a bad signature or checksum; Internal - all
//   else, and injected faults.
Status Judge(bool ok, std::string_view site, std::string_view object);

// Whether an error, not yet agreed on, is the system's or MPI's own, such as
// too many open files, or injected: then it says nothing of the file. Local.
bool IsOfSystem(const Status& status);

// The same for calls that return a negative number on failure. Local.
Status Check(herr_t result, std::string_view site, std::string_view object);

// The same for calls that return a count or a yes or no. Local.
StatusOr<int64_t> Number(int64_t result, std::string_view site,
                         std::string_view object);

// Takes ownership of a new identifier, which is named `object`. Local. An
// injected fault closes it.
StatusOr<Handle> Own(hid_t id, std::string_view site, std::string_view object);

}  // namespace belay::h5

#endif  // BELAY_HDF5_ERROR_H_
