#include "hdf5/guarded_file.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "core/status_macros.h"
#include "core/strided_copy.h"
#include "core/text.h"
#include "core/wire.h"
#include "hdf5/program.h"

namespace belay::h5 {
namespace {

// Large enough that few chunks are cut, which are read once for each part.
constexpr int64_t kTileBytes = int64_t{16} << 20;
// What libhdf5 may take for a file of some size. Files that others made link to
// other files, and have large chunks that compress well.
constexpr int64_t kLeastMemory = int64_t{512} << 20;
constexpr int64_t kMemoryPerByte = 16;
constexpr double kLeastCpuSeconds = 2;
constexpr double kBytesPerCpuSecond = 2e6;
// The same to read values, whose chunks it may have to inflate again for each
// part of them.
constexpr double kLeastCpuSecondsOfRead = 10;
constexpr double kBytesReadPerCpuSecond = 10e6;
// No limit.
constexpr int64_t kMostMemory = int64_t{1} << 60;
constexpr double kMostSeconds = 1e9;

NativeArray GetArray(WireReader& in) {
  NativeArray array;
  array.dtype = in.Get<DType>();
  array.shape = in.GetShape();
  array.problem = in.GetText();
  array.bytes = in.Get<int64_t>();
  array.stored_bytes = in.Get<int64_t>();
  return array;
}

// The bytes that a file takes; none of one that is not there. Some file systems
// count what they have stored only later.
int64_t StoredBytesOf(const std::string& path) {
  constexpr int64_t kMostCompressed = 8;
  struct stat stat = {};
  if (::stat(path.c_str(), &stat) != 0) return 0;
  const int64_t blocks = int64_t{stat.st_blocks} * 512;
  return std::min<int64_t>(stat.st_size, blocks * kMostCompressed);
}

Status CutShort() {
  return absl::DataLossError("what HDF5 says of a file is cut short");
}

WireWriter RequestFor(FileRequest kind, const std::string& path) {
  WireWriter out;
  out.Put(kind);
  out.PutText(path);
  return out;
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
      deadline_seconds_(deadline_seconds > 0 ? deadline_seconds
                                             : kMostSeconds) {}

StatusOr<GuardedFile> GuardedFile::Open(const std::string& path,
                                        double deadline_seconds,
                                        WrittenBy written_by) {
  const int64_t bytes = StoredBytesOf(path);
  const bool is_trusted = IsHdf5Trusted();
  const ChildLimits limits = {
      .memory_bytes = is_trusted || bytes > kMostMemory / (2 * kMemoryPerByte)
                          ? kMostMemory
                          : kLeastMemory + kMemoryPerByte * bytes,
      .shared_bytes = kTileBytes};
  BELAY_ASSIGN_OR_RETURN(const std::vector<std::string> command,
                         ProgramFor(kReadsFile));
  BELAY_ASSIGN_OR_RETURN(
      ChildProcess child,
      ChildProcess::Start(Cat("read \"", path, "\" by HDF5"), command, limits));
  const double cpu =
      kLeastCpuSeconds + static_cast<double>(bytes) / kBytesPerCpuSecond;
  GuardedFile file(std::move(child), is_trusted ? kMostSeconds : cpu,
                   deadline_seconds);
  WireWriter open = RequestFor(FileRequest::kOpen, path);
  open.Put(written_by);
  BELAY_RETURN_IF_ERROR(file.Ask(open.bytes()).status());
  return file;
}

StatusOr<std::string> GuardedFile::Ask(std::string_view request) {
  const std::chrono::duration<double> used =
      std::chrono::steady_clock::now() - begin_;
  return child_.Ask(request, cpu_seconds_, deadline_seconds_ - used.count());
}

StatusOr<std::vector<ListedDataset>> GuardedFile::List() {
  WireWriter request;
  request.Put(FileRequest::kList);
  BELAY_ASSIGN_OR_RETURN(const std::string answer, Ask(request.bytes()));
  WireReader in(answer);
  auto listed = in.GetAll<ListedDataset>([&] {
    ListedDataset dataset;
    dataset.path = in.GetText();
    dataset.array = GetArray(in);
    return dataset;
  });
  if (!in.ok() || !in.done()) return CutShort();
  return listed;
}

StatusOr<NativeArray> GuardedFile::Describe(const std::string& path,
                                            bool checks_sources) {
  WireWriter request = RequestFor(FileRequest::kDescribe, path);
  request.Put(checks_sources);
  BELAY_ASSIGN_OR_RETURN(const std::string answer, Ask(request.bytes()));
  WireReader in(answer);
  NativeArray array = GetArray(in);
  if (!in.ok() || !in.done()) return CutShort();
  return array;
}

StatusOr<std::string> GuardedFile::ReadText(const std::string& path) {
  return Ask(RequestFor(FileRequest::kReadText, path).bytes());
}

Status GuardedFile::ReadTile(const std::string& path, DType dtype,
                             const Box& tile, void* data) {
  WireWriter request = RequestFor(FileRequest::kRead, path);
  request.Put(dtype);
  request.PutBox(tile);
  cpu_seconds_ +=
      static_cast<double>(NumElements(tile.shape) * DTypeSize(dtype)) /
      kBytesReadPerCpuSecond;
  BELAY_RETURN_IF_ERROR(Ask(request.bytes()).status());
  std::memcpy(data, child_.shared().data(),
              NumElements(tile.shape) * DTypeSize(dtype));
  return absl::OkStatus();
}

Status GuardedFile::ReadStored(const std::string& path, const ElementType& type,
                               const std::vector<Filter>& filters,
                               const Box& box, std::byte* data) {
  cpu_seconds_ += kLeastCpuSecondsOfRead;
  const int64_t size = DTypeSize(type.dtype);
  return TryForEachTile(box, kTileBytes / size, [&](const Box& tile) -> Status {
    WireWriter request = RequestFor(FileRequest::kReadStored, path);
    request.Put(type.dtype);
    request.PutText(type.fields);
    request.Put<uint64_t>(filters.size());
    for (const Filter& filter : filters) request.Put<int32_t>(filter.id);
    request.PutBox(tile);
    const int64_t bytes = NumElements(tile.shape) * size;
    cpu_seconds_ += static_cast<double>(bytes) / kBytesReadPerCpuSecond;
    BELAY_RETURN_IF_ERROR(Ask(request.bytes()).status());
    std::memcpy(data, child_.shared().data(), bytes);
    data += bytes;
    return absl::OkStatus();
  });
}

Status GuardedFile::Read(const std::string& path, DType dtype, const Box& box,
                         void* data) {
  cpu_seconds_ += kLeastCpuSecondsOfRead;
  auto* to = static_cast<std::byte*>(data);
  return TryForEachTile(box, kTileBytes / DTypeSize(dtype),
                        [&](const Box& tile) {
                          const Status status = ReadTile(path, dtype, tile, to);
                          to += NumElements(tile.shape) * DTypeSize(dtype);
                          return status;
                        });
}

}  // namespace belay::h5
