// Memory for large values, in RAM or in a file without a name.

#ifndef BELAY_IO_FILES_SCRATCH_MEMORY_H_
#define BELAY_IO_FILES_SCRATCH_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "belay/status.h"

namespace belay {

// Move only.
class ScratchMemory {
 public:
  // Takes RAM or, if `dir` is not empty, room in a file there, all of it at
  // once, which is gone with the process. Values are unspecified. Local.
  // Errors: ResourceExhausted - not enough memory or space; those of the file
  //   system.
  static StatusOr<ScratchMemory> Take(int64_t bytes, const std::string& dir);

  // Nothing.
  ScratchMemory() = default;
  ScratchMemory(ScratchMemory&& other) noexcept;
  ScratchMemory& operator=(ScratchMemory&& other) noexcept;
  ~ScratchMemory();

  // Null if there is nothing. Local.
  std::byte* data() const { return mapped_ ? mapped_ : memory_.get(); }

 private:
  std::unique_ptr<std::byte[]> memory_;
  std::byte* mapped_ = nullptr;
  int64_t mapped_bytes_ = 0;
};

}  // namespace belay

#endif  // BELAY_IO_FILES_SCRATCH_MEMORY_H_
