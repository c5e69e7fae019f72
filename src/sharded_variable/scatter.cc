#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "belay/variable/sparse_ops.h"
#include "core/agreed.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "mpi/all_to_all.h"
#include "sharded_variable/operation.h"
#include "sharded_variable/update.h"

namespace belay {
namespace {

// The updates of a rank, sorted by owner. A message has first all rows, so that
// their elements are aligned, then their indices.
struct SortedRows {
  std::optional<RowFinder> finder;
  std::unique_ptr<Scratch> scratch;            // `sent` holds the messages
  std::vector<std::span<const std::byte>> to;  // by rank; empty for this one
  std::vector<int64_t> rows;                   // all
  std::vector<int64_t> kept;  // positions in `rows` of those of this rank
};

// The next row and the next index in the message to one owner.
struct Cursor {
  std::byte* row = nullptr;
  std::byte* index = nullptr;
};

// A counting sort, which is stable.
void SortByOwner(const CommContext& context, const ShardedVariable& variable,
                 const std::byte* deltas, SortedRows& sorted) {
  const RowFinder& finder = sorted.finder.emplace(variable);
  const int64_t row_bytes = variable.RowBytes();
  std::vector<int> owners(sorted.rows.size());
  std::vector<int64_t> counts(context.size());
  for (size_t i = 0; i < owners.size(); ++i) {
    owners[i] = finder.Find(sorted.rows[i]).owner;
    ++counts[owners[i]];
  }
  sorted.kept.reserve(std::exchange(counts[context.rank()], 0));
  const int64_t given = std::reduce(counts.begin(), counts.end());
  Reserve(sorted.scratch->sent, given * (row_bytes + kRowIndexBytes));
  std::vector<Cursor> cursors;
  std::byte* next = sorted.scratch->sent.bytes.get();
  for (int64_t count : counts) {
    const int64_t size = count * (row_bytes + kRowIndexBytes);
    sorted.to.emplace_back(next, size);
    cursors.push_back({next, next + count * row_bytes});
    next += size;
  }
  for (size_t i = 0; i < owners.size(); ++i) {
    if (owners[i] == context.rank()) {
      sorted.kept.push_back(i);
      continue;
    }
    Cursor& cursor = cursors[owners[i]];
    std::memcpy(cursor.row, deltas + i * row_bytes, row_bytes);
    std::memcpy(cursor.index, &sorted.rows[i], kRowIndexBytes);
    cursor.row += row_bytes;
    cursor.index += kRowIndexBytes;
  }
}

// Checks all that can be wrong on this rank, and sorts the rows.
StatusOr<SortedRows> Prepare(const CommContext& context,
                             ShardedVariable& variable, UpdateOp op,
                             const Tensor& indices, const Tensor& deltas) {
  SortedRows sorted{.scratch = std::move(Scratch::Of(variable))};
  if (sorted.scratch == nullptr) sorted.scratch = std::make_unique<Scratch>();
  BELAY_RETURN_IF_ERROR(CheckVariable(context.comm, variable));
  BELAY_ASSIGN_OR_RETURN(sorted.rows, ReadRows(variable, indices));
  Shape needed = variable.shape();
  needed[0] = indices.shape()[0];
  BELAY_RETURN_IF_ERROR(
      WithOperation("rows", CheckValue(deltas, variable.dtype(), needed)));
  BELAY_RETURN_IF_ERROR(
      CheckUpdate(op, variable.dtype(), deltas.data(), deltas.num_elements()));
  SortByOwner(context, variable, deltas.data(), sorted);
  return sorted;
}

// Applies one delta after the other, and prefetches a few rows ahead.
class Updater {
 public:
  Updater(const ShardedVariable& variable, const RowFinder& finder, UpdateOp op)
      : finder_(finder),
        op_(op),
        dtype_(variable.dtype()),
        row_bytes_(variable.RowBytes()),
        row_elements_(NumElements(RowShape(variable))) {}

  // Updates row row_of(i) with delta_of(i), for i from 0 to count - 1.
  template <typename RowOf, typename DeltaOf>
  void Apply(int64_t count, RowOf row_of, DeltaOf delta_of) const {
    constexpr int64_t kAhead = 16;
    std::byte* targets[kAhead];
    for (int64_t start = 0; start < count; start += kAhead) {
      const int64_t some = std::min(kAhead, count - start);
      for (int64_t i = 0; i < some; ++i) {
        targets[i] = finder_.Address(row_of(start + i));
        Prefetch(targets[i], row_bytes_);
      }
      for (int64_t i = 0; i < some; ++i) {
        UpdateCheckedElements(op_, dtype_, targets[i], delta_of(start + i),
                              row_elements_);
      }
    }
  }

