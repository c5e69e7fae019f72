// An all-reduce of eight bytes that proceeds while the program computes.
//
// A nonblocking collective must be completed, but a program may end, or give up
// after an error, without asking for the last result. So each one belongs to
// its communicator: MPI_Comm_free or MPI_Finalize completes it, within a time
// limit, since ranks that gave up may never have begun theirs. The destructor
// does not communicate.

#ifndef BELAY_MPI_WORD_IN_FLIGHT_H_
#define BELAY_MPI_WORD_IN_FLIGHT_H_

#include <cstdint>
#include <memory>

#include "belay/comm.h"

namespace belay {

// Move only. One reduction at a time per object.
class WordInFlight {
 public:
  WordInFlight() = default;

  // Begins to reduce `word` with `merge`, which must be commutative. Requires
  // that no reduction is in flight. Collective, without agreement. Same on all
  // ranks: merge.
  // Errors: Internal - MPI's text.
  Status Start(const Comm& comm, uint64_t word, MPI_User_function* merge);

  bool is_started() const;

  // Returns true if Finish would not wait. Requires is_started(). Errors:
  // Internal.
  StatusOr<bool> IsThere() const;

  // Waits for the reduced word and returns it. Ends the job after
  // `deadline_seconds`, with a message that names `operation`. Collective,
  // without agreement.
  // Errors: Internal.
  StatusOr<uint64_t> Finish(const Comm& comm, double deadline_seconds,
                            const std::string& operation);

 private:
  struct Cell;
  std::shared_ptr<Cell> cell_;
};

}  // namespace belay

#endif  // BELAY_MPI_WORD_IN_FLIGHT_H_
