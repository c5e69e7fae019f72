#include "io/files/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/errno_status.h"
#include "base/fault.h"
#include "base/status_macros.h"
#include "io/files/open_regular.h"

namespace belay {
namespace {

// Closes the file at the end: a mapping does not need it.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { ::close(fd_); }
  int get() const { return fd_; }

 private:
  int fd_;
};

}  // namespace

StatusOr<MappedFile> MappedFile::Open(const std::string& path, Links links) {
  BELAY_RETURN_IF_ERROR(fault::Point("open"));
  BELAY_ASSIGN_OR_RETURN(const int opened,
                         OpenRegular(path, O_RDONLY, "open", 0, links));
  const Descriptor file(opened);
  BELAY_RETURN_IF_ERROR(fault::Point("map"));
  struct stat stat;
  if (::fstat(file.get(), &stat) != 0) return ErrnoStatus(errno, "map", path);
  const int64_t modified_ns =
      int64_t{stat.st_mtim.tv_sec} * 1000000000 + stat.st_mtim.tv_nsec;
  if (stat.st_size == 0) return MappedFile(nullptr, 0, modified_ns);
  void* const data = ::mmap(nullptr, static_cast<size_t>(stat.st_size),
                            PROT_READ, MAP_SHARED, file.get(), 0);
  if (data == MAP_FAILED) return ErrnoStatus(errno, "map", path);
  return MappedFile(static_cast<char*>(data), stat.st_size, modified_ns);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      modified_ns_(std::exchange(other.modified_ns_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(modified_ns_, other.modified_ns_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(data_, static_cast<size_t>(size_));
}

}  // namespace belay
