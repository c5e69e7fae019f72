// Deadlines of collective operations: a hang ends the job with an error.
//
// Ranks that wait for each other at an agreement report their arrival to a few
// referees. When the time is up, a message on stderr names the stage and the
// late ranks, and the process ends with kDeadlineExitCode, so that the launcher
// ends the job and a batch system can requeue it. A watchdog thread covers
// calls that block inside MPI or HDF5, without the names of the late ranks. A
// rank that has left for MPI_Finalize ends the job as soon as ranks that wait
// for it learn of it (leaving.h).

#ifndef BELAY_MPI_DEADLINE_H_
#define BELAY_MPI_DEADLINE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "belay/comm.h"

namespace belay {

// Like MPI_Test, but always returns an error. Open MPI passes an error of a
// nonblocking collective to the error handler of MPI_COMM_WORLD, which ends the
// job unless the program has set another handler.
int TestRequest(MPI_Request& request, int& done);

// EX_TEMPFAIL of sysexits.h: try again later. Documented for batch scripts.
inline constexpr int kDeadlineExitCode = 75;

// Ends the process like a missed deadline, with `text` on stderr.
[[noreturn]] void EndJob(std::string_view text);

// Without a limit (seconds <= 0), only detects ranks that have left. Move only.
// At most one per communicator at a time.
class Deadline {
 public:
  // Starts watching. The message names `operation`: `save "run/step_7"`. Short
  // operations without blocking calls do not need the watchdog, whose thread
  // takes a fraction of a millisecond to start. `number` distinguishes
  // operations of the same name.
  Deadline(const Comm& comm, double seconds, std::string operation,
           bool watchdog = true, int64_t number = 0);
  // For a communicator of the program, on which belay must not send messages
  // that a receive of the program could match. Cannot name late ranks.
  static Deadline OnForeign(const Comm& comm, double seconds,
                            std::string operation);
  Deadline(Deadline&&) noexcept;
  Deadline& operator=(Deadline&&) noexcept;
  ~Deadline();

  // Begins a stage, such as "write", and restarts the time. If this rank knows
  // it, `work` describes each rank's work in the stage, such as `writes "w"`.
  // It is borrowed until the next stage.
  void Enter(std::string_view stage, std::span<const std::string> work = {});

  // Restarts the time within the current stage.
  void Restart();

  // Counts a collective that has begun and that Wait will complete.
  void CountCollective();

  // Waits until the requests, possibly none, are complete. Ends the process if
  // the time runs out. Ends all ranks if a rank has left without beginning the
  // latest collective. Every rank must call it equally often, so that all count
  // the same agreements.
  // Errors: Internal - MPI's text.
  Status Wait(MPI_Request& request);
  Status Wait(std::span<MPI_Request> requests);

 private:
  class Arrivals;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace belay

#endif  // BELAY_MPI_DEADLINE_H_
