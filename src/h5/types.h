// The HDF5 type of each DType, as it is stored.
//
// Bytes are always written and read with the stored type as memory type, so
// HDF5 never converts. On this little-endian format h5py shows: f16 float16,
// bf16 float32 (a custom float), f8 uint8 with the attribute "belay_dtype",
// bool a numpy bool, c64 and c128 complex, string bytes.

#ifndef BELAY_H5_TYPES_H_
#define BELAY_H5_TYPES_H_

#include <cstdint>
#include <string_view>

#include "belay/dtype.h"
#include "belay/status.h"
#include "h5/handle.h"

namespace belay::h5 {

// The attribute that names the DType where the HDF5 type cannot.
inline constexpr char kDTypeAttribute[] = "belay_dtype";

// Returns the stored type. Local. For kString: UTF-8 text of `string_bytes`
// bytes, at least 1, padded with NUL; otherwise `string_bytes` is ignored.
StatusOr<Handle> FileType(DType dtype, int64_t string_bytes);

// Returns the bytes of one element: DTypeSize, or `string_bytes`. Local.
int64_t ElementBytes(DType dtype, int64_t string_bytes);

// Returns whether the stored type alone does not tell the DType. Local.
bool NeedsDTypeAttribute(DType dtype);

// Writes the attribute to a dataset whose type needs it. Local.
Status NameDType(const Handle& dataset, DType dtype);

// Checks that a dataset has exactly that stored type. Local.
// Errors: DataLoss - it has another one.
Status CheckStoredType(const Handle& dataset, DType dtype,
                       int64_t string_bytes);

}  // namespace belay::h5

#endif  // BELAY_H5_TYPES_H_
