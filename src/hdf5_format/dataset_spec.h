// A dataset of a file that belay writes.

#ifndef BELAY_HDF5_FORMAT_DATASET_SPEC_H_
#define BELAY_HDF5_FORMAT_DATASET_SPEC_H_

#include <cstdint>
#include <string>
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

// Local.
ElementType TypeOf(const DatasetSpec& spec);

// Returns whether the dataset has storage. Local.
bool HasBytes(const DatasetSpec& spec);

// Returns the bytes that a dataset takes up, its chunks in full. Local.
int64_t StoredBytes(const DatasetSpec& spec);

}  // namespace belay::h5

#endif  // BELAY_HDF5_FORMAT_DATASET_SPEC_H_
