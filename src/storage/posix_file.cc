#include "storage/posix_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/catch_exceptions.h"
#include "core/fault.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "format/paths.h"
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

// Calls `move`, which writes or reads a number of vectors, until it has moved
// all parts, which are adjacent in the file. `move` returns the number of bytes
// moved, negative after an error. Returns 0, or, if `move` moved nothing, the
// number of bytes requested in that call.
template <typename Byte, typename Move>
StatusOr<int64_t> MoveParts(std::span<const std::span<Byte>> parts,
                            const char* operation, const std::string& path,
                            Move move) {
  constexpr int64_t kMaxBytes = 0x7ffff000;  // Linux moves no more in one call
  iovec vectors[kMaxVectors];
  size_t done = 0;  // bytes of the first part
  while (true) {
    while (!parts.empty() && done >= parts[0].size()) {
      done -= parts[0].size();
      parts = parts.subspan(1);
    }
    int count = 0;
    int64_t bytes = 0;
    for (; count < kMaxVectors && count < std::ssize(parts); ++count) {
      std::span<Byte> part = parts[count];
      if (count == 0) {
        part =
            part.subspan(done, std::min<size_t>(part.size() - done, kMaxBytes));
      }
      if (bytes + std::ssize(part) > kMaxBytes) break;
      vectors[count] = {const_cast<std::byte*>(part.data()), part.size()};
      bytes += std::ssize(part);
    }
    if (bytes == 0) return 0;
    const ssize_t moved = Retry([&] { return move(vectors, count); });
    if (moved < 0) return ErrnoStatus(errno, operation, path);
    if (moved == 0) return bytes;
    done += moved;
  }
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
  const std::span part(static_cast<const std::byte*>(data),
                       static_cast<size_t>(bytes));
  return WriteVectors(offset, {&part, 1});
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
  BELAY_ASSIGN_OR_RETURN(
      const int64_t left,
      MoveParts(parts, "write", path_, [&](const iovec* vectors, int count) {
        write_calls_.fetch_add(1, std::memory_order_relaxed);
        const ssize_t moved =
            count == 1 ? ::pwrite(file_.fd(), vectors[0].iov_base,
                                  vectors[0].iov_len, offset)
                       : ::pwritev(file_.fd(), vectors, count, offset);
        offset += std::max<ssize_t>(moved, 0);
        return moved;
      }));
  return left == 0 ? absl::OkStatus() : ErrnoStatus(EIO, "write", path_);
}

Status PosixFile::PreadAll(int64_t offset, void* data, int64_t bytes) {
  const std::span part(static_cast<std::byte*>(data),
                       static_cast<size_t>(bytes));
  return PreadParts(offset, {&part, 1});
}

