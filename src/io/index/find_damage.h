// The part of FindHdf5Damage that calls HDF5.

#ifndef BELAY_IO_INDEX_FIND_DAMAGE_H_
#define BELAY_IO_INDEX_FIND_DAMAGE_H_

#include <string>

#include "belay/status.h"

namespace belay {

// Does what FindHdf5Damage says, in this process. Returns the lines as a
// WireReader gets texts. Local.
// Errors: what the system says; those of ReadIndex.
StatusOr<std::string> FindDamageHere(const std::string& directory);

}  // namespace belay

#endif  // BELAY_IO_INDEX_FIND_DAMAGE_H_
