#include <cstdlib>

#include "core/fault.h"
#include "core/text.h"
#include "mpi/collective.h"
#include "mpi/leaving.h"

namespace belay {
namespace {

Status CheckMpiRuns(std::string_view operation) {
  if (IsMpiRunning()) return absl::OkStatus();
  int finalized = 0;
  MPI_Finalized(&finalized);
  return absl::FailedPreconditionError(
      Cat(operation, ": MPI is ",
          finalized ? "already finalised" : "not initialised"));
}

// Agrees that a collective call has created a communicator on all ranks.
// Otherwise frees it, unless MPI failed on a rank: freeing is collective and
// would hang.
Agreed<> AgreeOnNew(CommContext& context, int code, std::string_view site,
                    MPI_Comm& made) {
  Status mine = MpiStatus(code, site);
  if (mine.ok() && made != MPI_COMM_NULL) {
    mine = MpiError(WatchLeaving(made), "MPI_Comm_set_attr");
  }
  const Agreed<> agreed = Agree(context, mine);
  if (agreed.ok()) return {};
  int64_t have = code == MPI_SUCCESS ? 1 : 0;
  const Agreed<> counted = MinAll(context, {&have, 1});
  if (counted.ok() && have == 1 && made != MPI_COMM_NULL) MPI_Comm_free(&made);
  return agreed.error();
}

}  // namespace

Comm::Comm(Comm&& other) noexcept { *this = std::move(other); }

Comm& Comm::operator=(Comm&& other) noexcept {
  comm_ = std::exchange(other.comm_, MPI_COMM_NULL);
  rank_ = std::exchange(other.rank_, -1);
  size_ = std::exchange(other.size_, 0);
  deadline_seconds_ = other.deadline_seconds_;
  transfer_variable_ = std::move(other.transfer_variable_);
  return *this;
}

StatusOr<Comm> Comm::Duplicate(MPI_Comm comm, double deadline_seconds) {
  if (Status status = CheckMpiRuns("duplicate communicator"); !status.ok()) {
    return status;
  }
  if (comm == MPI_COMM_NULL) {
    return absl::InvalidArgumentError(
        "duplicate communicator: it is MPI_COMM_NULL");
  }
  int is_inter = 0;
  MPI_Comm_test_inter(comm, &is_inter);
  if (is_inter) {
    return absl::InvalidArgumentError(
        "duplicate communicator: it is an intercommunicator");
  }
  Comm original(comm, 0, 0, deadline_seconds, "");
  MPI_Comm_rank(comm, &original.rank_);
  MPI_Comm_size(comm, &original.size_);
  CommContext context{
      .comm = original,
      .deadline = Deadline::OnForeign(original, deadline_seconds,
                                      "duplicate communicator")};
  // Also waits for late ranks under the deadline, which the MPI call does not.
  BELAY_ASSIGN_OR_RETURN_AGREED(
      const std::string transfer,
      FromRoot(context, []() -> StatusOr<std::string> {
        const char* const value = std::getenv("BELAY_TRANSFER");
        return std::string(value == nullptr ? "" : value);
      }));
  Comm copy(MPI_COMM_NULL, original.rank_, original.size_, deadline_seconds,
            transfer);
  // For a communicator with a topology, MPI_Ialltoallw of Open MPI 4.1 mistakes
  // the neighbours for all ranks and crashes. So the copy has no topology.
  int topology = MPI_UNDEFINED;
  MPI_Topo_test(comm, &topology);
  const bool is_plain = topology == MPI_UNDEFINED;
  const int code = is_plain ? MPI_Comm_dup(comm, &copy.comm_)
                            : MPI_Comm_split(comm, 0, copy.rank_, &copy.comm_);
  if (code == MPI_SUCCESS) {
    MPI_Comm_set_errhandler(copy.comm_, MPI_ERRORS_RETURN);
  }
  BELAY_RETURN_IF_AGREED(AgreeOnNew(
      context, code, is_plain ? "MPI_Comm_dup" : "MPI_Comm_split", copy.comm_));
  return copy;
}

Status Comm::Close() {
  if (comm_ == MPI_COMM_NULL) return absl::OkStatus();
  const std::string operation = "close communicator";
  if (Status status = CheckMpiRuns(operation); !status.ok()) {
    comm_ = MPI_COMM_NULL;
    return status;
  }
  Status agreed = [&] {
    // Agree before freeing, since afterwards there is no communicator.
    CommContext context{
        .comm = *this,
        .deadline = Deadline(*this, deadline_seconds_, operation,
                             /*watchdog=*/false)};
    return Agree(context, fault::Point("MPI_Comm_free"));
  }();
  const auto watchdog =
      Deadline::OnForeign(*this, deadline_seconds_, operation);
  agreed.Update(MpiError(MPI_Comm_free(&comm_), "MPI_Comm_free"));
  comm_ = MPI_COMM_NULL;
  return agreed;
}

StatusOr<Comm> Comm::Split(int color) const {
  if (comm_ == MPI_COMM_NULL) {
    return absl::FailedPreconditionError(
        "split communicator: it is closed or was moved from");
  }
  CommContext context{
      .comm = *this,
      .deadline = Deadline(*this, deadline_seconds_, "split communicator")};
  BELAY_RETURN_IF_AGREED(Agree(context, absl::OkStatus()));
  Comm part(MPI_COMM_NULL, -1, 0, deadline_seconds_, transfer_variable_);
  const int code = MPI_Comm_split(comm_, color < 0 ? MPI_UNDEFINED : color,
                                  rank_, &part.comm_);
  BELAY_RETURN_IF_AGREED(
      AgreeOnNew(context, code, "MPI_Comm_split", part.comm_));
  if (part.comm_ == MPI_COMM_NULL) return Comm();
  MPI_Comm_rank(part.comm_, &part.rank_);
  MPI_Comm_size(part.comm_, &part.size_);
  return part;
}

// --- Node ---

namespace {

// The key under which a communicator stores the answer, plus 1.
int NodeKey() {
  static const int key = [] {
    int made = MPI_KEYVAL_INVALID;
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN,
                           &made, nullptr);
    return made;
  }();
  return key;
}

}  // namespace

