#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "base/text.h"
#include "belay/variable/sharded_variable_ops.h"
#include "tensor/update.h"
#include "variable/operation.h"

namespace belay {
namespace {

Status CheckAssign(const Comm& comm, const ShardedVariable& variable,
                   UpdateOp op, const Tensor& value) {
  BELAY_RETURN_IF_ERROR(CheckVariable(comm, variable));
  BELAY_RETURN_IF_ERROR(CheckValue(value, variable.dtype(), variable.shape()));
  return CheckUpdate(op, value.dtype(), value.data(), value.num_elements());
}

// The rows of a value that one component of this rank gets, broadcast.
struct ComponentRows {
  const Component* component;
  RowPart rows;
  Tensor values;
};

struct SliceAssignment {
  Selection selection;
  std::vector<ComponentRows> mine;
};

// All that this rank can do alone, and all that can fail.
StatusOr<SliceAssignment> PrepareSlice(const Comm& comm,
                                       const ShardedVariable& variable,
                                       const Index& index,
                                       const Tensor& value) {
  BELAY_RETURN_IF_ERROR(CheckVariable(comm, variable));
  BELAY_RETURN_IF_ERROR(CheckValue(value, variable.dtype(), value.shape()));
  BELAY_ASSIGN_OR_RETURN(Selection selection, Select(variable.shape(), index));
  BELAY_RETURN_IF_ERROR(CheckBroadcast(value.shape(), selection.result_shape));
  std::vector<ComponentRows> mine;
  for (const Component& component : variable) {
    if (component.owner != comm.rank()) continue;
    const RowPart rows = RowsWithin(selection, component.first_row,
                                    component.first_row + component.num_rows);
    if (rows.count * RowElements(selection) == 0) continue;
    BELAY_ASSIGN_OR_RETURN(Tensor values,
                           BroadcastToRows(selection, value, rows));
    mine.push_back({&component, rows, std::move(values)});
  }
  return SliceAssignment{std::move(selection), std::move(mine)};
}

}  // namespace

Status Assign(const Comm& comm, ShardedVariable& variable, UpdateOp op,
              const Tensor& value, const VariableOptions& options) {
  const std::string operation = OperationName("assign", variable.name());
  BELAY_RETURN_IF_AGREED(CheckComm(comm, operation));
  CommContext context = NewContext(comm, operation, options.deadline_seconds);
  const Status checked = CheckAssign(comm, variable, op, value);
  const uint64_t fingerprint =
      CombineFingerprints(CombineFingerprints(VariableFingerprint(variable),
                                              static_cast<uint64_t>(op)),
                          checked.ok() ? TensorFingerprint(value) : 0);
  BELAY_RETURN_IF_AGREED(AgreeOnCall(context, operation,
                                     "the variable, the op or the value",
                                     checked, fingerprint));
  for (const Component& component : variable) {
    if (component.data == nullptr) continue;
    const int64_t bytes = component.num_rows * variable.RowBytes();
    UpdateCheckedElements(
        op, variable.dtype(), component.data,
        value.data() + component.first_row * variable.RowBytes(),
        bytes / DTypeSize(variable.dtype()));
  }
  return absl::OkStatus();
}

Status AssignSlice(const Comm& comm, ShardedVariable& variable,
                   const Index& index, const Tensor& value,
                   const VariableOptions& options) {
  const std::string operation = OperationName("assign slice", variable.name());
  BELAY_RETURN_IF_AGREED(CheckComm(comm, operation));
  CommContext context = NewContext(comm, operation, options.deadline_seconds);
  StatusOr<SliceAssignment> slice = CatchBadAlloc("the rows to assign", [&] {
    return PrepareSlice(comm, variable, index, value);
  });
  uint64_t fingerprint = VariableFingerprint(variable);
  if (slice.ok()) {
    fingerprint = CombineFingerprints(fingerprint,
                                      SelectionFingerprint(slice->selection));
    fingerprint = CombineFingerprints(fingerprint, TensorFingerprint(value));
  }
  BELAY_RETURN_IF_AGREED(AgreeOnCall(context, operation,
                                     "the variable, the index or the value",
                                     slice.status(), fingerprint));
  for (const ComponentRows& one : slice->mine) {
    ScatterSelected(slice->selection, DTypeSize(variable.dtype()),
                    one.component->first_row, one.rows, one.values.data(),
                    one.component->data);
  }
  return absl::OkStatus();
}

}  // namespace belay
