// The first message of every exchange of bytes.

#ifndef BELAY_MPI_PACKET_H_
#define BELAY_MPI_PACKET_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "belay/status.h"
#include "mpi/mpi_error.h"

namespace belay {

// What a packet belongs to. A rank in another call would take it for something
// else.
enum class PacketKind : uint64_t {
  kFailure = 0xbe10,
  kFromRoot,
  kBroadcast,
  kGather,
  kScatter
};

// The fixed-size first message of every exchange of bytes: small ones, nearly
// all of them, travel inside it.
class Packet {
 public:
  Packet() = default;
  Packet(PacketKind kind, std::string_view bytes)
      : head_(static_cast<uint64_t>(kind) << kSizeBits | bytes.size()) {
    if (is_whole()) std::memcpy(text_, bytes.data(), bytes.size());
  }

  // The bytes of the whole message. Local.
  int64_t size() const {
    return static_cast<int64_t>(head_ & ((uint64_t{1} << kSizeBits) - 1));
  }
  // True if they all travel inside the packet. Local.
  bool is_whole() const {
    return size() <= static_cast<int64_t>(sizeof(text_));
  }

  // Sizes `bytes`, and fills them if they came whole. Local.
  // Errors: those of DifferentCalls.
  Status Unpack(PacketKind kind, std::string& bytes) const {
    if (head_ >> kSizeBits != static_cast<uint64_t>(kind)) {
      return DifferentCalls();
    }
    bytes.resize(size());
    if (is_whole()) std::memcpy(bytes.data(), text_, size());
    return absl::OkStatus();
  }

 private:
  static constexpr int kSizeBits = 48;

  uint64_t head_ = 0;  // the kind, and how many bytes there are
  char text_[56] = {};
};
static_assert(sizeof(Packet) == 64);

}  // namespace belay

#endif  // BELAY_MPI_PACKET_H_
