// Who waits where: the short messages by which a few referees know which ranks
// have arrived at an agreement, and in which other call the rest wait.

#ifndef BELAY_MPI_ARRIVALS_ARRIVALS_H_
#define BELAY_MPI_ARRIVALS_ARRIVALS_H_

#include <mpi.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "belay/comm.h"

namespace belay {

// The lowest ranks are the referees.
inline constexpr int kReferees = 4;

// Those of one operation on one communicator.
class Arrivals {
 public:
  // `number` tells operations of the same name apart. Local.
  Arrivals(const Comm& comm, const std::string& operation, int64_t number);
  Arrivals(const Arrivals&) = delete;
  Arrivals& operator=(const Arrivals&) = delete;
  // Leaves behind what nobody has received. Local.
  ~Arrivals();

  bool is_referee() const { return rank_ < kReferees; }

  // Tells the referees that this rank waits at this agreement of the operation.
  // Tiny, so that MPI delivers it without the receiver's help. Local.
  void Tell(int64_t agreement);

  // Takes what ranks have told this referee so far. What ranks in other
  // operations have told before the first time at this agreement does not
  // count: they may have left them. Local.
  void Listen(int64_t agreement);

  // Ranks that are not known to have reached it. Local.
  std::vector<int> LateRanks(int64_t agreement) const;

  // The other operation in which a rank has told that it waits; else empty.
  // Local.
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

}  // namespace belay

#endif  // BELAY_MPI_ARRIVALS_ARRIVALS_H_
