// The HDF5 type of each DType, as it is stored.
//
// Bytes are always written and read with the stored type as memory type, so
// HDF5 never converts. On this little-endian format h5py shows: f16 float16,
// bf16 float32 (a custom float), f8 uint8 with the attribute "belay_dtype",
// bool a numpy bool, c64 and c128 complex, string bytes.

#ifndef BELAY_HDF5_TYPES_H_
#define BELAY_HDF5_TYPES_H_

#include "belay/arrays/dtype.h"
#include "belay/status.h"
#include "hdf5/handle.h"
#include "hdf5_format/element_type.h"

namespace belay::h5 {

// Returns the stored type. Local. For kString: UTF-8 text of `string_bytes`
// bytes, at least 1, padded with NUL. For structs: a compound type.
// Errors: InvalidArgument - an unknown dtype, or a text that names no fields.
StatusOr<Handle> FileType(const ElementType& type);

// Writes the attribute to a dataset whose type needs it. Local.
Status NameDType(const Handle& dataset, DType dtype);

// Checks that a dataset has exactly that stored type. Local.
// Errors: DataLoss - it has another one.
Status CheckStoredType(const Handle& dataset, const ElementType& type);

}  // namespace belay::h5

#endif  // BELAY_HDF5_TYPES_H_
