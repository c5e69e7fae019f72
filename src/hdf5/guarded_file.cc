#include "hdf5/guarded_file.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "core/status_macros.h"
#include "core/strided_copy.h"
#include "core/text.h"
#include "hdf5/file.h"
#include "hdf5/native_read.h"
#include "hdf5/program.h"

namespace belay::h5 {
namespace {

// Large enough that few chunks are split: a split chunk is read once per part.
constexpr int64_t kTileBytes = int64_t{16} << 20;
// Limits of libhdf5, which depend on the file's size. Files written by other
// programs may link to other files, and may have large chunks that compress
// well.
constexpr int64_t kLeastMemory = int64_t{512} << 20;
constexpr int64_t kMemoryPerByte = 16;
constexpr double kLeastCpuSeconds = 2;
constexpr double kBytesPerCpuSecond = 2e6;
// Reading values gets more time: it may inflate a chunk again for each part.
constexpr double kLeastCpuSecondsOfRead = 10;
constexpr double kBytesReadPerCpuSecond = 10e6;
// In effect no limit.
constexpr int64_t kMaxMemory = int64_t{1} << 60;
constexpr double kMaxSeconds = 1e9;

// Returns the bytes stored in a file, or 0 if it is missing: its size, but at
// most eight times its blocks on disk, since file systems may compress. Some
// file systems update the number of blocks late.
int64_t CountStoredBytes(const std::string& path) {
  constexpr int64_t kMaxCompressed = 8;
  struct stat stat = {};
  if (::stat(path.c_str(), &stat) != 0) return 0;
  const int64_t blocks = int64_t{stat.st_blocks} * 512;
  return std::min<int64_t>(stat.st_size, blocks * kMaxCompressed);
}

Status CutShort() {
  return absl::DataLossError("what HDF5 says of a file is cut short");
}

std::vector<Filter> MakeFilters(const std::vector<int32_t>& ids) {
  std::vector<Filter> filters;
  for (const int32_t id : ids) filters.push_back({.id = id});
  return filters;
}

}  // namespace

bool IsHdf5Trusted() {
  const char* const value = std::getenv(kTrustHdf5);
  return value != nullptr && std::string_view(value) == "1";
}

GuardedFile::GuardedFile(ChildProcess child, double cpu_seconds,
                         double deadline_seconds)
    : child_(std::move(child)),
      cpu_seconds_(cpu_seconds),
      begin_(std::chrono::steady_clock::now()),
      deadline_seconds_(deadline_seconds > 0 ? deadline_seconds : kMaxSeconds) {
}

StatusOr<GuardedFile> GuardedFile::Open(const std::string& path,
                                        double deadline_seconds,
                                        WrittenBy written_by) {
  const int64_t bytes = CountStoredBytes(path);
  const bool is_trusted = IsHdf5Trusted();
  const ChildLimits limits = {
      .memory_bytes = is_trusted || bytes > kMaxMemory / (2 * kMemoryPerByte)
                          ? kMaxMemory
                          : kLeastMemory + kMemoryPerByte * bytes,
      .shared_bytes = kTileBytes};
  BELAY_ASSIGN_OR_RETURN(const std::vector<std::string> command,
                         ProgramFor(kReadsFile));
  BELAY_ASSIGN_OR_RETURN(
      ChildProcess child,
      ChildProcess::Start(Cat("read \"", path, "\" by HDF5"), command, limits));
  const double cpu =
      kLeastCpuSeconds + static_cast<double>(bytes) / kBytesPerCpuSecond;
  GuardedFile file(std::move(child), is_trusted ? kMaxSeconds : cpu,
                   deadline_seconds);
  const FileRequest request = {.path = path, .written_by = written_by};
  BELAY_RETURN_IF_ERROR(file.Ask(request).status());
  return file;
}

StatusOr<std::string> GuardedFile::Ask(const FileRequest& request) {
  const std::chrono::duration<double> used =
      std::chrono::steady_clock::now() - begin_;
  return child_.Ask(Encode(request), cpu_seconds_,
                    deadline_seconds_ - used.count());
}

StatusOr<std::vector<ListedDataset>> GuardedFile::List() {
  BELAY_ASSIGN_OR_RETURN(const std::string answer,
                         Ask({.kind = FileRequest::Kind::kList}));
  auto listed = Decode<std::vector<ListedDataset>>(answer);
  if (!listed) return CutShort();
  return *std::move(listed);
}

StatusOr<NativeArray> GuardedFile::Describe(const std::string& path,
                                            bool checks_sources) {
  BELAY_ASSIGN_OR_RETURN(const std::string answer,
                         Ask({.kind = FileRequest::Kind::kDescribe,
                              .path = path,
                              .checks_sources = checks_sources}));
  auto array = Decode<NativeArray>(answer);
  if (!array) return CutShort();
  return *std::move(array);
}

StatusOr<std::string> GuardedFile::ReadText(const std::string& path) {
  return Ask({.kind = FileRequest::Kind::kReadText, .path = path});
}

Status GuardedFile::ReadTiles(FileRequest request, const Box& box,
                              std::byte* data) {
  cpu_seconds_ += kLeastCpuSecondsOfRead;
  const int64_t size = DTypeSize(request.dtype);
  return TryForEachTile(box, kTileBytes / size, [&](const Box& tile) -> Status {
    const int64_t bytes = NumElements(tile.shape) * size;
    cpu_seconds_ += static_cast<double>(bytes) / kBytesReadPerCpuSecond;
    request.box = tile;
    BELAY_RETURN_IF_ERROR(Ask(request).status());
    std::memcpy(data, child_.shared().data(), bytes);
    data += bytes;
    return absl::OkStatus();
  });
}

Status GuardedFile::ReadStored(const std::string& path, const ElementType& type,
                               const std::vector<Filter>& filters,
                               const Box& box, std::byte* data) {
  FileRequest request = {.kind = FileRequest::Kind::kReadStored,
                         .path = path,
                         .dtype = type.dtype,
                         .fields = type.fields};
  for (const Filter& filter : filters) request.filters.push_back(filter.id);
  return ReadTiles(std::move(request), box, data);
}

Status GuardedFile::Read(const std::string& path, DType dtype, const Box& box,
                         void* data) {
  return ReadTiles(
      {.kind = FileRequest::Kind::kRead, .path = path, .dtype = dtype}, box,
      static_cast<std::byte*>(data));
}

// --- File server ---

StatusOr<std::string> FileServer::Answer(std::string_view request,
                                         std::span<std::byte> shared) {
  const auto decoded = Decode<FileRequest>(request);
  if (!decoded) return absl::InternalError("a request to HDF5 is cut short");
  StatusOr<std::string> answer = Find(*decoded, shared);
  const Status& status = answer.status();
  const bool is_damage =
      is_ours_ && (absl::IsNotFound(status) ||
                   (absl::IsInternal(status) && !IsOfSystem(status)));
  if (!is_damage) return answer;
  return absl::DataLossError(Cat("damaged: ", std::string(status.message())));
}

StatusOr<std::string> FileServer::Open(const FileRequest& request) {
  is_ours_ = request.written_by == WrittenBy::kBelay;
  const Links links = is_ours_ ? Links::kRefused : Links::kFollowed;
  BELAY_ASSIGN_OR_RETURN(file_, OpenFileReadOnly(request.path, links));
  return std::string();
}

StatusOr<std::string> FileServer::Find(const FileRequest& request,
                                       std::span<std::byte> shared) {
  using Kind = FileRequest::Kind;
  if (request.kind == Kind::kOpen) return Open(request);
  if (request.kind == Kind::kList) {
    BELAY_ASSIGN_OR_RETURN(const std::vector<ListedDataset> listed,
                           ListDatasets(file_));
    return Encode(listed);
  }
  if (request.kind == Kind::kCanRead || request.kind == Kind::kReadStored) {
    // Loads the plugins, which no other request may do.
    BELAY_RETURN_IF_ERROR(CheckCanRead(MakeFilters(request.filters)));
    if (request.kind == Kind::kCanRead) return std::string();
    const ElementType type = {.dtype = request.dtype, .fields = request.fields};
    BELAY_RETURN_IF_ERROR(
        ReadHyperslab(file_, request.path, type, request.box, shared.data()));
    return std::string();
  }
  BELAY_ASSIGN_OR_RETURN(
      const Handle dataset,
      OpenToRead(file_, request.path, OtherFiles::kFollowed));
  if (request.kind == Kind::kReadText) return ReadNativeText(dataset);
  if (request.kind == Kind::kDescribe) {
    BELAY_ASSIGN_OR_RETURN(const NativeArray array, DescribeDataset(dataset));
    if (request.checks_sources) {
      BELAY_RETURN_IF_ERROR(CheckSources(dataset, file_.name()));
    }
    return Encode(array);
  }
  BELAY_RETURN_IF_ERROR(
      ReadNative(dataset, request.dtype, request.box, shared.data()));
  return std::string();
}

}  // namespace belay::h5
