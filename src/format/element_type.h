// The type of a dataset's elements: what it is, and how HDF5 encodes it.

#ifndef BELAY_FORMAT_ELEMENT_TYPE_H_
#define BELAY_FORMAT_ELEMENT_TYPE_H_

#include <compare>

#include "belay/values/save_args.h"

namespace belay::h5 {

// The type of the elements of a dataset.
struct ElementType {
  DType dtype = DType::kU8;
  int64_t string_bytes = 0;  // length of the text; only for kString
  // If not empty, structs with these fields (core/struct_text.h). The array has
  // their bytes along its last axis, which its dataset does not have.
  std::string fields = {};

  friend auto operator<=>(const ElementType&, const ElementType&) = default;
};

// The attribute that names the DType where the HDF5 type cannot.
inline constexpr char kDTypeAttribute[] = "belay_dtype";

// Returns the bytes of one element as HDF5 sees it.
int64_t ElementBytes(const ElementType& type);

// Returns the lengths along the axes that the dataset has.
Shape DatasetAxes(const ElementType& type, Shape lengths);
// Returns the box that the dataset has.
// Errors: Internal - it has parts of structs.
StatusOr<Box> DatasetBox(const ElementType& type, Box box);

// Returns whether the stored type alone does not tell the DType.
bool NeedsDTypeAttribute(DType dtype);

// A whole dataset of another file, and the box of the virtual one that it
// fills. The file is looked for beside that of the virtual dataset.
struct VirtualPiece {
  std::string file;
  std::string path;
  Box box;
};

// A dataset to create. `chunk` is empty for contiguous storage, else it has one
// length per axis, from 1 to that of the array, and less than 4 GiB in all.
// `string_bytes` is the length of the text for kString and otherwise ignored.
struct DatasetSpec {
  std::string path;
  DType dtype = DType::kU8;
  int64_t string_bytes = 0;
  Shape shape;
  Shape chunk;
  std::vector<Filter> filters = {};  // of the chunks
  std::string fields = {};           // as of ElementType
  // If not empty, the dataset shows these datasets of other files as one array
  // of at least one axis, without chunks and filters. Elements that no piece
  // covers read as zero, and so do pieces whose file is missing: good for
  // looking, not for restoring.
  std::vector<VirtualPiece> pieces = {};
};

// A link to an object of another file, which is looked for beside its own.
// Borrowed: an index has one for each array.
struct ExternalLink {
  std::string_view path;
  std::string_view file;
  std::string_view target;
};

ElementType GetElementType(const DatasetSpec& spec);

// Returns whether the dataset has storage.
bool HasBytes(const DatasetSpec& spec);

// Returns the bytes that a dataset takes up, its chunks in full.
int64_t StoredBytes(const DatasetSpec& spec);

// Datatype messages: what a file says of the elements of a dataset, as bytes.
//
// Encoded as H5Tencode of HDF5 1.10 does it: version 1, and version 2 where an
// array is a member (File Format Specification 3.0, section IV.A.2.d).

// Returns the message of a stored type or, with `in_file`, the one that HDF5
// 1.10 itself puts into files: version 3.
// Errors: InvalidArgument - an unknown dtype, or a text that names no fields.
StatusOr<std::string> EncodedType(const ElementType& type,
                                  bool in_file = false);

}  // namespace belay::h5

#endif  // BELAY_FORMAT_ELEMENT_TYPE_H_
