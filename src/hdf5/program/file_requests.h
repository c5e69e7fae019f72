// What a GuardedFile and CheckProgramCanRead ask a process, in which a
// FileServer answers: the kind of request, and its arguments.

#ifndef BELAY_HDF5_PROGRAM_FILE_REQUESTS_H_
#define BELAY_HDF5_PROGRAM_FILE_REQUESTS_H_

#include <cstdint>

namespace belay::h5 {

enum class FileRequest : uint8_t {
  kOpen,        // path, WrittenBy
  kList,        // no argument
  kDescribe,    // path, whether it checks sources
  kRead,        // path, dtype, box; into the shared memory
  kReadStored,  // path, dtype, fields, numbers of filters, box; likewise
  kReadText,    // path
  kCanRead      // numbers of filters; without a file
};

// Whose file it is. One of ours is no symbolic link, and lacks nothing that its
// index promises: what HDF5 does not find or cannot make sense of is damage.
enum class WrittenBy : uint8_t { kAnybody, kBelay };

}  // namespace belay::h5

#endif  // BELAY_HDF5_PROGRAM_FILE_REQUESTS_H_
