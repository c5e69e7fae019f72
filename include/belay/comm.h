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
  // Duplicates `comm`; the duplicate has no topology. Collective. `comm`
  // must be the same on all ranks. Where a rank does not make this call within
  // `deadline_seconds`, those that wait end the job (docs/errors.md); 0 waits
  // forever. Split and Close of the duplicate wait as long.
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
  // What the environment of rank 0 had as BELAY_TRANSFER when this or the
  // communicator that was split was duplicated: every save follows it. "": not
  // set. Equal on all ranks. Local.
  const std::string& transfer_variable() const { return transfer_variable_; }

  // Frees the duplicate. Collective. Calling it again does nothing. Where a
  // rank does not make this call within the deadline of Duplicate, those that
  // wait end the job.
  // Errors: Internal - MPI's error text.
  Status Close();

  // Splits off the ranks that pass the same color, in rank order. Collective. A
  // negative color returns a Comm without ranks. The deadline is that of Close,
  // and also that of the result.
  // Errors: Internal - MPI's error text.
  StatusOr<Comm> Split(int color) const;

 private:
  friend class BackgroundSaver;  // which may outlive what it borrows

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
