// Opening and reading regular files, and nothing else that has a name.

#ifndef BELAY_STORAGE_OPEN_FILE_H_
#define BELAY_STORAGE_OPEN_FILE_H_

#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "belay/status.h"
#include "core/process.h"

namespace belay {

// Owns a file descriptor. Move only; the destructor closes it.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(other.Release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }

  // The number; negative if there is none.
  int fd() const { return fd_; }
  // Gives up the ownership.
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

// Opens a file with flags of open(2). Does not wait for the other end of a
// pipe. A new file has `mode`, less the umask. `links` is about the last name
// of the path. Passes no fault point.
// Errors: `OPERATION "PATH": cause` as ErrnoStatus has them; InvalidArgument -
//   it is not a regular file, or a symbolic link; says what it is.
StatusOr<Descriptor> OpenRegular(const std::string& path, int flags,
                                 std::string_view operation, mode_t mode = 0666,
                                 Links links = Links::kRefused);

// Returns whether an open file still has this name, or is the target of a link
// of this name.
bool HasName(int fd, const std::string& path);

// Returns the content of a regular file.
// Errors: those of PosixFile; DataLoss - it has more than `most` bytes;
//   ResourceExhausted - more than there is memory for.
StatusOr<std::string> ReadWhole(const std::string& path,
                                int64_t most = INT64_MAX);

// Creates the file; durable: and syncs it.
// Errors: those of PosixFile.
Status WriteWhole(const std::string& path, std::string_view content,
                  bool durable);

}  // namespace belay

#endif  // BELAY_STORAGE_OPEN_FILE_H_
