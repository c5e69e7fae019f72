// The type of a dataset's elements, and its HDF5 encoding.

#ifndef BELAY_FORMAT_ELEMENT_TYPE_H_
#define BELAY_FORMAT_ELEMENT_TYPE_H_

#include <compare>

#include "belay/values/save_args.h"

namespace belay::h5 {

// The type of the elements of a dataset.
struct ElementType {
  DType dtype = DType::kU8;
  int64_t string_bytes = 0;  // length of the string; only for kString
  // If not empty, elements are structs with these fields (core/struct_text.h).
  // The array has their bytes as its last axis, which its dataset does not
  // have.
  std::string fields = {};

  friend auto operator<=>(const ElementType&, const ElementType&) = default;
};

// The attribute that names the DType if the HDF5 type does not determine it.
inline constexpr char kDTypeAttribute[] = "belay_dtype";

// Returns the bytes of one element as HDF5 sees it.
int64_t ElementBytes(const ElementType& type);

// Returns the lengths of the dataset's axes, given those of the array.
Shape DatasetAxes(const ElementType& type, Shape lengths);
// Returns the dataset's box, given the box of the array.
// Errors: Internal - it has parts of structs.
StatusOr<Box> DatasetBox(const ElementType& type, Box box);

// Returns true if the stored type alone does not determine the DType.
bool NeedsDTypeAttribute(DType dtype);

// A whole dataset of another file, and the box of the virtual dataset that it
// fills. The file must be in the directory of the virtual dataset's file.
struct VirtualPiece {
  std::string file;
  std::string path;
  Box box;
};

// A dataset to create. `chunk` is empty for contiguous storage. Otherwise it
// has one length per axis, from 1 to the array's length, and less than 4 GiB in
// total. `string_bytes` is the length of the string for kString, and ignored
// otherwise.
struct DatasetSpec {
  std::string path;
  DType dtype = DType::kU8;
  int64_t string_bytes = 0;
  Shape shape;
  Shape chunk;
  std::vector<Filter> filters = {};  // of the chunks
  std::string fields = {};           // as in ElementType
  // If not empty, the dataset is virtual: it shows these datasets of other
  // files as one array of at least one axis, without chunks and filters.
  // Elements that no piece covers read as zero, as do pieces whose file is
  // missing. Use it for viewing, not for restoring.
  std::vector<VirtualPiece> pieces = {};
};

// A link to an object of another file in the same directory. Borrowed, since an
// index has one per array.
struct ExternalLink {
  std::string_view path;
  std::string_view file;
  std::string_view target;
};

ElementType GetElementType(const DatasetSpec& spec);

// Returns true if the dataset has storage.
bool HasBytes(const DatasetSpec& spec);

// Returns the bytes that a dataset occupies, with all chunks in full.
int64_t StoredBytes(const DatasetSpec& spec);

// Datatype messages: the encoded type of a dataset's elements.
//
// Encoded as by H5Tencode of HDF5 1.10: version 1, or version 2 if a member is
// an array (File Format Specification 3.0, section IV.A.2.d).

// Returns the message of a stored type. With `in_file`, returns the message
// that HDF5 1.10 itself writes to files: version 3.
// Errors: InvalidArgument - an unknown dtype, or invalid `fields`.
StatusOr<std::string> EncodedType(const ElementType& type,
                                  bool in_file = false);

}  // namespace belay::h5

#endif  // BELAY_FORMAT_ELEMENT_TYPE_H_
