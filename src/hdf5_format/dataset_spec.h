// What belay puts into files.

#ifndef BELAY_HDF5_FORMAT_DATASET_SPEC_H_
#define BELAY_HDF5_FORMAT_DATASET_SPEC_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "belay/arrays/box.h"
#include "belay/arrays/dtype.h"
#include "belay/values/save_args.h"
#include "hdf5_format/element_type.h"

namespace belay::h5 {

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
};

// A link to an object of another file, which is looked for beside its own.
// Borrowed: an index has one for each array.
struct ExternalLink {
  std::string_view path;
  std::string_view file;
  std::string_view target;
};

// A whole dataset of another file, and the box of the virtual one that it
// fills. The file is looked for beside that of the virtual dataset.
struct VirtualPiece {
  std::string file;
  std::string path;
  Box box;
};

// A dataset that shows datasets of other files as one array of at least one
// axis. Elements that no piece covers read as zero, and so do pieces whose file
// is missing: good for looking, not for restoring.
struct VirtualDataset {
  DatasetSpec spec;  // without chunks and filters
  std::vector<VirtualPiece> pieces;
};

// Local.
ElementType TypeOf(const DatasetSpec& spec);

// Returns whether the dataset has storage. Local.
bool HasBytes(const DatasetSpec& spec);

// Returns the bytes that a dataset takes up, its chunks in full. Local.
int64_t StoredBytes(const DatasetSpec& spec);

}  // namespace belay::h5

#endif  // BELAY_HDF5_FORMAT_DATASET_SPEC_H_
