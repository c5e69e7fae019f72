#include "mpi/node.h"

#include <optional>

#include "base/status_macros.h"
#include "mpi/mpi_error.h"

namespace belay {

namespace {

// Under this key a communicator remembers the answer, plus 1.
int NodeKey() {
  static const int key = [] {
    int made = MPI_KEYVAL_INVALID;
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN,
                           &made, nullptr);
    return made;
  }();
  return key;
}

// What was found before: on all ranks, or on none. Local.
std::optional<int32_t> KnownNode(const CommContext& context) {
  void* value = nullptr;
  int found = 0;
  MPI_Comm_get_attr(context.comm.raw(), NodeKey(), &value, &found);
  if (found == 0) return std::nullopt;
  return static_cast<int32_t>(reinterpret_cast<intptr_t>(value) - 1);
}

}  // namespace

StatusOr<int32_t> NodeOfRank(CommContext& context) {
  if (const auto known = KnownNode(context)) return *known;
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
  const Status agreed = Agree(context, status);
  if (agreed.ok()) return lowest;
  MPI_Comm_delete_attr(context.comm.raw(), NodeKey());
  return agreed;
}

}  // namespace belay
