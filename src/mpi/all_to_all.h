// Exchanges in which every rank gives bytes to every other rank.
//
// What a rank gives to itself travels as well, through MPI; leave it empty
// where the bytes can be used where they lie.

#ifndef BELAY_MPI_ALL_TO_ALL_H_
#define BELAY_MPI_ALL_TO_ALL_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "belay/status.h"
#include "bytes/huge_pages.h"
#include "bytes/message.h"
#include "mpi/collective.h"

namespace belay {

// What one rank got from each rank, in one piece of memory, by rank.
struct ReceivedBytes {
  ReusableBytes memory;
  std::vector<int64_t> offsets;  // one per rank, and the end

  // Local.
  std::span<std::byte> From(int rank) const {
    return {memory.bytes.get() + offsets[rank],
            static_cast<size_t>(offsets[rank + 1] - offsets[rank])};
  }
  // One per rank. Local.
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
StatusOr<std::vector<int64_t>> ExchangeCounts(CommContext& context,
                                              const Status& mine,
                                              std::span<const int64_t> to,
                                              const Sameness& same = {});

// Gives rank r the bytes of the r-th of `to` and fills the r-th of `from` with
// those of rank r. One MPI_Ialltoallw of any size, then Agree. Collective. Both
// ends know how many bytes go between them.
Status ExchangeBytes(CommContext& context,
                     std::span<const std::span<const std::byte>> to,
                     std::span<const std::span<std::byte>> from);

// Makes room for so many bytes of each rank, in `memory` if it is large enough.
// Local.
// Errors: ResourceExhausted - there is not enough memory.
StatusOr<ReceivedBytes> NewReceivedBytes(std::span<const int64_t> sizes,
                                         ReusableBytes memory = {});

// Both in one: agrees on `mine` and on the fingerprint, tells the sizes, agrees
// that every rank has room for what comes, then moves the bytes. If not all
// ranks passed OK nothing is moved, and `to` is not looked at. Collective. The
// result is in `memory` if that is large enough.
StatusOr<ReceivedBytes> AllToAll(CommContext& context, const Status& mine,
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
Status ExchangeMail(CommContext& context, std::string_view what, Mail& mail,
                    absl::FunctionRef<Status(Messages& to)> make);

}  // namespace belay

#endif  // BELAY_MPI_ALL_TO_ALL_H_
