// The HDF5 type of each DType, as it is stored.
//
// Bytes are always written and read with the stored type as memory type, so
// HDF5 never converts. On this little-endian format h5py shows: f16 float16,
// bf16 float32 (a custom float), f8 uint8 with the attribute "belay_dtype",
// bool a numpy bool, c64 and c128 complex, string bytes.

#ifndef BELAY_HDF5_TYPES_H_
#define BELAY_HDF5_TYPES_H_

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "belay/arrays/box.h"
#include "belay/arrays/dtype.h"
#include "belay/status.h"
#include "hdf5/handle.h"

namespace belay::h5 {

// What the elements of a dataset are.
struct ElementType {
  DType dtype = DType::kU8;
  int64_t string_bytes = 0;  // length of the text; only for kString
  // Not empty: structs with these fields (bytes/struct_text.h). The array has
  // their bytes along its last axis, which its dataset does not have.
  std::string fields = {};

  friend auto operator<=>(const ElementType&, const ElementType&) = default;
};

// The attribute that names the DType where the HDF5 type cannot.
inline constexpr char kDTypeAttribute[] = "belay_dtype";

// Returns the stored type. Local. For kString: UTF-8 text of `string_bytes`
// bytes, at least 1, padded with NUL. For structs: a compound type.
// Errors: InvalidArgument - an unknown dtype, or a text that names no fields.
StatusOr<Handle> FileType(const ElementType& type);

// Returns the bytes of one element as HDF5 sees it. Local.
int64_t ElementBytes(const ElementType& type);

// Returns the lengths along the axes that the dataset has. Local.
Shape DatasetAxes(const ElementType& type, Shape lengths);
// The same of a box. Local.
// Errors: Internal - it has parts of structs.
StatusOr<Box> DatasetBox(const ElementType& type, Box box);

// Returns whether the stored type alone does not tell the DType. Local.
bool NeedsDTypeAttribute(DType dtype);

// Writes the attribute to a dataset whose type needs it. Local.
Status NameDType(const Handle& dataset, DType dtype);

// Checks that a dataset has exactly that stored type. Local.
// Errors: DataLoss - it has another one.
Status CheckStoredType(const Handle& dataset, const ElementType& type);

}  // namespace belay::h5

#endif  // BELAY_HDF5_TYPES_H_
