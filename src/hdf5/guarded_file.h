// A file that libhdf5 reads in a process of its own, and the requests to it.

#ifndef BELAY_HDF5_GUARDED_FILE_H_
#define BELAY_HDF5_GUARDED_FILE_H_

#include <chrono>
#include <cstddef>
#include <span>

#include "core/child_process.h"
#include "core/wire.h"
#include "hdf5/native_read.h"

namespace belay::h5 {

// Who wrote a file. A file of belay is no symbolic link, and lacks nothing that
// its index promises: whatever HDF5 cannot find or parse in it is damage.
enum class WrittenBy : uint8_t { kAnybody, kBelay };

// A request to the process in which libhdf5 reads.
struct FileRequest {
  enum class Kind : uint8_t {
    kOpen,        // path, written_by
    kList,        // answered by ListedDatasets
    kDescribe,    // path, checks_sources; answered by a NativeArray
    kRead,        // path, dtype, box; into the shared memory
    kReadStored,  // path, dtype, fields, filters, box; likewise
    kReadText,    // path
    kCanRead      // filters; needs no open file
  };
  Kind kind = Kind::kOpen;
  std::string path = {};
  WrittenBy written_by = WrittenBy::kAnybody;
  bool checks_sources = false;
  DType dtype = DType::kU8;
  std::string fields = {};
  std::vector<int32_t> filters = {};  // identifiers
  Box box = {};
};

template <typename Archive>
void Fields(Archive& archive, FileRequest& request) {
  archive(request.kind, request.path, request.written_by,
          request.checks_sources, request.dtype, request.fields,
          request.filters, request.box);
}

// Reads the file of a GuardedFile, in the process that runs for it.
class FileServer {
 public:
  // Answers an encoded FileRequest, the first of which mostly opens a file.
  // Values go to `shared`. Errors: those of the function of GuardedFile.
  StatusOr<std::string> Answer(std::string_view request,
                               std::span<std::byte> shared);

 private:
  StatusOr<std::string> Find(const FileRequest& request,
                             std::span<std::byte> shared);
  StatusOr<std::string> Open(const FileRequest& request);

  bool is_ours_ = false;
  Handle file_;
};

// A file that only libhdf5 can read, in a process of its own: it was not
// written for hostile files. A plain HDF5 file of any program, or one of ours
// whose chunks pass filters of plugins.

// The variable of the environment that lifts the limits for files of other
// programs.
inline constexpr char kTrustHdf5[] = "BELAY_TRUST_HDF5";

// True if it is set to 1.
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
  StatusOr<std::string> Ask(const FileRequest& request);
  // Reads a box by requests of this kind. `data` has room for it.
  Status ReadTiles(FileRequest request, const Box& box, std::byte* data);

  ChildProcess child_;
  double cpu_seconds_;  // the limit of all requests together
  std::chrono::steady_clock::time_point begin_;
  double deadline_seconds_;  // since then
};

}  // namespace belay::h5

#endif  // BELAY_HDF5_GUARDED_FILE_H_
