#include "hdf5_format/dataset_spec.h"

namespace belay::h5 {

ElementType TypeOf(const DatasetSpec& spec) {
  return {spec.dtype, spec.string_bytes, spec.fields};
}

bool HasBytes(const DatasetSpec& spec) {
  return NumElements(spec.shape) > 0 && ElementBytes(TypeOf(spec)) > 0;
}

int64_t StoredBytes(const DatasetSpec& spec) {
  int64_t bytes = ElementBytes({spec.dtype, spec.string_bytes});
  for (size_t i = 0; i < spec.shape.size(); ++i) {
    int64_t length = spec.shape[i];
    if (!spec.chunk.empty()) {
      length = (length + spec.chunk[i] - 1) / spec.chunk[i] * spec.chunk[i];
    }
    bytes *= length;
  }
  return bytes;
}

}  // namespace belay::h5
