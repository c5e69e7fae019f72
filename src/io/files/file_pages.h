// Files in memory that several processes write at once.
//
// The kernel lets one process at a time write to a file. In memory that is most
// of the work: it finds and fills the pages while the other processes wait. The
// pages of a mapping are found without that lock, at about twice the cost. So
// whoever gets the turn writes, and the others fill pages meanwhile.

#ifndef BELAY_IO_FILES_FILE_PAGES_H_
#define BELAY_IO_FILES_FILE_PAGES_H_

#include <cstddef>
#include <cstdint>
#include <span>

namespace belay {

// Fewer bytes are not worth a mapping.
inline constexpr int64_t kLeastMappedBytes = int64_t{64} << 10;

// The turn to write to a file. Held until destruction, if it was free; when its
// holder ends the kernel frees it, with the last process that was forked off
// it. Only those that ask for it are kept out, and they need not wait.
class WriteTurn {
 public:
  // Takes the turn if it is free. Does not wait for it; but with `is_crowded`,
  // where more processes share the file than there are cores, first lets others
  // have this core a few times if it is not. `fd` is open for writing, and
  // outlives this. Local.
  explicit WriteTurn(int fd, bool is_crowded = false);
  WriteTurn(const WriteTurn&) = delete;
  WriteTurn& operator=(const WriteTurn&) = delete;
  ~WriteTurn();

  // Whether another one has it; false where the file system has no locks.
  // Local.
  bool is_taken() const { return is_taken_; }

 private:
  int fd_;
  bool is_taken_;
};

// Whether RLIMIT_FSIZE is set, which calls that write obey and mappings do not.
// Local.
bool IsFileSizeLimited();

// Copies parts that follow each other to `offset` of a file on a tmpfs, open
// for reading and writing. Local. Returns false, with any part of them copied,
// where that can't be done here: no space, no memory, an older kernel, a file
// that is not that long yet. Writing them then tells why. A file made shorter
// meanwhile raises SIGBUS; parts that cannot be read raise SIGSEGV or SIGBUS,
// where writing them returns an error.
bool FillPages(int fd, int64_t offset,
               std::span<const std::span<const std::byte>> parts);

}  // namespace belay

#endif  // BELAY_IO_FILES_FILE_PAGES_H_
