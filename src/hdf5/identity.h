// Which object of which file it is.

#ifndef BELAY_HDF5_IDENTITY_H_
#define BELAY_HDF5_IDENTITY_H_

#include <hdf5.h>

#include <utility>

#include "belay/status.h"
#include "hdf5/handle.h"

namespace belay::h5 {

// Tells an object from all others of the files that are open.
using Identity = std::pair<unsigned long, haddr_t>;

// Local.
StatusOr<Identity> IdentityOf(const Handle& object);

}  // namespace belay::h5

#endif  // BELAY_HDF5_IDENTITY_H_
