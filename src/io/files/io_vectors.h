// What pwritev and preadv take: parts of memory that follow each other in a
// file, call by call.

#ifndef BELAY_IO_FILES_IO_VECTORS_H_
#define BELAY_IO_FILES_IO_VECTORS_H_

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace belay {

// Linux moves at most this many bytes in one call.
inline constexpr int64_t kMaxTransfer = 0x7ffff000;
// Linux moves at most this many parts of memory in one call.
inline constexpr int kMostVectors = 1024;

// Byte: std::byte or const std::byte. Borrows the parts.
template <typename Byte>
class IoVectors {
 public:
  explicit IoVectors(std::span<const std::span<Byte>> parts) : parts_(parts) {}

  // Takes as much of what is left as one call moves. Returns whether that is
  // anything. Local.
  bool Fill() {
    Drop(0);
    count_ = 0;
    bytes_ = 0;
    for (; count_ < kMostVectors && count_ < std::ssize(parts_); ++count_) {
      std::span<Byte> part = parts_[count_];
      if (count_ == 0) part = part.subspan(done_);
      if (count_ > 0 && bytes_ + std::ssize(part) > kMaxTransfer) break;
      vectors_[count_] = {const_cast<std::byte*>(part.data()), part.size()};
      bytes_ += std::ssize(part);
    }
    return bytes_ > 0;
  }

  // Goes past `bytes` bytes that were moved. Local.
  void Drop(size_t bytes) {
    done_ += bytes;
    while (!parts_.empty() && done_ >= parts_[0].size()) {
      done_ -= parts_[0].size();
      parts_ = parts_.subspan(1);
    }
  }

  // Return what Fill has taken. Local.
  const iovec* data() const { return vectors_; }
  int size() const { return count_; }
  int64_t bytes() const { return bytes_; }

 private:
  std::span<const std::span<Byte>> parts_;  // what is left
  size_t done_ = 0;                         // bytes of the first of them
  iovec vectors_[kMostVectors];
  int count_ = 0;
  int64_t bytes_ = 0;
};

}  // namespace belay

#endif  // BELAY_IO_FILES_IO_VECTORS_H_
