// HDF5 types of dtypes and structs, in both directions.

#ifndef BELAY_HDF5_TYPES_H_
#define BELAY_HDF5_TYPES_H_

#include "format/element_type.h"
#include "hdf5/handle.h"

namespace belay::h5 {

// The HDF5 type of each DType, as it is stored.
//
// Bytes are always written and read with the stored type as memory type, so
// HDF5 never converts. On this little-endian format h5py shows: f16 float16,
// bf16 float32 (a custom float), f8 uint8 with the attribute "belay_dtype",
// bool a numpy bool, c64 and c128 complex, string bytes.

// Returns the stored type. For kString: UTF-8 text of `string_bytes`
// bytes, at least 1, padded with NUL. For structs: a compound type.
// Errors: InvalidArgument - an unknown dtype, or a text that names no fields.
StatusOr<Handle> FileType(const ElementType& type);

// Writes the attribute to a dataset whose type needs it.
Status NameDType(const Handle& dataset, DType dtype);

// Checks that a dataset has exactly that stored type.
// Errors: DataLoss - it has another one.
Status CheckStoredType(const Handle& dataset, const ElementType& type);

// A dataset as an array. Numbers of any byte order have the DType of their kind
// and size, and HDF5 converts them when it reads; texts are scalars.
struct NativeArray {
  DType dtype = DType::kU8;
  Shape shape;
  // Says why belay has no such array (then ignore dtype); else empty.
  std::string problem;
  int64_t bytes = 0;  // of its elements
  // The most bytes that its file, or those that it names, store for them. Equal
  // to `bytes` if these are few.
  int64_t stored_bytes = 0;
};

template <typename Archive>
void Fields(Archive& archive, NativeArray& array) {
  archive(array.dtype, array.shape, array.problem, array.bytes,
          array.stored_bytes);
}

// Describes a dataset.
// Errors: DataLoss - a damaged file; Internal.
StatusOr<NativeArray> DescribeDataset(const Handle& dataset);

}  // namespace belay::h5

#endif  // BELAY_HDF5_TYPES_H_
