// What the elements of a dataset are, and what HDF5 sees of their array.

#ifndef BELAY_HDF5_FORMAT_ELEMENT_TYPE_H_
#define BELAY_HDF5_FORMAT_ELEMENT_TYPE_H_

#include <compare>
#include <cstdint>
#include <string>

#include "belay/arrays/box.h"
#include "belay/arrays/dtype.h"
#include "belay/status.h"

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

// Returns the bytes of one element as HDF5 sees it. Local.
int64_t ElementBytes(const ElementType& type);

// Returns the lengths along the axes that the dataset has. Local.
Shape DatasetAxes(const ElementType& type, Shape lengths);
// The same of a box. Local.
// Errors: Internal - it has parts of structs.
StatusOr<Box> DatasetBox(const ElementType& type, Box box);

// Returns whether the stored type alone does not tell the DType. Local.
bool NeedsDTypeAttribute(DType dtype);

}  // namespace belay::h5

#endif  // BELAY_HDF5_FORMAT_ELEMENT_TYPE_H_
