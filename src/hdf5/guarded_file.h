// A file that only libhdf5 can read, in a process of its own: it was not
// written for hostile files. A plain HDF5 file of any program, or one of ours
// whose chunks pass filters of plugins.

#ifndef BELAY_HDF5_GUARDED_FILE_H_
#define BELAY_HDF5_GUARDED_FILE_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/process/child_process.h"
#include "belay/arrays/box.h"
#include "belay/arrays/dtype.h"
#include "belay/status.h"
#include "belay/values/save_args.h"
#include "hdf5/dataset_listing.h"
#include "hdf5/native_type.h"
#include "hdf5/program/file_requests.h"
#include "hdf5_format/element_type.h"

namespace belay::h5 {

// The variable of the environment that lifts the limits for files of other
// programs.
inline constexpr char kTrustHdf5[] = "BELAY_TRUST_HDF5";

// Whether it is set to 1. Local.
bool IsHdf5Trusted();

// An open file. Move only; for one thread at a time. All errors can also be
// those of ChildProcess, after which nothing more can be read.
class GuardedFile {
 public:
  // Opens a file. All that is done with it may take no longer than
  // `deadline_seconds` (0: no limit). How much memory and time to compute
  // libhdf5 may take follows from the space the file takes and from what is
  // read, unless BELAY_TRUST_HDF5 is 1 in the environment. Local.
  // Errors: as OpenFileReadOnly; FailedPrecondition - the program that reads it
  //   is not installed.
  static StatusOr<GuardedFile> Open(const std::string& path,
                                    double deadline_seconds,
                                    WrittenBy written_by = WrittenBy::kAnybody);

  // As ListDatasets. Local.
  StatusOr<std::vector<ListedDataset>> List();

  // As DescribeDataset and, with `checks_sources`, CheckSources, of the dataset
  // with this path. Local.
  // Errors: NotFound - there is none; those of both.
  StatusOr<NativeArray> Describe(const std::string& path, bool checks_sources);

  // As ReadNative. Local.
  Status Read(const std::string& path, DType dtype, const Box& box, void* data);

  // As ReadHyperslab, of a dataset that belay has written. Local.
  // Errors: FailedPrecondition - HDF5 does not have one of the filters; those
  //   of ReadHyperslab, with DataLoss for what is missing.
  Status ReadStored(const std::string& path, const ElementType& type,
                    const std::vector<Filter>& filters, const Box& box,
                    std::byte* data);

  // As ReadNativeText. Local.
  StatusOr<std::string> ReadText(const std::string& path);

 private:
  GuardedFile(ChildProcess child, double cpu_seconds, double deadline_seconds);
  StatusOr<std::string> Ask(std::string_view request);
  Status ReadTile(const std::string& path, DType dtype, const Box& tile,
                  void* data);

  ChildProcess child_;
  double cpu_seconds_;  // in all
  std::chrono::steady_clock::time_point begin_;
  double deadline_seconds_;  // since then
};

}  // namespace belay::h5

#endif  // BELAY_HDF5_GUARDED_FILE_H_
