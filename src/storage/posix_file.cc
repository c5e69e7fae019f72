#include "storage/posix_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>

#include "absl/strings/str_format.h"
#include "core/fault.h"
#include "core/status_macros.h"
#include "storage/file_system.h"
#include "storage/mapped_file.h"

namespace belay {
namespace {

int OpenFlags(PosixFile::Mode mode, bool in_memory) {
  switch (mode) {
    case PosixFile::Mode::kRead:
    case PosixFile::Mode::kReadLinked:
      return O_RDONLY;
    case PosixFile::Mode::kWrite:
      return O_RDWR;
    case PosixFile::Mode::kWriteOnly:
      return O_WRONLY;
    case PosixFile::Mode::kWriteBeside:
    case PosixFile::Mode::kWriteBesideMany:
      return in_memory ? O_RDWR : O_WRONLY;
    case PosixFile::Mode::kCreate:
      return O_RDWR | O_CREAT | O_EXCL;
  }
  return O_RDONLY;
}

int64_t Available(const struct statvfs& space) {
  // Memory file systems without a limit report zero blocks in all.
  if (space.f_blocks == 0) return INT64_MAX;
  return static_cast<int64_t>(space.f_bavail) *
         static_cast<int64_t>(space.f_frsize);
}

int64_t Allocated(const struct stat& stat) {
  return static_cast<int64_t>(stat.st_blocks) * 512;
}

int64_t NumBytes(std::span<const std::span<const std::byte>> parts) {
  int64_t bytes = 0;
  for (std::span<const std::byte> part : parts) bytes += std::ssize(part);
  return bytes;
}

}  // namespace

PosixFile::Turns PosixFile::ChooseTurns(const std::string& path, Mode mode) {
  const bool is_crowded = mode == Mode::kWriteBesideMany;
  if (!is_crowded && mode != Mode::kWriteBeside) return Turns::kNone;
  if (!IsInMemory(path) || IsFileSizeLimited()) return Turns::kNone;
  return is_crowded ? Turns::kCrowded : Turns::kSome;
}

StatusOr<PosixFile> PosixFile::Open(std::string path, Mode mode) {
  const char* operation = mode == Mode::kCreate ? "create" : "open";
  BELAY_RETURN_IF_ERROR(fault::Point(operation));
  const Turns turns = ChooseTurns(path, mode);
  const int flags = OpenFlags(mode, turns != Turns::kNone);
  const Links links =
      mode == Mode::kReadLinked ? Links::kFollowed : Links::kRefused;
  BELAY_ASSIGN_OR_RETURN(Descriptor file,
                         OpenRegular(path, flags, operation, 0666, links));
  return PosixFile(std::move(path), std::move(file), turns);
}

Status PosixFile::Close() {
  if (file_.fd() < 0) return absl::OkStatus();
  // Never repeated: Linux frees the descriptor even when close is interrupted.
  const int result = ::close(file_.Release());
  if (result != 0) return ErrnoStatus(errno, "close", path_);
  return fault::Point("close");
}

Status PosixFile::PwriteAll(int64_t offset, const void* data, int64_t bytes) {
  BELAY_RETURN_IF_ERROR(fault::Point("write"));
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const auto part = static_cast<size_t>(std::min(bytes, kMaxTransfer));
    write_calls_.fetch_add(1, std::memory_order_relaxed);
    const ssize_t count = ::pwrite(file_.fd(), from, part, offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return ErrnoStatus(errno, "write", path_);
    if (count == 0) return ErrnoStatus(EIO, "write", path_);
    from += count;
    offset += count;
    bytes -= count;
  }
  return absl::OkStatus();
}

Status PosixFile::PwriteParts(
    int64_t offset, std::span<const std::span<const std::byte>> parts) {
  BELAY_RETURN_IF_ERROR(fault::Point("write"));
  if (turns_ == Turns::kNone || NumBytes(parts) < kLeastMappedBytes) {
    return WriteVectors(offset, parts);
  }
  if (is_written_.exchange(true)) {
    return FillOrWrite(offset, parts);
  }
  Status status;
  {
    const WriteTurn turn(file_.fd(), turns_ == Turns::kCrowded);
    status = turn.is_taken() ? FillOrWrite(offset, parts)
                             : WriteVectors(offset, parts);
  }
  is_written_.store(false);
  return status;
}

// Fills pages while others write.
Status PosixFile::FillOrWrite(
    int64_t offset, std::span<const std::span<const std::byte>> parts) {
  if (!FillPages(file_.fd(), offset, parts)) return WriteVectors(offset, parts);
  write_calls_.fetch_add(1, std::memory_order_relaxed);
  return absl::OkStatus();
}

Status PosixFile::WriteVectors(
    int64_t offset, std::span<const std::span<const std::byte>> parts) {
  IoVectors<const std::byte> left(parts);
  while (left.Fill()) {
    write_calls_.fetch_add(1, std::memory_order_relaxed);
    const ssize_t count =
        ::pwritev(file_.fd(), left.data(), left.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return ErrnoStatus(errno, "write", path_);
    if (count == 0) return ErrnoStatus(EIO, "write", path_);
    offset += count;
    left.Drop(count);
  }
  return absl::OkStatus();
}

Status PosixFile::PreadAll(int64_t offset, void* data, int64_t bytes) {
  BELAY_RETURN_IF_ERROR(fault::Point("read"));
  char* to = static_cast<char*>(data);
  while (bytes > 0) {
    const auto part = static_cast<size_t>(std::min(bytes, kMaxTransfer));
    read_calls_.fetch_add(1, std::memory_order_relaxed);
    const ssize_t count = ::pread(file_.fd(), to, part, offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return ErrnoStatus(errno, "read", path_);
    if (count == 0) return TooShort(offset + bytes);
    to += count;
    offset += count;
    bytes -= count;
  }
  return absl::OkStatus();
}

Status PosixFile::PreadParts(int64_t offset,
                             std::span<const std::span<std::byte>> parts) {
  BELAY_RETURN_IF_ERROR(fault::Point("read"));
  IoVectors<std::byte> left(parts);
  while (left.Fill()) {
    read_calls_.fetch_add(1, std::memory_order_relaxed);
    const ssize_t count =
        ::preadv(file_.fd(), left.data(), left.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return ErrnoStatus(errno, "read", path_);
    if (count == 0) return TooShort(offset + left.bytes());
    offset += count;
    left.Drop(count);
  }
  return absl::OkStatus();
}

Status PosixFile::TooShort(int64_t need) const {
  BELAY_ASSIGN_OR_RETURN(const FileStat stat, Stat());
  return absl::DataLossError(absl::StrFormat(
      "read \"%s\": the file is truncated (need %d bytes, found %d)", path_,
      need, stat.size));
}

Status PosixFile::Fallocate(int64_t bytes, int64_t from) {
  return Reserve(0, from, bytes);
}

Status PosixFile::ReserveUnsized(int64_t bytes) {
  return Reserve(FALLOC_FL_KEEP_SIZE, 0, bytes);
}

Status PosixFile::Reserve(int mode, int64_t from, int64_t bytes) {
  BELAY_RETURN_IF_ERROR(fault::Point("reserve"));
  if (bytes <= from) return absl::OkStatus();
  if (Retry([&] {
        return ::fallocate(file_.fd(), mode, from, bytes - from);
      }) == 0) {
    return absl::OkStatus();
  }
  const int error = errno;
  const bool unsupported = error == EOPNOTSUPP || error == ENOSYS;
  if (!unsupported && error != ENOSPC) {
    return ErrnoStatus(error, "reserve", path_);
  }
  BELAY_ASSIGN_OR_RETURN(const int64_t found, SpaceForThisFile());
  if (!unsupported || bytes > found) return NoSpaceLeft(bytes, found);
  if (mode == FALLOC_FL_KEEP_SIZE) return absl::OkStatus();
  struct stat stat;
  if (::fstat(file_.fd(), &stat) == 0 &&
      (stat.st_size >= bytes ||
       Retry([&] { return ::ftruncate(file_.fd(), bytes); }) == 0)) {
    return absl::OkStatus();
  }
  return ErrnoStatus(errno, "reserve", path_);
}

Status PosixFile::ReleaseUnsized() {
  BELAY_ASSIGN_OR_RETURN(const FileStat stat, Stat());
  if (Retry([&] { return ::ftruncate(file_.fd(), stat.size); }) == 0) {
    return absl::OkStatus();
  }
  return ErrnoStatus(errno, "truncate", path_);
}

Status PosixFile::Extend(int64_t bytes) {
  BELAY_RETURN_IF_ERROR(fault::Point("reserve"));
  BELAY_ASSIGN_OR_RETURN(const int64_t found, SpaceForThisFile());
  if (bytes > found) return NoSpaceLeft(bytes, found);
  if (Retry([&] { return ::ftruncate(file_.fd(), bytes); }) == 0) {
    return absl::OkStatus();
  }
  return ErrnoStatus(errno, "reserve", path_);
}

StatusOr<int64_t> PosixFile::SpaceForThisFile() const {
  struct statvfs space;
  struct stat stat;
  if (::fstatvfs(file_.fd(), &space) != 0 || ::fstat(file_.fd(), &stat) != 0) {
    return ErrnoStatus(errno, "reserve", path_);
  }
  const int64_t available = Available(space);
  return available + std::min(Allocated(stat), INT64_MAX - available);
}

Status PosixFile::NoSpaceLeft(int64_t need, int64_t found) const {
  return absl::ResourceExhaustedError(
      absl::StrFormat("reserve \"%s\": no space left (need %d bytes, found %d)",
                      path_, need, found));
}

Status PosixFile::Sync() {
  BELAY_RETURN_IF_ERROR(fault::Point("sync"));
  if (Retry([&] { return ::fsync(file_.fd()); }) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, "sync", path_);
}

void PosixFile::StartWriteback(int64_t offset, int64_t bytes) {
  ::sync_file_range(file_.fd(), offset, bytes, SYNC_FILE_RANGE_WRITE);
}

StatusOr<FileStat> PosixFile::Stat() const {
  BELAY_RETURN_IF_ERROR(fault::Point("stat"));
  struct stat stat;
  if (::fstat(file_.fd(), &stat) != 0) return ErrnoStatus(errno, "stat", path_);
  return FileStat{.size = stat.st_size,
                  .allocated_bytes = Allocated(stat),
                  .number = stat.st_ino,
                  .modified_ns = int64_t{stat.st_mtim.tv_sec} * 1000000000 +
                                 stat.st_mtim.tv_nsec,
                  .links = static_cast<int64_t>(stat.st_nlink)};
}

int64_t PosixFile::DataBytes() const {
  constexpr int kMostParts = 1000;
  int64_t bytes = 0;
  int64_t end = 0;
  for (int part = 0; part < kMostParts; ++part) {
    const int64_t begin = ::lseek(file_.fd(), end, SEEK_DATA);
    if (begin >= 0) end = ::lseek(file_.fd(), begin, SEEK_HOLE);
    if (begin < 0 || end <= begin) break;
    bytes += end - begin;
  }
  return bytes;
}

StatusOr<int64_t> FreeBytes(const std::string& path) {
  BELAY_RETURN_IF_ERROR(fault::Point("find free space"));
  struct statvfs space;
  if (::statvfs(path.c_str(), &space) == 0) return Available(space);
  return ErrnoStatus(errno, "find free space", path);
}

Status BlameFullDisk(const Status& status, const std::string& path,
                     int64_t need) {
  if (!absl::IsInternal(status) && !absl::IsUnavailable(status)) return status;
  const StatusOr<int64_t> found = FreeBytes(path);
  if (!found.ok() || *found >= need) return status;
  return absl::ResourceExhaustedError(
      absl::StrFormat("%s; no space left (need %d bytes, found %d)",
                      status.message(), need, *found));
}

}  // namespace belay
