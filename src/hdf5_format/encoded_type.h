// Datatype messages: what a file says of the elements of a dataset, as bytes.
//
// Encoded as H5Tencode of HDF5 1.10 does it: version 1, and version 2 where an
// array is a member (File Format Specification 3.0, section IV.A.2.d).

#ifndef BELAY_HDF5_FORMAT_ENCODED_TYPE_H_
#define BELAY_HDF5_FORMAT_ENCODED_TYPE_H_

#include <string>

#include "belay/status.h"
#include "hdf5_format/element_type.h"

namespace belay::h5 {

// Returns the message of a stored type. Local.
// Errors: InvalidArgument - an unknown dtype, or a text that names no fields.
StatusOr<std::string> EncodedType(const ElementType& type);

// The same as HDF5 1.10 itself puts it into files: version 3. Local.
StatusOr<std::string> EncodedTypeInFile(const ElementType& type);

}  // namespace belay::h5

#endif  // BELAY_HDF5_FORMAT_ENCODED_TYPE_H_
