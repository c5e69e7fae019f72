// Segments that follow each other in a file are moved by one call, wherever
// they lie in memory. Reads skip short gaps between them by reading these, too.

#ifndef BELAY_IO_TRANSFER_JOINED_SEGMENTS_H_
#define BELAY_IO_TRANSFER_JOINED_SEGMENTS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "belay/status.h"
#include "io/files/io_vectors.h"

namespace belay {

// Byte: std::byte to read into, const std::byte to write from.
template <typename Byte>
class JoinedSegments {
 public:
  // Moves parts that follow each other in the file from `offset` on.
  using Move = std::function<Status(int64_t offset, int64_t bytes,
                                    std::span<const std::span<Byte>> parts)>;

  // `gap` takes what lies in gaps, none of them longer; empty: of writes. It is
  // borrowed.
  explicit JoinedSegments(Move move, std::span<Byte> gap = {})
      : move_(std::move(move)), gap_(gap) {
    parts_.reserve(kMostVectors);
  }

  // Moves what is waiting if this segment does not follow it, and keeps the
  // segment for later. Does nothing once something has failed. Local.
  void Add(std::span<Byte> part, int64_t offset) {
    const int64_t gap = offset - (offset_ + bytes_);
    const bool is_near = 0 <= gap && gap <= std::ssize(gap_);
    const size_t needed = gap > 0 ? 2 : 1;
    if (!is_near || parts_.size() + needed > kMostVectors) {
      Flush().IgnoreError();  // told by the next one
    }
    if (parts_.empty()) {
      offset_ = offset;
    } else if (gap > 0) {
      parts_.push_back(gap_.first(static_cast<size_t>(gap)));
      bytes_ += gap;
    }
    if (!parts_.empty() &&
        parts_.back().data() + parts_.back().size() == part.data()) {
      parts_.back() = {parts_.back().data(),
                       parts_.back().size() + part.size()};
    } else {
      parts_.push_back(part);
    }
    bytes_ += std::ssize(part);
  }

  // Moves what is waiting. Local. Returns what has gone wrong so far.
  Status Flush() {
    if (bytes_ > 0 && status_.ok()) status_ = move_(offset_, bytes_, parts_);
    parts_.clear();
    bytes_ = 0;
    return status_;
  }

 private:
  Move move_;
  std::span<Byte> gap_;
  Status status_;
  std::vector<std::span<Byte>> parts_;
  int64_t offset_ = 0;
  int64_t bytes_ = 0;
};

}  // namespace belay

#endif  // BELAY_IO_TRANSFER_JOINED_SEGMENTS_H_