Agreed<int32_t> NodeOfRank(CommContext& context) {
  void* known = nullptr;
  int is_known = 0;  // the same on all ranks
  MPI_Comm_get_attr(context.comm.raw(), NodeKey(), &known, &is_known);
  if (is_known != 0) {
    return static_cast<int32_t>(reinterpret_cast<intptr_t>(known) - 1);
  }
  MPI_Comm node = MPI_COMM_NULL;
  const Status split =
      MpiStatus(MPI_Comm_split_type(context.comm.raw(), MPI_COMM_TYPE_SHARED,
                                    context.rank(), MPI_INFO_NULL, &node),
                "MPI_Comm_split_type");
  BELAY_RETURN_IF_AGREED(Agree(context, split));
  int32_t lowest = context.rank();
  Status status = MpiStatus(
      MPI_Allreduce(MPI_IN_PLACE, &lowest, 1, MPI_INT32_T, MPI_MIN, node),
      "MPI_Allreduce");
  status.Update(MpiStatus(MPI_Comm_free(&node), "MPI_Comm_free"));
  context.messages += 2;
  status.Update(MpiStatus(
      MPI_Comm_set_attr(context.comm.raw(), NodeKey(),
                        reinterpret_cast<void*>(intptr_t{lowest} + 1)),
      "MPI_Comm_set_attr"));
  const Agreed<> agreed = Agree(context, status);
  if (agreed.ok()) return lowest;
  MPI_Comm_delete_attr(context.comm.raw(), NodeKey());
  return agreed.error();
}

}  // namespace belay
