// Bytes from every rank to every other, and the messages that carry them.

#ifndef BELAY_MPI_ALL_TO_ALL_H_
#define BELAY_MPI_ALL_TO_ALL_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "belay/status.h"
#include "core/agreed.h"
#include "core/flat_buffer.h"
#include "core/wire.h"
#include "mpi/collective.h"
#include "mpi/mpi_error.h"

namespace belay {

// The first message of every exchange of bytes.

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

  // The bytes of the whole message.
  int64_t size() const {
    return static_cast<int64_t>(head_ & ((uint64_t{1} << kSizeBits) - 1));
  }
  // True if they all travel inside the packet.
  bool is_whole() const {
    return size() <= static_cast<int64_t>(sizeof(text_));
  }

  // Sizes `bytes`, and fills them if they came whole.
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

// Point-to-point messages of any length.

// Calls post(start, count) for each part of at most `most` of `total`, and
// returns the first failure.
Status ForEachPart(int64_t total, int64_t most,
                   absl::FunctionRef<Status(int64_t, int)> post);

// Messages that are all in flight until Finish. Those between two ranks are
// matched in the order in which both post them. Borrows the bytes.
class Parcels {
 public:
  Parcels(CommContext& context, int tag) : context_(context), tag_(tag) {}

  // Post a message in parts of at most context.part_bytes.
  void Send(std::span<const std::byte> bytes, int to);
  void Receive(std::span<std::byte> bytes, int from);

  // Waits for all. The Status is not agreed.
  Status Finish();

 private:
  void Post(int64_t total, std::string_view site,
            absl::FunctionRef<int(int64_t, int, MPI_Request*)> start);

  CommContext& context_;
  int tag_;
  std::vector<MPI_Request> requests_;
  Status status_;
};

// Exchanges in which every rank gives bytes to every other rank.
//
// What a rank gives to itself travels as well, through MPI; leave it empty
// where the bytes can be used where they lie.

// What one rank got from each rank, in one piece of memory, by rank.
struct ReceivedBytes {
  ReusableBytes memory;
  std::vector<int64_t> offsets;  // one per rank, and the end

  std::span<std::byte> From(int rank) const {
    return {memory.bytes.get() + offsets[rank],
            static_cast<size_t>(offsets[rank + 1] - offsets[rank])};
  }
  // One per rank.
  std::vector<std::span<std::byte>> FromAll() const;
};

// What all ranks have to pass alike.
struct Sameness {
  std::string_view what;  // named in the error, as in AgreeSame
  uint64_t fingerprint = 0;
};

// Agrees on `mine` and on the fingerprint, and tells rank r the r-th of `to`,
// which are not negative and are looked at only if mine is OK. Returns what
// each rank told this one. One small all-to-all; if ranks did not pass OK, or
// disagree, what Agree or AgreeSame do after it. Collective. The result of a
// failed call is agreed.
Agreed<std::vector<int64_t>> ExchangeCounts(CommContext& context,
                                            const Status& mine,
                                            std::span<const int64_t> to,
                                            const Sameness& same = {});

// Gives rank r the bytes of the r-th of `to` and fills the r-th of `from` with
// those of rank r. One MPI_Ialltoallw of any size, then Agree. Collective. Both
// ends know how many bytes go between them.
Agreed<> ExchangeBytes(CommContext& context,
                       std::span<const std::span<const std::byte>> to,
                       std::span<const std::span<std::byte>> from);

// Makes room for so many bytes of each rank, in `memory` if it is large enough.
// Errors: ResourceExhausted - there is not enough memory.
StatusOr<ReceivedBytes> NewReceivedBytes(std::span<const int64_t> sizes,
                                         ReusableBytes memory = {});

// Both in one: agrees on `mine` and on the fingerprint, tells the sizes, agrees
// that every rank has room for what comes, then moves the bytes. If not all
// ranks passed OK nothing is moved, and `to` is not looked at. Collective. The
// result is in `memory` if that is large enough.
Agreed<ReceivedBytes> AllToAll(CommContext& context, const Status& mine,
                               std::span<const std::span<const std::byte>> to,
                               const Sameness& same = {},
                               ReusableBytes memory = {});

// Messages to and from all ranks, in memory that is used again. Neither copied
// nor moved.
struct Mail {
  explicit Mail(int num_ranks) : to(static_cast<size_t>(num_ranks)) {}
  Mail(const Mail&) = delete;
  Mail& operator=(const Mail&) = delete;

  Messages to;
  // What came from each rank. That of this rank stays where it was made.
  std::vector<std::span<std::byte>> from;
  ReusableBytes memory;
};

// Lets `make` fill `mail.to`, all empty before, and exchanges it. Collective;
// agreed.
// Errors: what `make` returned or threw; ResourceExhausted - no memory for
//   `what`.
Agreed<> ExchangeMail(CommContext& context, std::string_view what, Mail& mail,
                      absl::FunctionRef<Status(Messages& to)> make);

}  // namespace belay

#endif  // BELAY_MPI_ALL_TO_ALL_H_
