// Reading datasets of any program, with the conversions that HDF5 knows.

#ifndef BELAY_HDF5_NATIVE_READ_H_
#define BELAY_HDF5_NATIVE_READ_H_

#include "belay/arrays/box.h"
#include "belay/arrays/dtype.h"
#include "hdf5/handle.h"

namespace belay::h5 {

// Reads the elements of a box to `data`, dense and row-major, whatever their
// byte order, chunks and filters are. `dtype` is what DescribeDataset
// says, and no text; the box lies inside the dataset.
// Errors: DataLoss - a damaged file; ResourceExhausted; Internal - also for a
//   filter that HDF5 does not have.
Status ReadNative(const Handle& dataset, DType dtype, const Box& box,
                  void* data);

// Reads a text of fixed or variable length, without its padding; one without
// a value is empty.
// Errors: as ReadNative.
StatusOr<std::string> ReadNativeText(const Handle& dataset);

// Checks that the datasets that a virtual one shows are there, and those that
// they show in turn: HDF5 reads zeros where they are not. Other datasets pass.
// `file` is the path of the file that has the dataset.
// Errors: DataLoss - a source is missing or shows itself; Unimplemented -
//   sources that are given by a pattern, or show each other more than 16 deep.
Status CheckSources(const Handle& dataset, const std::string& file);

// Returns how many bytes its file stores for a dataset at most, before filters
// are undone; of one whose bytes lie in other files, how many these have. Files
// that are not there, or are named by a pattern, have none.
// Errors: DataLoss - a damaged file; Internal.
StatusOr<int64_t> StoredBytes(const Handle& dataset);

}  // namespace belay::h5

#endif  // BELAY_HDF5_NATIVE_READ_H_
