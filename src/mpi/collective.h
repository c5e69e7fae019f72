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

// An agreed result that every rank has computed from the same values. Not for
// a result that depends on the rank, its memory or its files.
template <typename T>
Agreed<T> SameOnAllRanks(StatusOr<T> result) {
  if (!result.ok()) return Agreement::Error(result.status());
  return *std::move(result);
}
inline Agreed<> SameOnAllRanks(Status result) {
  if (result.ok()) return {};
  return Agreement::Error(std::move(result));
}

// The error of a rank that cannot agree with the others any more, because MPI
// failed or they are in other calls. This rank returns; ranks that wait for it
// do so until their deadline ends the job.
inline AgreedError MpiFailed(Status error) {
  return Agreement::Error(std::move(error));
}

// A communicator with the deadline and the counters of one Save or Restore.
// Every function below takes it. Borrows the Comm.
struct CommContext {
  const Comm& comm;
  Deadline deadline;
  int64_t messages = 0;  // MPI collectives so far
  // Sent by this rank to agree on the structure of a save and to plan it.
  int64_t agreement_bytes = 0;
  int64_t bytes_sent = 0;  // by this rank, in GatherParts and ExchangeBytes
  int64_t part_bytes = int64_t{1} << 30;  // the largest single message
  // Errors name ranks by their number here if `comm` is a part of it.
  const Comm* whole = nullptr;

  int rank() const { return comm.rank(); }
  int size() const { return comm.size(); }
  bool is_root() const { return comm.rank() == 0; }
};

// Starts a nonblocking MPI collective, waits for it under the deadline and
// counts it. `arguments` are those before the communicator. Passes no fault
// point. Collective, without agreement: only for src/mpi.
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

// Returns the same Status on all ranks: OK if all passed OK, else code and
// message of the lowest failing rank with " [rank R of N]" appended. One small
// all-reduce if OK, one broadcast more if not. Collective.
Agreed<> Agree(CommContext& context, const Status& mine);

// Agrees that all ranks have a value; each returns its own. Collective.
template <typename T>
Agreed<T> AgreeOn(CommContext& context, StatusOr<T> mine) {
  BELAY_RETURN_IF_AGREED(Agree(context, mine.status()));
  return *std::move(mine);
}

// Returns true if the text ends like " [rank 2 of 4]".
bool NamesItsRank(std::string_view text);

// Returns the error with `text` at its end, but before the name of a rank.
Status InsertBeforeRank(const Status& error, std::string_view text);

// Fails everywhere if ranks passed different fingerprints: InvalidArgument
// `WHAT differs between ranks: rank R of N has another value than rank 0`, with
// the lowest such rank and its " [rank R of N]". One small all-reduce if equal.
// Agrees on `mine` first, as Agree does. Collective. Same on all ranks: what.
Agreed<> AgreeSame(CommContext& context, std::string_view what,
                   uint64_t fingerprint, const Status& mine = absl::OkStatus());

// The same for a number, which the error shows: `WHAT differs between ranks:
// rank R of N has 71, rank 0 has 70`. Collective. Same on all ranks: what.
Agreed<> AgreeSameNumber(CommContext& context, std::string_view what,
                         int64_t number);

// The same for a text, of which the error shows the end. Collective. Same on
// all ranks: what.
Agreed<> AgreeSameText(CommContext& context, std::string_view what,
                       std::string_view text,
                       const Status& mine = absl::OkStatus());

// Runs `work` on rank 0 only and returns its Status everywhere. Collective.
Agreed<> OnRoot(CommContext& context, absl::FunctionRef<Status()> work);

// Messages of rank 0: the same to all, and a part to each.
struct RootMessages {
  std::string common;
  std::vector<std::string> parts;  // by rank; or none
};

struct RootMessage {
  std::string common;
  std::string part;  // empty if there were none
};

// Runs `work` on rank 0 only, and gives all ranks its result or its error, in
// fewer messages than OnRoot and an exchange. Collective.
Agreed<std::string> FromRoot(CommContext& context,
                             absl::FunctionRef<StatusOr<std::string>()> work);
Agreed<RootMessage> FromRootInParts(
    CommContext& context, absl::FunctionRef<StatusOr<RootMessages>()> work);

// Gives every rank the bytes of `root`, also more than 2 GiB. Collective;
// agreed.
Agreed<> Broadcast(CommContext& context, std::string& bytes, int root = 0);

// Gives rank 0 the bytes of every rank, by rank; empty elsewhere. Collective.
Agreed<std::vector<std::string>> Gather(CommContext& context,
                                        const std::string& mine);

// Gives rank r the r-th of rank 0's byte strings. Collective.
Agreed<std::string> Scatter(CommContext& context,
                            const std::vector<std::string>& parts);

// Xors `values` into rank 0's; elsewhere they are unspecified afterwards.
// Collective. Same on all ranks: the size.
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

// Bytes of `rank` at `source`; a rank that gets them has room at `target`.
// Other ranks ignore these addresses. Both may be the same on one rank.
struct GatherPart {
  int rank = 0;
  int64_t bytes = 0;
  const std::byte* source = nullptr;
  std::byte* target = nullptr;
};

// Sends all parts to rank `to`, or to every rank if it is negative, then
// agrees. Collective. Same on all ranks: `to`, and of the parts their order,
// ranks and bytes.
Agreed<> GatherParts(CommContext& context, std::span<const GatherPart> parts,
                     int to);

// Gives every rank the bytes of every rank, by rank. Collective; agreed.
Agreed<std::vector<std::string>> AllGather(CommContext& context,
                                           const std::string& mine);

// Returns the lowest rank on the node of this one. Collective; agreed. Sends
// nothing when called again on the communicator.
Agreed<int32_t> NodeOfRank(CommContext& context);

}  // namespace belay

#endif  // BELAY_MPI_COLLECTIVE_H_
