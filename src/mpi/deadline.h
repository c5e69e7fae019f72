// Deadlines of collective operations.

#ifndef BELAY_MPI_DEADLINE_H_
#define BELAY_MPI_DEADLINE_H_

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "belay/comm.h"
#include "belay/status.h"

namespace belay {

// Tests for the end of a request.

// As MPI_Test, but always returns an error. Open MPI gives that of a
// nonblocking collective to the error handler of MPI_COMM_WORLD, which ends the
// job unless the program has set another one.
int TestRequest(MPI_Request& request, int& done);

// The deadline of a collective section: a hang ends the job with an error.
//
// While ranks wait for each other at an agreement they tell a few referees that
// they have arrived; when the time is up, the message on stderr names the stage
// and the ranks that are late, and the process ends with kDeadlineExitCode, so
// that the launcher ends the job and a batch system can requeue it. A watchdog
// thread covers blocking calls inside MPI or HDF5 in the same way, without the
// names of the late ranks. A rank that has left for MPI_Finalize ends the job
// as soon as those who wait for it hear of it (leaving.h).

// EX_TEMPFAIL of sysexits.h: try again later. Documented for batch scripts.
inline constexpr int kDeadlineExitCode = 75;

// Ends the process as a missed deadline does: TEXT on stderr, with the exit
// code. For limits that are watched elsewhere.
[[noreturn]] void EndJob(std::string_view text);

// Move only. Without a limit (seconds <= 0) it only notices ranks that have
// left. One at a time per communicator.
class Deadline {
 public:
  // Starts watching. `operation` is named in the message: `save "run/step_7"`.
  // Without the watchdog, whose thread takes a fraction of a millisecond to
  // start, only agreements are watched: for short operations that make no call
  // that blocks. `number` tells operations of the same name apart.
  Deadline(const Comm& comm, double seconds, std::string operation,
           bool watchdog = true, int64_t number = 0);
  // For a communicator of the program, on which belay must send no message that
  // a receive of the program could match: who is late stays unknown.
  static Deadline OnForeign(const Comm& comm, double seconds,
                            std::string operation);
  Deadline(Deadline&&) noexcept;
  Deadline& operator=(Deadline&&) noexcept;
  // Stops watching.
  ~Deadline();

  // Names what this rank does from now on, such as "write", and starts the
  // time anew. `work` says of each rank what that does meanwhile, such as
  // `writes "w"`, where this one knows it, and is borrowed until the next
  // stage.
  void Enter(std::string_view stage, std::span<const std::string> work = {});

  // Starts the time anew in the same stage: one that takes long is no hang as
  // long as it goes on.
  void GoOn();

  // A collective has begun, which Wait is to wait for.
  void CountCollective();

  // Waits until `request` is done. Ends the process if the time runs out, or
  // all ranks if one has left without beginning the last collective.
  // Errors: Internal - MPI's text. Local, but the operation behind the request
  // is collective.
  Status Wait(MPI_Request& request);

  // Waits for several; possibly none. Every rank calls it equally often, so
  // that they count the same agreements. Local, but as above.
  Status Wait(std::span<MPI_Request> requests);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace belay

#endif  // BELAY_MPI_DEADLINE_H_
