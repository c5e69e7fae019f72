// The communicator that belay uses.

#ifndef BELAY_COMM_H_
#define BELAY_COMM_H_

#include <mpi.h>

#include <string>
#include <utility>

#include "belay/status.h"

namespace belay {

class BackgroundSaver;

// Owns a duplicate of the caller's communicator, so that belay's messages never
// match the program's own. Returns errors instead of aborting. Move only. Only
// one thread at a time may use it.
class Comm {
 public:
  // Duplicates `comm`; the duplicate has no topology. Collective. `comm` must
  // be the same on all ranks. If a rank does not make this call within
  // `deadline_seconds`, the waiting ranks end the job (docs/errors.md); 0 waits
  // forever. Split and Close of the duplicate use the same deadline.
  // Errors: InvalidArgument - it is null or an intercommunicator;
  //   FailedPrecondition - MPI is not initialised or already finalised;
  //   Internal - MPI's error text.
  static StatusOr<Comm> Duplicate(MPI_Comm comm, double deadline_seconds = 600);

  // A communicator without ranks. It can only be assigned to and destroyed.
  Comm() = default;
  Comm(Comm&& other) noexcept;
  Comm& operator=(Comm&& other) noexcept;
  // Never communicates. A communicator that was not closed stays allocated
  // until MPI_Finalize.
  ~Comm() = default;

  int rank() const { return rank_; }
  int size() const { return size_; }
  MPI_Comm raw() const { return comm_; }
  // The value of BELAY_TRANSFER in the environment of rank 0 when this
  // communicator, or the one it was split from, was duplicated. It overrides
  // the transfer of every save. "": not set. Equal on all ranks. Local.
  const std::string& transfer_variable() const { return transfer_variable_; }

  // Frees the duplicate. Collective. Calling it again does nothing. If a rank
  // does not make this call within the deadline of Duplicate, the waiting ranks
  // end the job.
  // Errors: Internal - MPI's error text.
  Status Close();

  // Splits off the ranks that pass the same color, in rank order. Collective. A
  // negative color returns a Comm without ranks. Uses the deadline passed to
  // Duplicate; the result inherits it.
  // Errors: Internal - MPI's error text.
  StatusOr<Comm> Split(int color) const;

 private:
  friend class BackgroundSaver;  // may outlive the Comm it borrows

  Comm(MPI_Comm comm, int rank, int size, double deadline_seconds,
       std::string transfer_variable)
      : comm_(comm),
        rank_(rank),
        size_(size),
        deadline_seconds_(deadline_seconds),
        transfer_variable_(std::move(transfer_variable)) {}

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = -1;
  int size_ = 0;
  double deadline_seconds_ = 0;  // of Split and Close
  std::string transfer_variable_;
};

}  // namespace belay

#endif  // BELAY_COMM_H_
