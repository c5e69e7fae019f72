// Collective functions that make, read and write sharded variables.
//
//   auto v = belay::CreateShardedVariable(comm, "v", belay::DType::kF32,
//                                         {1000, 64}, belay::FixedShards(4));
//   auto rows = belay::Read(comm, *v, {belay::Slice{10, 20}});
//   belay::Assign(comm, *v, belay::UpdateOp::kAdd, gradient);
//
// Every function is collective and takes the same variable on all ranks; its
// comment says which other arguments must be the same. All checks and
// agreements precede the first change: on an error the variable is unchanged.

#ifndef BELAY_VARIABLE_SHARDED_VARIABLE_OPS_H_
#define BELAY_VARIABLE_SHARDED_VARIABLE_OPS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "belay/arrays/indexing.h"
#include "belay/arrays/tensor.h"
#include "belay/comm.h"
#include "belay/sharded_variable.h"
#include "belay/status.h"
#include "belay/variable/partitioner.h"
#include "belay/variable/update_op.h"

namespace belay {

// Passed instead of a rank: all ranks.
inline constexpr int kEveryRank = -1;

struct VariableOptions {
  // As in SaveOptions.
  double deadline_seconds = 600;
  // If not null, incremented by the bytes of elements that this rank sent to
  // others. Borrowed.
  int64_t* bytes_sent = nullptr;
};

struct CreateOptions {
  // The rank that holds each component. Empty: consecutive components are on
  // one rank, and the numbers of components per rank differ by at most 1.
  std::vector<int> owners = {};
  double deadline_seconds = 600;
};

// Makes a variable of zeros that owns its memory, split along axis 0 by the
// partitioner. Collective. Same on all ranks: all arguments except the
// deadline. The partitioner is called on every rank; an exception becomes an
// error. An empty name stands for "ShardedVariable". Each component begins at a
// multiple of 64 bytes.
// Errors: InvalidArgument - ranks disagree; no axis or more than 32; strings;
//   the partitioner splits another axis or returns a result that PartitionBoxes
//   rejects; the number of owners differs from that of the components, or an
//   owner is not a rank; ResourceExhausted - no memory; those of the
//   partitioner.
StatusOr<ShardedVariable> CreateShardedVariable(
    const Comm& comm, const std::string& name, DType dtype, const Shape& shape,
    const Partitioner& partitioner, const CreateOptions& options = {});

// An existing component. Borrowed as long as the variable exists; other
// arguments of operations on the variable must not overlap it.
struct GivenComponent {
  DType dtype = DType::kF32;
  Shape shape;
  // Row-major, aligned for its elements; may be null if there are none.
  void* data = nullptr;
  // The slice spec if this is a piece of another array, which is refused.
  std::string slice_spec = {};
};

// Makes a variable from components that the ranks hold, stacked on axis 0 in
// rank order and, on each rank, in list order; the list may be empty.
// Collective. Same on all ranks: name; an empty one stands for
// "ShardedVariable".
// Errors: InvalidArgument - no component at all; a dtype, or a shape after axis
//   0, that differs from the first component's; no axis or more than 32; a
//   string; a piece of another array; a null pointer or one that is not
//   aligned; ResourceExhausted - no memory. Names component and rank.
StatusOr<ShardedVariable> JoinComponents(
    const Comm& comm, const std::string& name,
    std::span<const GivenComponent> components,
    const VariableOptions& options = {});

// Returns variable[index] on rank `to` or on every rank; the other ranks get an
// empty tensor. Collective. Same on all ranks: what the index selects, and
// `to`. The owners apply the index and send only the selected elements,
// directly to the ranks that get them.
// Errors: those of GetItem; InvalidArgument - ranks disagree, no such rank;
//   ResourceExhausted - no memory.
// Cost: three small collectives. Each rank that gets the result receives one
// message per component. If the index skips rows or elements of rows,
// consecutive components of one rank share one message.
StatusOr<Tensor> Read(const Comm& comm, const ShardedVariable& variable,
                      const Index& index, int to = kEveryRank,
                      const VariableOptions& options = {});

// The same into an existing tensor, which saves an allocation. Ranks that do
// not get the result ignore it. Collective.
// Errors: InvalidArgument - `result` has the wrong dtype or shape.
Status Read(const Comm& comm, const ShardedVariable& variable,
            const Index& index, Tensor& result, int to = kEveryRank,
            const VariableOptions& options = {});

// Returns the whole variable on every rank. Collective. Same on all ranks:
// `dtype`, which must be that of the variable if it is set: nothing is
// converted.
// Errors: InvalidArgument - another dtype.
StatusOr<Tensor> ToTensor(const Comm& comm, const ShardedVariable& variable,
                          std::optional<DType> dtype = std::nullopt,
                          const VariableOptions& options = {});

// Updates every element with that of `value`: kUpdate assigns, kAdd and kSub
// add and subtract, and so on. Collective. Same on all ranks: `op` and `value`,
// whose values are compared. No elements are sent.
// Errors: InvalidArgument - a dtype or shape that differs from the variable's,
//   ranks disagree, an integer division by zero; Unimplemented - the op is not
//   defined for the dtype.
Status Assign(const Comm& comm, ShardedVariable& variable, UpdateOp op,
              const Tensor& value, const VariableOptions& options = {});

// The values of one box of a variable. Borrowed.
struct VariablePiece {
  Box box;
  const Tensor* values = nullptr;
};

// The same with a value in pieces; those of all ranks together must tile the
// variable. Collective. Same on all ranks: op. Every element is sent at most
// once, to its owner.
// Errors: as Assign; InvalidArgument - pieces overlap or leave a gap (names
//   boxes and ranks), or do not have the variable's dtype or the shape of their
//   box.
Status AssignPieces(const Comm& comm, ShardedVariable& variable, UpdateOp op,
                    std::span<const VariablePiece> pieces,
                    const VariableOptions& options = {});

// Assigns variable[index] = value, where the value is broadcast as in NumPy.
// Collective. Same on all ranks: what the index selects, and the value, whose
// values are compared. No elements are sent.
// Errors: those of SetItem; InvalidArgument - ranks disagree.
Status AssignSlice(const Comm& comm, ShardedVariable& variable,
                   const Index& index, const Tensor& value,
                   const VariableOptions& options = {});

}  // namespace belay

#endif  // BELAY_VARIABLE_SHARDED_VARIABLE_OPS_H_
