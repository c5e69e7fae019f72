// Shared code of the commands that may run under mpirun.

#ifndef BELAY_TOOLS_MPI_SESSION_H_
#define BELAY_TOOLS_MPI_SESSION_H_

#include <mpi.h>

#include <utility>

#include "belay/comm.h"
#include "belay/status.h"
#include "commands.h"
#include "flag_names.h"
#include "json_output.h"
#include "progress_bar.h"

namespace belay::tools {

// Initializes MPI for one command; without mpirun there is one rank.
class MpiSession {
 public:
  MpiSession() {
    MPI_Init(nullptr, nullptr);
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    is_first_ = rank == 0;
  }
  ~MpiSession() { MPI_Finalize(); }
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  bool is_first() const { return is_first_; }

  // Returns true if `is_fine` is true on all ranks. Collective.
  bool IsFineEverywhere(bool is_fine) const {
    StatusOr<Comm> all = Comm::Duplicate(MPI_COMM_WORLD);
    if (!all.ok()) return false;
    StatusOr<Comm> alike = all->Split(is_fine ? 1 : 0);
    if (!alike.ok()) return false;
    const bool fine = is_fine && alike->size() == all->size();
    return alike->Close().ok() && all->Close().ok() && fine;
  }

 private:
  bool is_first_ = false;
};

// Calls `work` with a communicator and a bar that shows the progress of rank 0,
// whose part is about as large as that of every other rank.
template <typename Work>
auto WithMpi(const MpiSession& mpi, Work work)
    -> decltype(work(std::declval<Comm&>(), std::declval<ProgressBar&>())) {
  StatusOr<Comm> comm = Comm::Duplicate(MPI_COMM_WORLD);
  if (!comm.ok()) return comm.status();
  ProgressBar bar(mpi.is_first());
  auto result = work(*comm, bar);
  bar.Clear();
  const Status closed = comm->Close();
  if (result.ok() && !closed.ok()) return closed;
  return result;
}

// Prints the outcome on rank 0; all ranks have the same status. Returns the
// exit code.
template <typename Result, typename PrintText, typename MakeJson>
int Finish(const MpiSession& mpi, const StatusOr<Result>& result, bool json,
           PrintText print_text, MakeJson make_json) {
  if (!mpi.is_first()) return result.ok() ? 0 : 2;
  if (!result.ok()) return Fail(WithFlagNames(result.status()), json);
  if (json) {
    PrintJson(make_json(*result));
  } else {
    print_text(*result);
  }
  return 0;
}

}  // namespace belay::tools

#endif  // BELAY_TOOLS_MPI_SESSION_H_
