// What a dataset of any program holds, as a DType.

#ifndef BELAY_HDF5_NATIVE_TYPE_H_
#define BELAY_HDF5_NATIVE_TYPE_H_

#include <cstdint>
#include <string>

#include "belay/arrays/box.h"
#include "belay/arrays/dtype.h"
#include "belay/status.h"
#include "hdf5/handle.h"

namespace belay::h5 {

// A dataset as an array. Numbers of any byte order have the DType of their kind
// and size, and HDF5 converts them when it reads; texts are scalars.
struct NativeArray {
  DType dtype = DType::kU8;
  Shape shape;
  // Why belay has no such array; empty if it has. Then dtype says nothing.
  std::string problem;
  int64_t bytes = 0;  // of its elements
  // What its file, or those that it names, store for them at most. Equal to
  // `bytes` where these are few.
  int64_t stored_bytes = 0;
};

// Describes a dataset. Local.
// Errors: DataLoss - a damaged file; Internal.
StatusOr<NativeArray> DescribeDataset(const Handle& dataset);

}  // namespace belay::h5

#endif  // BELAY_HDF5_NATIVE_TYPE_H_
