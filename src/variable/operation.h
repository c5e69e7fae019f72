// The frame that all operations on variables share.

#ifndef BELAY_VARIABLE_OPERATION_H_
#define BELAY_VARIABLE_OPERATION_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "base/catch_bad_alloc.h"
#include "belay/arrays/indexing.h"
#include "belay/arrays/tensor.h"
#include "belay/comm.h"
#include "belay/sharded_variable.h"
#include "belay/status.h"
#include "belay/variable/sharded_variable_ops.h"
#include "mpi/collective.h"
#include "tensor/selection.h"

namespace belay {

// Returns the name, or "ShardedVariable" if it is empty. Local.
std::string NameOrDefault(const std::string& name);

// Returns `verb "name"`: how the errors of an operation begin. Local.
std::string OperationName(std::string_view verb, std::string_view name);

// Checks that there is something to talk over. Local, and equal on all ranks of
// a sound program.
// Errors: FailedPrecondition - the communicator is closed or was moved from.
Status CheckComm(const Comm& comm, const std::string& operation);

// The context of one operation, which only waits at agreements. Local.
CommContext NewContext(const Comm& comm, const std::string& operation,
                       double deadline_seconds);

// Checks that a variable may have these elements. Local.
// Errors: InvalidArgument - strings, no axis or too many, a negative length,
//   too many elements.
Status CheckElements(DType dtype, const Shape& shape);

// Checks that the variable was made, on these ranks. Local.
// Errors: FailedPrecondition - it has no components, or other ranks.
Status CheckVariable(const Comm& comm, const ShardedVariable& variable);

// Checks that `value` has the dtype and the shape that are needed. Local.
Status CheckValue(const Tensor& value, DType dtype, const Shape& shape);

// The status with `operation: ` before its message. Local.
Status WithOperation(const std::string& operation, const Status& status);

// Adds what the context sent to options.bytes_sent. Local.
void CountBytes(const CommContext& context, const VariableOptions& options);

// Agrees on `mine`, and then that `what` is the same: what the fingerprints
// stand for. Collective; agreed.
Status AgreeOnCall(CommContext& context, const std::string& operation,
                   std::string_view what, const Status& mine,
                   uint64_t fingerprint);

// Fingerprints of what has to be the same on all ranks. Local.
uint64_t VariableFingerprint(const ShardedVariable& variable);
uint64_t SelectionFingerprint(const Selection& selection);
uint64_t TensorFingerprint(const Tensor& tensor);
uint64_t CombineFingerprints(uint64_t a, uint64_t b);

// Where the rows `part` of a component begin in its memory. Local.
inline std::byte* RowAddress(const ShardedVariable& variable,
                             const Component& component, int64_t row) {
  return component.data + (row - component.first_row) * variable.RowBytes();
}

}  // namespace belay

#endif  // BELAY_VARIABLE_OPERATION_H_
