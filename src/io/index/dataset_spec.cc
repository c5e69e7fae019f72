// Apart from skeleton.cc, since read-hdf5 creates no files.
#include "io/index/skeleton.h"

namespace belay {

h5::DatasetSpec SpecOf(const std::string& path, const StoredArray& array,
                       const StoredDataset& dataset) {
  const bool is_text = array.dtype == DType::kString;
  return {.path = path,
          .dtype = array.dtype,
          .string_bytes = array.string_bytes,
          .shape = is_text ? Shape{} : dataset.box.shape,
          .chunk = dataset.chunk,
          .filters = dataset.filters,
          .fields = array.fields};
}

}  // namespace belay
