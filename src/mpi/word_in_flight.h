// An all-reduce of eight bytes that is under way while the program computes.
//
// A nonblocking collective must be completed, but a program may end, or give
// up after an error, without asking for the last one. So each belongs to its
// communicator: MPI_Comm_free or MPI_Finalize completes it, within a limit of
// time, since ranks that gave up may never have begun theirs. The destructor
// does not communicate.

#ifndef BELAY_MPI_WORD_IN_FLIGHT_H_
#define BELAY_MPI_WORD_IN_FLIGHT_H_

#include <cstdint>
#include <memory>

#include "belay/comm.h"

namespace belay {

// Move only. One at a time for each object.
class WordInFlight {
 public:
  WordInFlight() = default;

  // Begins to reduce `word` with `merge`, which is commutative, unless a word
  // is under way. Collective, without agreement. Same on all ranks: merge.
  // Errors: Internal - MPI's text.
  Status Start(const Comm& comm, uint64_t word, MPI_User_function* merge);

  bool is_started() const;

  // Returns true if Finish need not wait. Requires is_started(). Errors:
  // Internal.
  StatusOr<bool> IsThere() const;

  // Waits for the word of all ranks and returns it; ends the job after
  // `deadline_seconds`, with a message that names `operation`. Collective,
  // without agreement. Errors: Internal.
  StatusOr<uint64_t> Finish(const Comm& comm, double deadline_seconds,
                            const std::string& operation);

 private:
  struct Cell;
  std::shared_ptr<Cell> cell_;
};

}  // namespace belay

#endif  // BELAY_MPI_WORD_IN_FLIGHT_H_
