#include "mpi/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>

#include "absl/strings/str_format.h"
#include "core/errno_status.h"
#include "core/fault.h"
#include "core/integers.h"
#include "core/text.h"

namespace belay {
namespace {

// The file behind the memory. It keeps its name only until all ranks of the
// node have opened it, so that it disappears with them.
class MemoryFile {
 public:
  MemoryFile() = default;
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() {
    if (fd_ >= 0) ::close(fd_);
    if (is_mine_) ::shm_unlink(name_.c_str());
  }

  const std::string& name() const { return name_; }

  Status Make(int64_t bytes) {
    BELAY_RETURN_IF_ERROR(fault::Point("shm_open"));
    constexpr int kTries = 100;  // another container may use the name
    for (int i = 0; i < kTries && fd_ < 0; ++i) {
      const auto now = std::chrono::steady_clock::now().time_since_epoch();
      name_ = Cat("/belay.", getpid(), ".", now.count());
      fd_ = ::shm_open(name_.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
      if (fd_ < 0 && errno != EEXIST) break;
    }
    if (fd_ < 0) return Error(errno, "open", bytes);
    is_mine_ = true;
    if (::ftruncate(fd_, bytes) != 0) return Error(errno, "size", bytes);
    return absl::OkStatus();
  }

  Status Open(const std::string& name) {
    name_ = name;
    BELAY_RETURN_IF_ERROR(fault::Point("shm_open"));
    fd_ = ::shm_open(name_.c_str(), O_RDWR, 0);
    if (fd_ < 0) return ErrnoStatus(errno, "open shared memory", name_);
    return absl::OkStatus();
  }

  // Without this, a write ends the process if memory is short.
  Status Reserve(int64_t begin, int64_t bytes) {
    BELAY_RETURN_IF_ERROR(fault::Point("posix_fallocate"));
    int error = EINTR;
    while (error == EINTR) error = ::posix_fallocate(fd_, begin, bytes);
    if (error != 0) return Error(error, "reserve", bytes);
    return absl::OkStatus();
  }

  StatusOr<char*> Map(int64_t bytes) {
    BELAY_RETURN_IF_ERROR(fault::Point("mmap"));
    void* memory = ::mmap(nullptr, static_cast<size_t>(bytes),
                          PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
    if (memory == MAP_FAILED) return Error(errno, "map", bytes);
    return static_cast<char*>(memory);
  }

 private:
  Status Error(int error, std::string_view operation, int64_t bytes) const {
    const Status status =
        ErrnoStatus(error, Cat(operation, " shared memory"), name_);
    return Status(status.code(), absl::StrFormat("%s (need %d bytes)",
                                                 status.message(), bytes));
  }

  std::string name_;
  int fd_ = -1;
  bool is_mine_ = false;
};

}  // namespace

void SharedMemory::Unmap::operator()(char* memory) const {
  ::munmap(memory, bytes);
}

Agreed<SharedMemory> SharedMemory::Create(CommContext& context,
                                          const NodePlace& mine,
                                          int64_t bytes) {
  SharedMemory memory;
  const int64_t page = ::sysconf(_SC_PAGESIZE);
  memory.part_bytes_ = CeilDivide(bytes, page) * page;
  const int64_t all_bytes = memory.part_bytes_ * mine.ranks;
  MemoryFile file;
  Status status;
  if (mine.place == 0) status = file.Make(all_bytes);
  BELAY_RETURN_IF_AGREED(Agree(context, status));
  BELAY_ASSIGN_OR_RETURN_AGREED(const std::vector<std::string> names,
                                AllGather(context, file.name()));
  const auto open_and_map = [&]() -> Status {
    if (mine.place != 0) BELAY_RETURN_IF_ERROR(file.Open(names[mine.first]));
    BELAY_RETURN_IF_ERROR(
        file.Reserve(mine.place * memory.part_bytes_, memory.part_bytes_));
    BELAY_ASSIGN_OR_RETURN(char* const mapped, file.Map(all_bytes));
    memory.memory_ = {mapped, Unmap{static_cast<size_t>(all_bytes)}};
    return absl::OkStatus();
  };
  BELAY_RETURN_IF_AGREED(Agree(context, open_and_map()));
  return memory;
}

}  // namespace belay
