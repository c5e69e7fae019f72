// The messages by which ranks learn which others have arrived at an agreement,
// and which have left for MPI_Finalize.

#ifndef BELAY_MPI_ARRIVALS_H_
#define BELAY_MPI_ARRIVALS_H_

#include <mpi.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "belay/comm.h"

namespace belay {

// Arrivals at the agreements of one operation on one communicator. Ranks that
// wait tell a few referees, the lowest ranks.
class Arrivals {
 public:
  // `number` tells operations of the same name apart.
  Arrivals(const Comm& comm, const std::string& operation, int64_t number);
  Arrivals(const Arrivals&) = delete;
  Arrivals& operator=(const Arrivals&) = delete;
  ~Arrivals();

  bool is_referee() const { return rank_ < num_referees(); }

  // Tells the referees that this rank waits at this agreement. The message is
  // tiny, so that MPI delivers it without the receiver's help.
  void Tell(int64_t agreement);

  // Receives the messages to this referee. The first call at an agreement drops
  // messages about other operations: ranks may have left them.
  void Listen(int64_t agreement);

  // Ranks that are not known to have reached the agreement.
  std::vector<int> LateRanks(int64_t agreement) const;

  // The other operation in which a rank waits, if it has told; else empty.
  std::string Elsewhere(int rank) const;

 private:
  struct Message;
  struct Outgoing;

  int num_referees() const;
  void Receive();

  const MPI_Comm comm_;
  const int rank_;
  const int size_;
  const std::string operation_;
  const uint64_t hash_;
  int64_t listened_ = 0;          // the agreement of the last Listen
  std::vector<int64_t> reached_;  // by rank: the last agreement heard of
  std::map<int, std::string> elsewhere_;
  std::vector<std::unique_ptr<Outgoing>> outgoing_;
};

// Ranks that leave while others wait for them.
//
// A rank that fails in code of its own and reaches MPI_Finalize would leave the
// others waiting until the deadline. So each rank tells there a few ranks of
// each open communicator how many collectives it has begun on it. A rank that
// waits in a later one waits in vain. A rank that waits in an earlier one goes
// on waiting. In programs that end in order the message has no effect.

// The ranks that are known to have left a communicator.
struct CommLife;

// From now on MPI_Finalize tells the ranks of `comm`, a new communicator of
// belay, until it is freed. Returns MPI's code. All its ranks call it.
int WatchLeaving(MPI_Comm comm);

// Returns null for a communicator that is not watched, such as one of the
// program. Lives as long as the communicator.
CommLife* FindLife(MPI_Comm comm);

// Counts a collective that this rank has begun. All ranks count every
// collective for which they wait under a Deadline. Null does nothing.
void CountCollective(CommLife* life);

struct LeftRank {
  int rank = 0;
  int told_before = 0;  // the number of ranks that it told before this one
};

// Receives messages, and returns a rank that has left before it began the last
// collective of this rank, if there is one.
std::optional<LeftRank> FindLeftRank(CommLife& life);

// Tells the ranks of all watched communicators, except those for which
// `keeps_on` returns true, that this rank begins nothing on them any more.
void TellLeaving(absl::FunctionRef<bool(MPI_Comm)> keeps_on);

}  // namespace belay

#endif  // BELAY_MPI_ARRIVALS_H_