Status PosixFile::PreadParts(int64_t offset,
                             std::span<const std::span<std::byte>> parts) {
  BELAY_RETURN_IF_ERROR(fault::Point("read"));
  BELAY_ASSIGN_OR_RETURN(
      const int64_t left,
      MoveParts(parts, "read", path_, [&](const iovec* vectors, int count) {
        read_calls_.fetch_add(1, std::memory_order_relaxed);
        const ssize_t moved =
            count == 1 ? ::pread(file_.fd(), vectors[0].iov_base,
                                 vectors[0].iov_len, offset)
                       : ::preadv(file_.fd(), vectors, count, offset);
        offset += std::max<ssize_t>(moved, 0);
        return moved;
      }));
  return left == 0 ? absl::OkStatus() : TooShort(offset + left);
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
  constexpr int kMaxParts = 1000;
  int64_t bytes = 0;
  int64_t end = 0;
  for (int part = 0; part < kMaxParts; ++part) {
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

// --- Opening ---

namespace {

const char* KindName(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFDIR:
      return "a directory";
    case S_IFIFO:
      return "a pipe";
    case S_IFSOCK:
      return "a socket";
    case S_IFCHR:
    case S_IFBLK:
      return "a device";
    default:
      return "something else";
  }
}

Descriptor Open(const std::string& path, int flags, mode_t mode) {
  return Descriptor(
      Retry([&] { return ::open(path.c_str(), flags | O_CLOEXEC, mode); }));
}

}  // namespace

StatusOr<Descriptor> OpenRegular(const std::string& path, int flags,
                                 std::string_view operation, mode_t mode,
                                 Links links) {
  if (!AreFollowed(links)) flags |= O_NOFOLLOW;
  // Does not wait for the other end of a pipe, but does wait until another
  // process has ended its fcntl lease on the file.
  Descriptor file = Open(path, flags | O_NONBLOCK, mode);
  struct stat before;
  if (file.fd() < 0 && errno == EWOULDBLOCK &&
      ::stat(path.c_str(), &before) == 0 && S_ISREG(before.st_mode)) {
    file = Open(path, flags, mode);
  }
  if (file.fd() < 0 && errno == ELOOP && ::lstat(path.c_str(), &before) == 0 &&
      S_ISLNK(before.st_mode)) {
    return IsSymbolicLink(operation, path);
  }
  const auto not_a_file = [&](mode_t found) {
    return absl::InvalidArgumentError(
        Cat(operation, " \"", path, "\": not a file (need a regular file, ",
            "found ", KindName(found), ")"));
  };
  if (file.fd() < 0 && errno == ENXIO && ::lstat(path.c_str(), &before) == 0 &&
      S_ISSOCK(before.st_mode)) {
    return not_a_file(before.st_mode);
  }
  if (file.fd() < 0) return ErrnoStatus(errno, operation, path);
  ::fcntl(file.fd(), F_SETFL, ::fcntl(file.fd(), F_GETFL) & ~O_NONBLOCK);
  struct stat stat;
  if (::fstat(file.fd(), &stat) != 0) {
    return ErrnoStatus(errno, operation, path);
  }
  if (S_ISREG(stat.st_mode)) return file;
  return not_a_file(stat.st_mode);
}

bool HasName(int fd, const std::string& path) {
  struct stat opened = {}, named = {};
  return ::fstat(fd, &opened) == 0 && ::stat(path.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

// --- Whole file ---

StatusOr<std::string> ReadWhole(const std::string& path, int64_t most) {
  BELAY_ASSIGN_OR_RETURN(PosixFile file,
                         PosixFile::Open(path, PosixFile::Mode::kRead));
  BELAY_ASSIGN_OR_RETURN(const FileStat stat, file.Stat());
  if (stat.size > most) {
    return absl::DataLossError(Cat("read \"", path,
                                   "\": too long (need at most ", most,
                                   " bytes, found ", stat.size, ")"));
  }
  std::string content;
  BELAY_RETURN_IF_ERROR(
      CatchBadAlloc(Cat(stat.size, " bytes of \"", path, "\""), [&] {
        content.resize(static_cast<size_t>(stat.size));
        return absl::OkStatus();
      }));
  BELAY_RETURN_IF_ERROR(file.PreadAll(0, content.data(), stat.size));
  return content;
}

Status WriteWhole(const std::string& path, std::string_view content,
                  bool durable) {
  BELAY_ASSIGN_OR_RETURN(PosixFile file,
                         PosixFile::Open(path, PosixFile::Mode::kCreate));
  BELAY_RETURN_IF_ERROR(
      file.PwriteAll(0, content.data(), static_cast<int64_t>(content.size())));
  if (durable) BELAY_RETURN_IF_ERROR(file.Sync());
  return file.Close();
}

// --- Directories ---

namespace {

// Explains why the parent of `path` cannot hold a new directory; "" if it can.
std::string AboutParent(const std::string& path) {
  const std::string parent = GetParent(path);
  if (Exists(JoinPath(parent, ".")).value_or(true)) return "";
  return Exists(parent).value_or(false)
             ? Cat("; \"", parent,
                   "\" is a symbolic link to a missing directory")
             : Cat("; make \"", parent, "\" first");
}

}  // namespace

Status EnsureDirectory(const std::string& path, bool durable) {
  BELAY_ASSIGN_OR_RETURN(const bool exists, Exists(path));
  if (exists) return absl::OkStatus();
  const Status made = MakeDirectory(path);
  if (absl::IsNotFound(made)) {
    return absl::NotFoundError(Cat(made.message(), AboutParent(path)));
  }
  if (!made.ok() && !absl::IsAlreadyExists(made)) return made;
  return durable ? SyncDirectory(GetParent(path)) : absl::OkStatus();
}

namespace {

// Undoes its renames if one fails.
Status SwapByRenames(const std::string& a, const std::string& b) {
  const std::string spare = ReplacedName(b);
  // A crash between these renames may have left it. `b` exists, so the leftover
  // is not needed.
  BELAY_RETURN_IF_ERROR(RemoveTree(spare));
  BELAY_RETURN_IF_ERROR(Rename(b, spare));
  Status status = Rename(a, b);
  if (status.ok()) {
    status = Rename(spare, a);
    if (status.ok()) return status;
    Rename(b, a).IgnoreError();
  }
  Rename(spare, b).IgnoreError();
  return status;
}

}  // namespace

Status MakeDirectory(const std::string& path) {
  BELAY_RETURN_IF_ERROR(fault::Point("create directory"));
  if (::mkdir(path.c_str(), 0777) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, "create directory", path);
}

Status SyncDirectory(const std::string& path) {
  BELAY_RETURN_IF_ERROR(fault::Point("sync directory"));
  const Descriptor file(Retry([&] {
    return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  }));
  if (file.fd() >= 0 && Retry([&] { return ::fsync(file.fd()); }) == 0) {
    return absl::OkStatus();
  }
  return ErrnoStatus(errno, "sync directory", path);
}

Status Rename(const std::string& from, const std::string& to) {
  BELAY_RETURN_IF_ERROR(fault::Point("rename"));
  if (::rename(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, "rename", absl::StrCat(from, "\" to \"", to));
}

Status Swap(const std::string& a, const std::string& b) {
  BELAY_RETURN_IF_ERROR(fault::Point("swap"));
  if (::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) ==
      0) {
    return absl::OkStatus();
  }
  if (errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP) {
    return ErrnoStatus(errno, "swap", absl::StrCat(a, "\" and \"", b));
  }
  return SwapByRenames(a, b);
}

Status RemoveTree(const std::string& path) {
  BELAY_RETURN_IF_ERROR(fault::Point("remove"));
  std::error_code error;
  std::filesystem::remove_all(path, error);
  if (!error) return absl::OkStatus();
  return ErrnoStatus(error.value(), "remove", path);
}

StatusOr<bool> Exists(const std::string& path) {
  BELAY_RETURN_IF_ERROR(fault::Point("find"));
  struct stat stat;
  if (::lstat(path.c_str(), &stat) == 0) return true;
  if (errno == ENOENT || errno == ENOTDIR) return false;
  return ErrnoStatus(errno, "find", path);
}

StatusOr<std::vector<std::string>> ListDirectory(const std::string& path) {
  BELAY_RETURN_IF_ERROR(fault::Point("list directory"));
  std::error_code error;
  std::vector<std::string> names;
  std::filesystem::directory_iterator entry(path, error);
  while (!error && entry != std::filesystem::directory_iterator()) {
    names.push_back(entry->path().filename().string());
    entry.increment(error);
  }
  if (error) return ErrnoStatus(error.value(), "list directory", path);
  std::sort(names.begin(), names.end());
  return names;
}

// --- Files to sync ---

namespace {

constexpr size_t kMaxFilesToSync = 64;

StatusOr<PosixFile> OpenToSync(const std::string& path) {
  return PosixFile::Open(path, PosixFile::Mode::kWriteOnly);
}

}  // namespace

StatusOr<FilesToSync> FilesToSync::Open(std::vector<std::string> paths) {
  FilesToSync files;
  files.paths_ = std::move(paths);
  for (const std::string& path : files.paths_) {
    if (files.opened_.size() == kMaxFilesToSync) break;
    BELAY_ASSIGN_OR_RETURN(PosixFile one, OpenToSync(path));
    files.opened_.push_back(std::move(one));
  }
  return files;
}

Status FilesToSync::SyncAll(absl::FunctionRef<void()> after_each) {
  for (size_t i = 0; i < paths_.size(); ++i) {
    if (i == opened_.size()) {
      BELAY_ASSIGN_OR_RETURN(PosixFile one, OpenToSync(paths_[i]));
      opened_.push_back(std::move(one));
    }
    BELAY_RETURN_IF_ERROR(opened_[i].Sync());
    BELAY_RETURN_IF_ERROR(opened_[i].Close());
    after_each();
  }
  return absl::OkStatus();
}

}  // namespace belay
