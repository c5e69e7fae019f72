// A file as memory that is read from it when it is looked at.

#ifndef BELAY_IO_FILES_MAPPED_FILE_H_
#define BELAY_IO_FILES_MAPPED_FILE_H_

#include <cstdint>
#include <string>

#include "base/symbolic_links.h"
#include "belay/status.h"

namespace belay {

// Move only. The system gives pages back when memory is short, so that the file
// may be larger than memory. A read error, or the end of a file that has become
// shorter, raises SIGBUS, which ends the process.
class MappedFile {
 public:
  // Maps a whole file for reading. Local.
  // Errors: those of PosixFile; ResourceExhausted - no room for it among the
  //   addresses of this process.
  static StatusOr<MappedFile> Open(const std::string& path,
                                   Links links = Links::kRefused);

  // Nothing is mapped.
  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  // The content, which must not be written to; null if there is none. Local.
  char* data() const { return data_; }
  int64_t size() const { return size_; }
  // When the file was last written to, in ns since 1970. Local.
  int64_t modified_ns() const { return modified_ns_; }

 private:
  MappedFile(char* data, int64_t size, int64_t modified_ns)
      : data_(data), size_(size), modified_ns_(modified_ns) {}

  char* data_ = nullptr;
  int64_t size_ = 0;
  int64_t modified_ns_ = 0;
};

}  // namespace belay

#endif  // BELAY_IO_FILES_MAPPED_FILE_H_
