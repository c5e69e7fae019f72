// Which ranks have arrived at an operation, and which have left.

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

// Who waits where: the short messages by which a few referees know which ranks
// have arrived at an agreement, and in which other call the rest wait.

// The lowest ranks are the referees.
inline constexpr int kReferees = 4;

// Those of one operation on one communicator.
class Arrivals {
 public:
  // `number` tells operations of the same name apart.
  Arrivals(const Comm& comm, const std::string& operation, int64_t number);
  Arrivals(const Arrivals&) = delete;
  Arrivals& operator=(const Arrivals&) = delete;
  // Leaves behind what nobody has received.
  ~Arrivals();

  bool is_referee() const { return rank_ < kReferees; }

  // Tells the referees that this rank waits at this agreement of the operation.
  // Tiny, so that MPI delivers it without the receiver's help.
  void Tell(int64_t agreement);

  // Takes what ranks have told this referee so far. What ranks in other
  // operations have told before the first time at this agreement does not
  // count: they may have left them.
  void Listen(int64_t agreement);

  // Ranks that are not known to have reached it.
  std::vector<int> LateRanks(int64_t agreement) const;

  // The other operation in which a rank has told that it waits; else empty.
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

// Ranks that end while others wait for them.
//
// A rank that fails in code of its own and reaches MPI_Finalize would leave the
// others waiting until the deadline. So each rank that comes there tells a few
// ranks of each communicator that is open how many collectives it has begun on
// it. Whoever waits in a later one waits in vain: that rank will not begin it.
// Whoever waits in one that it has begun goes on waiting, for what is on its
// way. In programs that end in order this is a message that nobody acts on.

// What is known of who has left a communicator.
struct CommLife;

// From now on MPI_Finalize tells the ranks of `comm`, a new communicator of
// belay, until that is freed. Returns MPI's code. All its ranks call it.
int WatchLeaving(MPI_Comm comm);

// Null for a communicator that is not watched, such as one of the program. It
// lives as long as its communicator.
CommLife* LifeOf(MPI_Comm comm);

// This rank has begun a collective. Null does nothing. Every collective that it
// waits for under a Deadline must be counted on all ranks.
void CountCollective(CommLife* life);

struct LeftRank {
  int rank = 0;
  int told_before = 0;  // so many other ranks were told before this one
};

// Returns a rank that has left before it began the collective that this rank
// has begun last, if one is known. Takes messages that have arrived.
std::optional<LeftRank> FindLeftRank(CommLife& life);

// Tells the ranks of all watched communicators but those that `keeps_on` names
// that this rank begins nothing on them any more. What MPI_Finalize does in the
// end.
void TellLeaving(absl::FunctionRef<bool(MPI_Comm)> keeps_on);

}  // namespace belay

#endif  // BELAY_MPI_ARRIVALS_H_
