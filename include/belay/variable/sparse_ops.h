// Updates and reads of single rows of a sharded variable.
//
//   belay::ScatterAdd(comm, table, indices, gradient_rows);
//   auto rows = belay::EmbeddingLookup(comm, table, ids);
//
// Every function is collective. Each rank passes its own indices: any number of
// them, or none, in any order and with repetitions. The components of the
// variable may have any sizes and any owners. Indices are i32 or i64; a
// negative one is an error and does not count from the end. On an error no row
// changes on any rank.
//
// Communication: an index is 8 bytes, a row its own bytes; rows that a rank
// holds itself are not sent. Every function does one all-to-all of sizes.
// Updates do one all-to-all of bytes; lookups do two, for requests and replies.

#ifndef BELAY_VARIABLE_SPARSE_OPS_H_
#define BELAY_VARIABLE_SPARSE_OPS_H_

#include <cstdint>
#include <optional>

#include "belay/arrays/tensor.h"
#include "belay/comm.h"
#include "belay/sharded_variable.h"
#include "belay/status.h"
#include "belay/variable/sharded_variable_ops.h"
#include "belay/variable/update_op.h"

namespace belay {

// Updates row indices[i] of the variable with rows[i], for all i of all ranks,
// as if one after the other, by rank and then by i. A repeated index therefore
// accumulates, and the last of several kUpdate wins. Collective. Same on all
// ranks: variable, op. Each rank passes its own `indices` [n] and `rows`
// [n, ...], of the variable's dtype and row shape.
// Errors: OutOfRange - no such row; InvalidArgument - indices that are not i32
//   or i64 or not 1-D, rows with a wrong dtype or shape, an integer division by
//   zero, ranks disagree; Unimplemented - the op is not defined for the dtype;
//   ResourceExhausted - no memory.
Status Scatter(const Comm& comm, ShardedVariable& variable, UpdateOp op,
               const Tensor& indices, const Tensor& rows,
               const VariableOptions& options = {});

// The same as Scatter with the op in their name. Collective. Same on all ranks:
// variable.
Status ScatterAdd(const Comm& comm, ShardedVariable& variable,
                  const Tensor& indices, const Tensor& rows,
                  const VariableOptions& options = {});
Status ScatterSub(const Comm& comm, ShardedVariable& variable,
                  const Tensor& indices, const Tensor& rows,
                  const VariableOptions& options = {});
Status ScatterMul(const Comm& comm, ShardedVariable& variable,
                  const Tensor& indices, const Tensor& rows,
                  const VariableOptions& options = {});
Status ScatterDiv(const Comm& comm, ShardedVariable& variable,
                  const Tensor& indices, const Tensor& rows,
                  const VariableOptions& options = {});
Status ScatterMin(const Comm& comm, ShardedVariable& variable,
                  const Tensor& indices, const Tensor& rows,
                  const VariableOptions& options = {});
Status ScatterMax(const Comm& comm, ShardedVariable& variable,
                  const Tensor& indices, const Tensor& rows,
                  const VariableOptions& options = {});
Status ScatterUpdate(const Comm& comm, ShardedVariable& variable,
                     const Tensor& indices, const Tensor& rows,
                     const VariableOptions& options = {});
// The same as ScatterUpdate: indices are 1-D, so the batch has one element.
// Collective. Same on all ranks: variable.
Status BatchScatterUpdate(const Comm& comm, ShardedVariable& variable,
                          const Tensor& indices, const Tensor& rows,
                          const VariableOptions& options = {});

// Returns the rows `indices` [n], in that order: [n, ...]. Collective. Same on
// all ranks: variable. A row that is requested twice is sent once.
// Errors: OutOfRange - no such row; InvalidArgument - indices that are not i32
//   or i64 or not 1-D, ranks disagree; ResourceExhausted - no memory.
StatusOr<Tensor> SparseRead(const Comm& comm, const ShardedVariable& variable,
                            const Tensor& indices,
                            const VariableOptions& options = {});

// Maps an id to a row.
enum class IdStrategy : uint8_t {
  kDiv,  // row `id`
  kMod,  // of n components, row id / n of component id % n
};

struct LookupOptions {
  IdStrategy strategy = IdStrategy::kDiv;
  // Scales rows with a larger L2 norm to this norm. Must be above 0; requires
  // dtype f16, bf16, f32 or f64.
  std::optional<double> max_norm = {};
  // As in VariableOptions.
  double deadline_seconds = 600;
  int64_t* bytes_sent = nullptr;
};

// Returns the row of each of `ids`, of any shape: ids.shape + row shape.
// Collective. Same on all ranks: variable.
// Errors: OutOfRange - no such row; InvalidArgument - ids that are not i32 or
//   i64, max_norm not above 0 or not for this dtype, ranks disagree;
//   ResourceExhausted - no memory.
StatusOr<Tensor> EmbeddingLookup(const Comm& comm,
                                 const ShardedVariable& variable,
                                 const Tensor& ids,
                                 const LookupOptions& options = {});

// Lists of ids: list i has ids[row_splits[i]] to ids[row_splits[i + 1] - 1].
// (TensorFlow's sparse tensor of ids.) Borrowed.
struct IdLists {
  const Tensor* row_splits = nullptr;  // i32 or i64 [lists + 1], from 0 to n
  const Tensor* ids = nullptr;         // i32 or i64 [n]
  const Tensor* weights = nullptr;     // f32 or f64 [n]; null: all are 1
};

// How the rows e_j of a list, with weights w_j, become one row.
enum class Combiner : uint8_t {
  kSum,    // sum(w_j e_j)
  kMean,   // sum(w_j e_j) / sum(w_j)
  kSqrtn,  // sum(w_j e_j) / sqrt(sum(w_j^2))
};

// Returns one row per list: [lists, ...]; zeros for an empty list, or if the
// formula divides by zero. max_norm applies before the sum. The variable must
// be f16, bf16, f32 or f64. Collective. Same on all ranks: variable.
// Errors: as EmbeddingLookup; InvalidArgument - lists that are null or not of
//   that form, or another dtype.
StatusOr<Tensor> EmbeddingLookupSparse(const Comm& comm,
                                       const ShardedVariable& variable,
                                       const IdLists& lists, Combiner combiner,
                                       const LookupOptions& options = {});

// The same after dropping ids below 0 and weights that are not above 0, each
// with its counterpart. A list that is then empty gives the row of
// `default_id`, or zeros if it is unset. Collective. Same on all ranks:
// variable.
// Errors: as EmbeddingLookupSparse, also for the default id if it is used.
StatusOr<Tensor> SafeEmbeddingLookupSparse(
    const Comm& comm, const ShardedVariable& variable, const IdLists& lists,
    Combiner combiner, std::optional<int64_t> default_id = std::nullopt,
    const LookupOptions& options = {});

}  // namespace belay

#endif  // BELAY_VARIABLE_SPARSE_OPS_H_
