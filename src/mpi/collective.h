// Agreement and message exchange.
//
// A collective belay function has this shape: local work, Agree, one of the
// exchanges below, Agree. The number and order of these calls depend only on
// values that are equal on all ranks.

#ifndef BELAY_MPI_COLLECTIVE_H_
#define BELAY_MPI_COLLECTIVE_H_

#include <cstddef>
#include <vector>

#include "absl/functional/function_ref.h"
#include "core/agreed.h"
#include "mpi/deadline.h"
#include "mpi/mpi_error.h"

namespace belay {

// Makes agreed errors. Only src/mpi calls it.
struct Agreement {
  static AgreedError Error(Status error) {
    return AgreedError(std::move(error));
  }
};

// Wraps a result that every rank has computed from the same values. Not for a
// result that depends on the rank, its memory or its files.
template <typename T>
Agreed<T> SameOnAllRanks(StatusOr<T> result) {
  if (!result.ok()) return Agreement::Error(result.status());
  return *std::move(result);
}
inline Agreed<> SameOnAllRanks(Status result) {
  if (result.ok()) return {};
  return Agreement::Error(std::move(result));
}

// The error of a rank that can no longer agree with the others, because MPI
// failed or the others are in different calls. This rank returns; ranks that
// wait for it do so until their deadline ends the job.
inline AgreedError MpiFailed(Status error) {
  return Agreement::Error(std::move(error));
}

// A communicator with the deadline and the counters of one Save or Restore.
// Every function below takes one. Borrows the Comm.
struct CommContext {
  const Comm& comm;
  Deadline deadline;
  int64_t messages = 0;  // MPI collectives so far
  // Bytes this rank sent to agree on the structure of a save and to plan it.
  int64_t agreement_bytes = 0;
  int64_t bytes_sent = 0;  // by this rank, in GatherParts and ExchangeBytes
  int64_t part_bytes = int64_t{1} << 30;  // the largest single message
  // The communicator that `comm` is a part of, if any: errors use its ranks.
  const Comm* whole = nullptr;

  int rank() const { return comm.rank(); }
  int size() const { return comm.size(); }
  bool is_root() const { return comm.rank() == 0; }
};

// Starts a nonblocking MPI collective, waits for it under the deadline and
// counts it. `arguments` are those that precede the communicator. Passes no
// fault point. Collective, without agreement: only for src/mpi.
template <typename Start, typename... Arguments>
Status Exchange(CommContext& context, std::string_view site, Start start,
                Arguments... arguments) {
  ++context.messages;
  MPI_Request request = MPI_REQUEST_NULL;
  BELAY_RETURN_IF_ERROR(
      MpiError(start(arguments..., context.comm.raw(), &request), site));
  context.deadline.CountCollective();
  return context.deadline.Wait(request);
}

// Returns the same Status on all ranks: OK if all passed OK, otherwise code and
// message of the lowest failing rank with " [rank R of N]" appended. Costs one
// small all-reduce, and one broadcast after a failure. Collective.
Agreed<> Agree(CommContext& context, const Status& mine);

// Agrees that all ranks have a value; each rank gets its own. Collective.
template <typename T>
Agreed<T> AgreeOn(CommContext& context, StatusOr<T> mine) {
  BELAY_RETURN_IF_AGREED(Agree(context, mine.status()));
  return *std::move(mine);
}

// Returns true if the text ends like " [rank 2 of 4]".
bool NamesItsRank(std::string_view text);

// Appends `text` to the error, but before a rank named at its end.
Status InsertBeforeRank(const Status& error, std::string_view text);

// Fails on all ranks if they passed different fingerprints: InvalidArgument
// `WHAT differs between ranks: rank R of N has another value than rank 0`, for
// the lowest such rank, with " [rank R of N]". One small all-reduce if equal.
// Agrees on `mine` first, like Agree. Collective. Same on all ranks: what.
Agreed<> AgreeSame(CommContext& context, std::string_view what,
                   uint64_t fingerprint, const Status& mine = absl::OkStatus());

// Like AgreeSame, for a number, which the error shows: `WHAT differs between
// ranks: rank R of N has 71, rank 0 has 70`. Collective. Same on all ranks:
// what.
Agreed<> AgreeSameNumber(CommContext& context, std::string_view what,
                         int64_t number);

// Like AgreeSame, for a text; the error shows its end. Collective. Same on all
// ranks: what.
Agreed<> AgreeSameText(CommContext& context, std::string_view what,
                       std::string_view text,
                       const Status& mine = absl::OkStatus());

// Runs `work` on rank 0 only and returns its Status everywhere. Collective.
Agreed<> OnRoot(CommContext& context, absl::FunctionRef<Status()> work);

// Messages from rank 0: one for all ranks, and a part for each.
struct RootMessages {
  std::string common;
  std::vector<std::string> parts;  // per rank; or none
};

struct RootMessage {
  std::string common;
  std::string part;  // empty if there are no parts
};

// Runs `work` on rank 0 only, and gives all ranks its result or its error.
// Needs fewer messages than OnRoot followed by an exchange. Collective.
Agreed<std::string> FromRoot(CommContext& context,
                             absl::FunctionRef<StatusOr<std::string>()> work);
Agreed<RootMessage> FromRootInParts(
    CommContext& context, absl::FunctionRef<StatusOr<RootMessages>()> work);

// Gives every rank the bytes of `root`; they may exceed 2 GiB. Collective;
// agreed.
Agreed<> Broadcast(CommContext& context, std::string& bytes, int root = 0);

// Gives rank 0 the bytes of every rank; elsewhere returns nothing. Collective.
Agreed<std::vector<std::string>> Gather(CommContext& context,
                                        const std::string& mine);

// Gives rank r the string parts[r] of rank 0. Collective.
Agreed<std::string> Scatter(CommContext& context,
                            const std::vector<std::string>& parts);

// Xors `values` of all ranks into rank 0's; on other ranks they are unspecified
// afterwards. Collective. Same on all ranks: the size.
Agreed<> XorToRoot(CommContext& context, std::span<uint32_t> values);

// Element-wise sum (modulo 2^64), minimum or maximum over the ranks, in place.
// Agrees on `mine` in the same message. Collective. Same on all ranks: the
// size.
Agreed<> SumAll(CommContext& context, std::span<int64_t> values,
                const Status& mine = absl::OkStatus());
Agreed<> MinAll(CommContext& context, std::span<int64_t> values,
                const Status& mine = absl::OkStatus());
Agreed<> MaxAll(CommContext& context, std::span<int64_t> values,
                const Status& mine = absl::OkStatus());

// Bytes of `rank` at `source`. A receiving rank has room for them at `target`.
// Other ranks ignore these addresses. On one rank both may be the same.
struct GatherPart {
  int rank = 0;
  int64_t bytes = 0;
  const std::byte* source = nullptr;
  std::byte* target = nullptr;
};

// Sends all parts to rank `to`, or to every rank if it is negative, then
// agrees. Collective. Same on all ranks: `to`, and the order, ranks and bytes
// of the parts.
Agreed<> GatherParts(CommContext& context, std::span<const GatherPart> parts,
                     int to);

// Gives every rank the bytes of every rank. Collective; agreed.
Agreed<std::vector<std::string>> AllGather(CommContext& context,
                                           const std::string& mine);

// Returns the lowest rank on this rank's node. Collective; agreed. Sends
// nothing if called again for the same communicator.
Agreed<int32_t> NodeOfRank(CommContext& context);

}  // namespace belay

#endif  // BELAY_MPI_COLLECTIVE_H_
