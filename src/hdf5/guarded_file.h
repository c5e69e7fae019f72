// A file that libhdf5 reads in a separate process, and the requests to it.

#ifndef BELAY_HDF5_GUARDED_FILE_H_
#define BELAY_HDF5_GUARDED_FILE_H_

#include <chrono>
#include <cstddef>
#include <span>

#include "core/child_process.h"
#include "core/wire.h"
#include "hdf5/native_read.h"

namespace belay::h5 {

// Who wrote a file. A file written by belay is not a symbolic link, and has
// everything that its index promises. So anything that HDF5 cannot find or
// parse in it is damage.
enum class WrittenBy : uint8_t { kAnybody, kBelay };

// A request to the process in which libhdf5 reads.
struct FileRequest {
  enum class Kind : uint8_t {
    kOpen,        // path, written_by
    kList,        // answer: ListedDatasets
    kDescribe,    // path, checks_sources; answer: a NativeArray
    kRead,        // path, dtype, box; result in the shared memory
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

// Reads the file of a GuardedFile, in the process that serves it.
class FileServer {
 public:
  // Answers an encoded FileRequest. Usually the first request opens a file.
  // Values go to `shared`.
  // Errors: those of the GuardedFile function that sent the request.
  StatusOr<std::string> Answer(std::string_view request,
                               std::span<std::byte> shared);

 private:
  StatusOr<std::string> Find(const FileRequest& request,
                             std::span<std::byte> shared);
  StatusOr<std::string> Open(const FileRequest& request);

  bool is_ours_ = false;
  Handle file_;
};

// A file that only libhdf5 can read: an HDF5 file of any program, or a file
// written by belay whose chunks have filters from plugins. libhdf5 reads it in
// a separate process, because it was not written for hostile files.

// The environment variable that lifts the limits on memory and CPU time.
inline constexpr char kTrustHdf5[] = "BELAY_TRUST_HDF5";

// Returns true if it is set to 1.
bool IsHdf5Trusted();

// An open file. Move only; for one thread at a time. Every function can also
// return the errors of ChildProcess, after which nothing more can be read.
class GuardedFile {
 public:
  // Opens a file. All operations on it together may take at most
  // `deadline_seconds` (0: no limit). The memory and CPU time that libhdf5 may
  // use depend on the stored size of the file and on what is read, but are not
  // limited if BELAY_TRUST_HDF5 is 1 in the environment.
  // Errors: as OpenFileReadOnly; FailedPrecondition - the program that reads it
  //   is not installed.
  static StatusOr<GuardedFile> Open(const std::string& path,
                                    double deadline_seconds,
                                    WrittenBy written_by = WrittenBy::kAnybody);

  // As ListDatasets.
  StatusOr<std::vector<ListedDataset>> List();

  // As DescribeDataset for the dataset at this path and, with `checks_sources`,
  // also as CheckSources.
  // Errors: NotFound - there is none; those of both.
  StatusOr<NativeArray> Describe(const std::string& path, bool checks_sources);

  // As ReadNative.
  Status Read(const std::string& path, DType dtype, const Box& box, void* data);

  // As ReadHyperslab, for a dataset that belay has written.
  // Errors: FailedPrecondition - HDF5 does not have one of the filters; those
  //   of ReadHyperslab, but DataLoss if something is missing.
  Status ReadStored(const std::string& path, const ElementType& type,
                    const std::vector<Filter>& filters, const Box& box,
                    std::byte* data);

  // As ReadNativeText.
  StatusOr<std::string> ReadText(const std::string& path);

 private:
  GuardedFile(ChildProcess child, double cpu_seconds, double deadline_seconds);
  StatusOr<std::string> Ask(const FileRequest& request);
  // Reads a box with requests of this kind. `data` has room for the box.
  Status ReadTiles(FileRequest request, const Box& box, std::byte* data);

  ChildProcess child_;
  double cpu_seconds_;  // limit for all requests together
  std::chrono::steady_clock::time_point begin_;
  double deadline_seconds_;  // since begin_
};

}  // namespace belay::h5

#endif  // BELAY_HDF5_GUARDED_FILE_H_