 private:
  const RowFinder& finder_;
  const UpdateOp op_;
  const DType dtype_;
  const int64_t row_bytes_;
  const int64_t row_elements_;
};

// Applies the deltas in the order of ranks.
void ApplyAll(const CommContext& context, const ShardedVariable& variable,
              UpdateOp op, const SortedRows& sorted, const std::byte* deltas,
              const ReceivedBytes& received) {
  const Updater updater(variable, *sorted.finder, op);
  const int64_t row_bytes = variable.RowBytes();
  for (int rank = 0; rank < context.size(); ++rank) {
    if (rank == context.rank()) {
      updater.Apply(
          sorted.kept.size(),
          [&](int64_t i) { return sorted.rows[sorted.kept[i]]; },
          [&](int64_t i) { return deltas + sorted.kept[i] * row_bytes; });
      continue;
    }
    const std::span<const std::byte> bytes = received.From(rank);
    const int64_t count = bytes.size() / (row_bytes + kRowIndexBytes);
    const std::byte* const indices = bytes.data() + count * row_bytes;
    updater.Apply(
        count,
        [&](int64_t i) {
          int64_t row;
          std::memcpy(&row, indices + i * kRowIndexBytes, kRowIndexBytes);
          return row;
        },
        [&](int64_t i) { return bytes.data() + i * row_bytes; });
  }
}

}  // namespace

Status Scatter(const Comm& comm, ShardedVariable& variable, UpdateOp op,
               const Tensor& indices, const Tensor& rows,
               const VariableOptions& options) {
  const std::string operation =
      OperationName(Cat("scatter_", UpdateOpName(op)), variable.name());
  BELAY_RETURN_IF_AGREED(CheckComm(comm, operation));
  CommContext context = NewContext(comm, operation, options.deadline_seconds);
  const std::string what = Cat(operation, ": the op or the variable");
  StatusOr<SortedRows> sorted = CatchBadAlloc("rows and indices", [&] {
    return Prepare(context, variable, op, indices, rows);
  });
  BELAY_ASSIGN_OR_RETURN_AGREED(
      ReceivedBytes received,
      AllToAll(context, WithOperation(operation, sorted.status()),
               sorted.ok() ? sorted->to : decltype(sorted->to){},
               {what, CombineFingerprints(VariableFingerprint(variable),
                                          1 + static_cast<int>(op))},
               sorted.ok() ? std::move(sorted->scratch->received)
                           : ReusableBytes{}));
  ApplyAll(context, variable, op, *sorted, rows.data(), received);
  sorted->scratch->received = std::move(received.memory);
  Scratch::Of(variable) = std::move(sorted->scratch);
  CountBytes(context, options);
  return absl::OkStatus();
}

Status ScatterAdd(const Comm& comm, ShardedVariable& variable,
                  const Tensor& indices, const Tensor& rows,
                  const VariableOptions& options) {
  return Scatter(comm, variable, UpdateOp::kAdd, indices, rows, options);
}

Status ScatterSub(const Comm& comm, ShardedVariable& variable,
                  const Tensor& indices, const Tensor& rows,
                  const VariableOptions& options) {
  return Scatter(comm, variable, UpdateOp::kSub, indices, rows, options);
}

Status ScatterMul(const Comm& comm, ShardedVariable& variable,
                  const Tensor& indices, const Tensor& rows,
                  const VariableOptions& options) {
  return Scatter(comm, variable, UpdateOp::kMul, indices, rows, options);
}

Status ScatterDiv(const Comm& comm, ShardedVariable& variable,
                  const Tensor& indices, const Tensor& rows,
                  const VariableOptions& options) {
  return Scatter(comm, variable, UpdateOp::kDiv, indices, rows, options);
}

Status ScatterMin(const Comm& comm, ShardedVariable& variable,
                  const Tensor& indices, const Tensor& rows,
                  const VariableOptions& options) {
  return Scatter(comm, variable, UpdateOp::kMin, indices, rows, options);
}

Status ScatterMax(const Comm& comm, ShardedVariable& variable,
                  const Tensor& indices, const Tensor& rows,
                  const VariableOptions& options) {
  return Scatter(comm, variable, UpdateOp::kMax, indices, rows, options);
}

Status ScatterUpdate(const Comm& comm, ShardedVariable& variable,
                     const Tensor& indices, const Tensor& rows,
                     const VariableOptions& options) {
  return Scatter(comm, variable, UpdateOp::kUpdate, indices, rows, options);
}

Status BatchScatterUpdate(const Comm& comm, ShardedVariable& variable,
                          const Tensor& indices, const Tensor& rows,
                          const VariableOptions& options) {
  return Scatter(comm, variable, UpdateOp::kUpdate, indices, rows, options);
}

}  // namespace belay
