// The driver with which HDF5 makes files that one process writes.
//
// A file that HDF5 1.10 cannot write when it closes it stays half open, and
// HDF5 crashes over it when the process ends; no call closes it any more. So
// this driver lets no write fail: it keeps the first error for whoever closes
// the file, and drops what comes after it. Else it does as HDF5's own one does,
// and the files are the same.

#ifndef BELAY_HDF5_WRITER_DRIVER_H_
#define BELAY_HDF5_WRITER_DRIVER_H_

#include <hdf5.h>

#include <string_view>

#include "belay/status.h"

namespace belay::h5 {

// Lets files be made with this driver. `access` is a property list of
// H5P_FILE_ACCESS.
// Errors: Internal - HDF5's text, which names `object`.
Status UseWriterDriver(hid_t access, std::string_view object);

// Returns the error number of the first write that failed in the files that
// this thread has closed since the last call, or 0.
int TakeWriteError();

}  // namespace belay::h5

#endif  // BELAY_HDF5_WRITER_DRIVER_H_
