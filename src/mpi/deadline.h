// Deadlines of collective operations: a hang ends the job with an error.
//
// Ranks that wait for each other at an agreement tell a few referees that they
// have arrived. When the time is up, a message on stderr names the stage and
// the late ranks, and the process ends with kDeadlineExitCode, so that the
// launcher ends the job and a batch system can requeue it. A watchdog thread
// covers calls that block inside MPI or HDF5, without the names of the late
// ranks. A rank that has left for MPI_Finalize ends the job as soon as ranks
// that wait for it hear of it (leaving.h).

#ifndef BELAY_MPI_DEADLINE_H_
#define BELAY_MPI_DEADLINE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "belay/comm.h"

namespace belay {

// As MPI_Test, but always returns an error. Open MPI gives an error of a
// nonblocking collective to the error handler of MPI_COMM_WORLD, which ends the
// job unless the program has set another one.
int TestRequest(MPI_Request& request, int& done);

// EX_TEMPFAIL of sysexits.h: try again later. Documented for batch scripts.
inline constexpr int kDeadlineExitCode = 75;

// Ends the process as a missed deadline does, with TEXT on stderr.
[[noreturn]] void EndJob(std::string_view text);

// Without a limit (seconds <= 0) it only notices ranks that have left. Move
// only. One at a time per communicator.
class Deadline {
 public:
  // Starts watching. The message names `operation`: `save "run/step_7"`. Short
  // operations without blocking calls can do without the watchdog, whose thread
  // takes a fraction of a millisecond to start. `number` tells operations of
  // one name apart.
  Deadline(const Comm& comm, double seconds, std::string operation,
           bool watchdog = true, int64_t number = 0);
  // For a communicator of the program, on which belay must send no message that
  // a receive of the program could match. Cannot name late ranks.
  static Deadline OnForeign(const Comm& comm, double seconds,
                            std::string operation);
  Deadline(Deadline&&) noexcept;
  Deadline& operator=(Deadline&&) noexcept;
  ~Deadline();

  // Begins a stage, such as "write", and restarts the time. `work` describes
  // the work of each rank in it, such as `writes "w"`, if this rank knows it,
  // and is borrowed until the next stage.
  void Enter(std::string_view stage, std::span<const std::string> work = {});

  // Restarts the time in the same stage, which goes on.
  void Restart();

  // Counts a collective that has begun and for which Wait is to wait.
  void CountCollective();

  // Waits until the requests, possibly none, are done. Ends the process if the
  // time runs out, or all ranks if one has left without beginning the last
  // collective. Every rank calls it equally often, so that all count the same
  // agreements. Errors: Internal - MPI's text.
  Status Wait(MPI_Request& request);
  Status Wait(std::span<MPI_Request> requests);

 private:
  class Arrivals;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace belay

#endif  // BELAY_MPI_DEADLINE_H_
