// All-to-all exchanges of bytes, and the messages that carry them.

#ifndef BELAY_MPI_ALL_TO_ALL_H_
#define BELAY_MPI_ALL_TO_ALL_H_

#include "core/flat_buffer.h"
#include "core/wire.h"
#include "mpi/collective.h"

namespace belay {

// Calls post(start, count) for consecutive parts of `total`, each of at most
// `most`. Returns the first failure.
Status ForEachPart(int64_t total, int64_t most,
                   absl::FunctionRef<Status(int64_t, int)> post);

// Point-to-point messages of any length, all in flight until Finish. Two ranks
// must post the messages between them in the same order. Borrows the bytes.
class Parcels {
 public:
  Parcels(CommContext& context, int tag) : context_(context), tag_(tag) {}

  // Post a message in parts of at most context.part_bytes.
  void Send(std::span<const std::byte> bytes, int to);
  void Receive(std::span<std::byte> bytes, int from);

  // Waits for all messages. Without agreement.
  Status Finish();

 private:
  template <typename Byte, typename Start>
  void Post(std::span<Byte> bytes, int peer, std::string_view site,
            Start start);

  CommContext& context_;
  int tag_;
  std::vector<MPI_Request> requests_;
  Status status_;
};

// The bytes from each rank, in one block of memory, ordered by rank.
struct ReceivedBytes {
  ReusableBytes memory;
  std::vector<int64_t> offsets;  // one per rank, and the end

  std::span<std::byte> From(int rank) const {
    return {memory.bytes.get() + offsets[rank],
            static_cast<size_t>(offsets[rank + 1] - offsets[rank])};
  }
  // Returns one span per rank.
  std::vector<std::span<std::byte>> FromAll() const;
};

// A value that must be equal on all ranks.
struct Sameness {
  std::string_view what;  // named in the error, as in AgreeSame
  uint64_t fingerprint = 0;
};

// Agrees on `mine` and on the fingerprint, and sends to[r] to rank r. Returns
// the numbers from all ranks. Numbers must not be negative; `to` may be empty
// if `mine` is an error. One small all-to-all if all is well. Collective;
// agreed.
Agreed<std::vector<int64_t>> ExchangeCounts(CommContext& context,
                                            const Status& mine,
                                            std::span<const int64_t> to,
                                            const Sameness& same = {});

// Sends to[r] to rank r and receives from[r] from rank r; both ranks know the
// size. One MPI_Ialltoallw of any size, then Agree. Collective. Bytes from this
// rank to itself are sent as well: leave them empty if they can be used in
// place.
Agreed<> ExchangeBytes(CommContext& context,
                       std::span<const std::span<const std::byte>> to,
                       std::span<const std::span<std::byte>> from);

// Makes room for the given sizes per rank, in `memory` if it is large enough.
// Errors: ResourceExhausted.
StatusOr<ReceivedBytes> NewReceivedBytes(std::span<const int64_t> sizes,
                                         ReusableBytes memory = {});

// Exchanges sizes, agrees that every rank has room, then exchanges the bytes.
// `to` may be empty if `mine` is an error. Collective; agreed. The result is in
// `memory` if that is large enough.
Agreed<ReceivedBytes> AllToAll(CommContext& context, const Status& mine,
                               std::span<const std::span<const std::byte>> to,
                               const Sameness& same = {},
                               ReusableBytes memory = {});

// Messages to and from all ranks, in reusable memory. Neither copied nor moved.
struct Mail {
  explicit Mail(int num_ranks) : to(static_cast<size_t>(num_ranks)) {}
  Mail(const Mail&) = delete;
  Mail& operator=(const Mail&) = delete;

  Messages to;
  // Per rank. The message from this rank to itself stays in `to`.
  std::vector<std::span<std::byte>> from;
  ReusableBytes memory;
};

// Calls `make` to fill `mail.to`, then exchanges it. Collective; agreed.
// Errors: those and exceptions of `make`; ResourceExhausted - no memory for
// `what`.
Agreed<> ExchangeMail(CommContext& context, std::string_view what, Mail& mail,
                      absl::FunctionRef<Status(Messages& to)> make);

}  // namespace belay

#endif  // BELAY_MPI_ALL_TO_ALL_H_
