// A file that libhdf5 reads in a process of its own, and the requests to it.

#ifndef BELAY_HDF5_GUARDED_FILE_H_
#define BELAY_HDF5_GUARDED_FILE_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "belay/arrays/box.h"
#include "belay/arrays/dtype.h"
#include "belay/status.h"
#include "belay/values/save_args.h"
#include "core/child_process.h"
#include "format/element_type.h"
#include "hdf5/dataset_listing.h"
#include "hdf5/types.h"

namespace belay::h5 {

// What a GuardedFile and CheckProgramCanRead ask a process, in which a
// FileServer answers: the kind of request, and its arguments.

enum class FileRequest : uint8_t {
  kOpen,        // path, WrittenBy
  kList,        // no argument
  kDescribe,    // path, whether it checks sources
  kRead,        // path, dtype, box; into the shared memory
  kReadStored,  // path, dtype, fields, numbers of filters, box; likewise
  kReadText,    // path
  kCanRead      // numbers of filters; without a file
};

// Whose file it is. One of ours is no symbolic link, and lacks nothing that its
// index promises: what HDF5 does not find or cannot make sense of is damage.
enum class WrittenBy : uint8_t { kAnybody, kBelay };

// A file that only libhdf5 can read, in a process of its own: it was not
// written for hostile files. A plain HDF5 file of any program, or one of ours
// whose chunks pass filters of plugins.

// The variable of the environment that lifts the limits for files of other
// programs.
inline constexpr char kTrustHdf5[] = "BELAY_TRUST_HDF5";

// Whether it is set to 1.
bool IsHdf5Trusted();

// An open file. Move only; for one thread at a time. All errors can also be
// those of ChildProcess, after which nothing more can be read.
class GuardedFile {
 public:
  // Opens a file. All that is done with it may take no longer than
  // `deadline_seconds` (0: no limit). How much memory and time to compute
  // libhdf5 may take follows from the space the file takes and from what is
  // read, unless BELAY_TRUST_HDF5 is 1 in the environment.
  // Errors: as OpenFileReadOnly; FailedPrecondition - the program that reads it
  //   is not installed.
  static StatusOr<GuardedFile> Open(const std::string& path,
                                    double deadline_seconds,
                                    WrittenBy written_by = WrittenBy::kAnybody);

  // As ListDatasets.
  StatusOr<std::vector<ListedDataset>> List();

  // As DescribeDataset and, with `checks_sources`, CheckSources, of the dataset
  // with this path.
  // Errors: NotFound - there is none; those of both.
  StatusOr<NativeArray> Describe(const std::string& path, bool checks_sources);

  // As ReadNative.
  Status Read(const std::string& path, DType dtype, const Box& box, void* data);

  // As ReadHyperslab, of a dataset that belay has written.
  // Errors: FailedPrecondition - HDF5 does not have one of the filters; those
  //   of ReadHyperslab, with DataLoss for what is missing.
  Status ReadStored(const std::string& path, const ElementType& type,
                    const std::vector<Filter>& filters, const Box& box,
                    std::byte* data);

  // As ReadNativeText.
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
