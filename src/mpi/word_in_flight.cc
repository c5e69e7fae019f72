#include "mpi/word_in_flight.h"

#include <chrono>
#include <thread>

#include "core/status_macros.h"
#include "mpi/deadline.h"
#include "mpi/leaving.h"
#include "mpi/mpi_error.h"

namespace belay {

// Memory that MPI may still write to. Owned by the object and by one attribute
// each of two communicators.
struct WordInFlight::Cell {
  Cell() = default;
  Cell(const Cell&) = delete;
  Cell& operator=(const Cell&) = delete;
  ~Cell() {
    if (IsMpiRunning() && op != MPI_OP_NULL) MPI_Op_free(&op);
  }

  static StatusOr<std::shared_ptr<Cell>> Make(MPI_Comm comm,
                                              MPI_User_function* merge) {
    auto cell = std::make_shared<Cell>();
    cell->comm = comm;
    cell->life = FindLife(comm);
    BELAY_RETURN_IF_ERROR(
        MpiError(MPI_Op_create(merge, 1, &cell->op), "MPI_Op_create"));
    BELAY_RETURN_IF_ERROR(Attach(cell, comm));
    BELAY_RETURN_IF_ERROR(Attach(cell, MPI_COMM_SELF));
    return cell;
  }

  // Gives the cell to a communicator: freeing the communicator completes the
  // request.
  static Status Attach(const std::shared_ptr<Cell>& cell, MPI_Comm to) {
    int key = MPI_KEYVAL_INVALID;
    BELAY_RETURN_IF_ERROR(
        MpiError(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, &Cell::OnFree,
                                        &key, nullptr),
                 "MPI_Comm_create_keyval"));
    auto held = std::make_unique<std::shared_ptr<Cell>>(cell);
    const Status set =
        MpiError(MPI_Comm_set_attr(to, key, held.get()), "MPI_Comm_set_attr");
    if (set.ok()) held.release();  // NOLINT: OnFree deletes it
    MPI_Comm_free_keyval(&key);    // freed with the attribute
    return set;
  }

  static int OnFree(MPI_Comm freed, int, void* attribute, void*) {
    constexpr std::chrono::seconds kPatience{10};
    constexpr std::chrono::microseconds kFreeNap{20};
    const std::unique_ptr<std::shared_ptr<Cell>> held(
        static_cast<std::shared_ptr<Cell>*>(attribute));
    Cell& cell = **held;
    // A later communicator may get the same handle.
    if (cell.comm == freed) {
      cell.comm = MPI_COMM_NULL;
      cell.life = nullptr;
    }
    const auto end = std::chrono::steady_clock::now() + kPatience;
    for (int done = 0; cell.request != MPI_REQUEST_NULL;) {
      if (TestRequest(cell.request, done) != MPI_SUCCESS || done) break;
      if (std::chrono::steady_clock::now() > end) {
        // Leak it: MPI may still write to it.
        new std::shared_ptr<Cell>(*held);  // NOLINT
        break;
      }
      std::this_thread::sleep_for(kFreeNap);
    }
    return MPI_SUCCESS;
  }

  MPI_Comm comm = MPI_COMM_NULL;
  CommLife* life = nullptr;
  MPI_Op op = MPI_OP_NULL;
  MPI_Request request = MPI_REQUEST_NULL;
  uint64_t word = 0;
  int64_t number = 0;  // number of the exchange, starting at 1
};

bool WordInFlight::is_started() const {
  return cell_ != nullptr && cell_->request != MPI_REQUEST_NULL;
}

Status WordInFlight::Start(const Comm& comm, uint64_t word,
                           MPI_User_function* merge) {
  if (cell_ == nullptr || cell_->comm != comm.raw()) {
    BELAY_ASSIGN_OR_RETURN(cell_, Cell::Make(comm.raw(), merge));
  }
  cell_->word = word;
  ++cell_->number;
  const int code = MPI_Iallreduce(MPI_IN_PLACE, &cell_->word, 1, MPI_UINT64_T,
                                  cell_->op, comm.raw(), &cell_->request);
  if (code == MPI_SUCCESS) CountCollective(cell_->life);
  return MpiError(code, "MPI_Iallreduce");
}

StatusOr<bool> WordInFlight::IsThere() const {
  int done = 0;
  BELAY_RETURN_IF_ERROR(
      MpiError(TestRequest(cell_->request, done), "MPI_Test"));
  return done != 0;
}

StatusOr<uint64_t> WordInFlight::Finish(const Comm& comm,
                                        double deadline_seconds,
                                        const std::string& operation) {
  // Starting to watch the deadline takes as long as the exchange itself.
  constexpr int kTests = 100;
  bool done = false;
  for (int i = 0; i < kTests && !done; ++i) {
    BELAY_ASSIGN_OR_RETURN(done, IsThere());
  }
  if (!done) {
    // The number distinguishes arrivals at this exchange from later ones.
    Deadline deadline(comm, deadline_seconds, operation, false, cell_->number);
    deadline.Enter("exchange");
    BELAY_RETURN_IF_ERROR(deadline.Wait(cell_->request));
  }
  return cell_->word;
}

}  // namespace belay
