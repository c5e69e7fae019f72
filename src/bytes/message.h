// What is sent to one rank: bytes at whose end others are added, in memory that
// is used again.

#ifndef BELAY_BYTES_MESSAGE_H_
#define BELAY_BYTES_MESSAGE_H_

#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace belay {

class Message {
 public:
  // Room for so many more bytes, with unspecified values; valid until the next
  // call.
  std::byte* Extend(size_t size) {
    const size_t begin = size_, end = begin + size;
    if (end > memory_.size()) memory_.resize(end + end / 8);  // may throw
    size_ = end;
    return memory_.data() + begin;
  }
  void Append(std::string_view bytes) {
    if (bytes.empty()) return;
    std::memcpy(Extend(bytes.size()), bytes.data(), bytes.size());
  }
  void Clear() { size_ = 0; }
  std::span<std::byte> bytes() { return std::span(memory_).first(size_); }

 private:
  std::vector<std::byte> memory_;
  size_t size_ = 0;
};

// One for each rank.
using Messages = std::vector<Message>;

}  // namespace belay

#endif  // BELAY_BYTES_MESSAGE_H_
