#include "variable/lookup.h"

#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "tensor/combine_rows.h"
#include "variable/fetch_rows.h"
#include "variable/operation.h"
#include "variable/rows.h"

namespace belay {
namespace {

// The rows to fetch and the tensor that they go to.
struct WantedRows {
  std::vector<int64_t> rows;
  Tensor result;
};

// A tensor of one row for each element of an array of that shape. Local.
StatusOr<Tensor> NewRows(const ShardedVariable& variable, Shape shape) {
  const Shape row = RowShape(variable);
  shape.insert(shape.end(), row.begin(), row.end());
  if (!shape.empty()) {
    BELAY_RETURN_IF_ERROR(CheckElements(variable.dtype(), shape));
  }
  return Tensor(variable.dtype(), shape);
}

// Fetches the rows into the result. Collective.
StatusOr<Tensor> Fetch(CommContext& context, const std::string& operation,
                       const ShardedVariable& variable,
                       StatusOr<WantedRows> wanted) {
  BELAY_ASSIGN_OR_RETURN_AGREED(
      const FetchedRows fetched,
      FetchRows(
          context, operation, variable, wanted.status(),
          wanted.ok() ? std::span<const int64_t>(wanted->rows)
                      : std::span<const int64_t>(),
          wanted.ok() ? BytesOf(wanted->result) : std::span<std::byte>()));
  CopyRows(fetched.rows, variable.RowBytes(), wanted->result.data());
  return std::move(wanted->result);
}

// Local.
StatusOr<WantedRows> WantIndices(const Comm& comm,
                                 const ShardedVariable& variable,
                                 const Tensor& indices) {
  WantedRows wanted;
  BELAY_RETURN_IF_ERROR(CheckVariable(comm, variable));
  BELAY_ASSIGN_OR_RETURN(wanted.rows, RowsOf(variable, indices));
  BELAY_ASSIGN_OR_RETURN(wanted.result, NewRows(variable, indices.shape()));
  return wanted;
}

// Local.
StatusOr<WantedRows> WantIds(const Comm& comm, const ShardedVariable& variable,
                             const Tensor& ids, const LookupOptions& options) {
  WantedRows wanted;
  BELAY_RETURN_IF_ERROR(CheckVariable(comm, variable));
  BELAY_RETURN_IF_ERROR(CheckLookup(variable, options));
  BELAY_ASSIGN_OR_RETURN(wanted.rows, IntegersOf(ids, "ids"));
  BELAY_RETURN_IF_ERROR(ToRows(variable, options.strategy, wanted.rows));
  BELAY_ASSIGN_OR_RETURN(wanted.result, NewRows(variable, ids.shape()));
  return wanted;
}

// Scales the rows that are too long.
void ClipRows(const ShardedVariable& variable, double max_norm,
              Tensor& result) {
  const int64_t row_bytes = variable.RowBytes();
  const int64_t row_elements = NumElements(RowShape(variable));
  if (row_bytes == 0) return;
  std::byte* const end = result.data() + result.num_bytes();
  for (std::byte* row = result.data(); row < end; row += row_bytes) {
    const double factor =
        ClipFactor(variable.dtype(), row, row_elements, max_norm);
    if (factor != 1) ScaleRow(variable.dtype(), row, row_elements, factor);
  }
}

// Row id / n of component id % n.
Status ToRowsOfComponents(const ShardedVariable& variable,
                          std::vector<int64_t>& ids) {
  const int64_t n = variable.components().size();
  for (size_t i = 0; i < ids.size(); ++i) {
    const int64_t id = ids[i];
    if (id < 0) {
      return absl::OutOfRangeError(
          absl::StrFormat("id %d of %d is negative (need at least 0, found %d)",
                          i, ids.size(), id));
    }
    const Component& component = variable.components()[id % n];
    if (id / n >= component.num_rows) {
      return absl::OutOfRangeError(absl::StrFormat(
          "id %d of %d, %d, is row %d of component %d (need a row below %d, "
          "found %d)",
          i, ids.size(), id, id / n, id % n, component.num_rows, id / n));
    }
    ids[i] = component.first_row + id / n;
  }
  return absl::OkStatus();
}

}  // namespace

Status CheckLookup(const ShardedVariable& variable,
                   const LookupOptions& options) {
  if (!options.max_norm.has_value()) return absl::OkStatus();
  if (!(*options.max_norm > 0)) {
    return absl::InvalidArgumentError(
        absl::StrFormat("max_norm is out of range (need above 0, found %g)",
                        *options.max_norm));
  }
  if (IsRealFloat(variable.dtype())) return absl::OkStatus();
  return absl::InvalidArgumentError(
      Cat("max_norm with another dtype (need f16, bf16, f32 or f64, found ",
          DTypeName(variable.dtype()), ")"));
}

Status ToRows(const ShardedVariable& variable, IdStrategy strategy,
              std::vector<int64_t>& ids) {
  if (strategy == IdStrategy::kDiv) return CheckRows(variable, ids);
  return ToRowsOfComponents(variable, ids);
}

StatusOr<Tensor> SparseRead(const Comm& comm, const ShardedVariable& variable,
                            const Tensor& indices,
                            const VariableOptions& options) {
  const std::string operation = OperationName("sparse_read", variable.name());
  BELAY_RETURN_IF_AGREED(CheckComm(comm, operation));
  CommContext context = NewContext(comm, operation, options.deadline_seconds);
  BELAY_ASSIGN_OR_RETURN_AGREED(
      Tensor result, Fetch(context, operation, variable,
                           CatchBadAlloc("rows and indices", [&] {
                             return WantIndices(comm, variable, indices);
                           })));
  CountBytes(context, {.bytes_sent = options.bytes_sent});
  return result;
}

StatusOr<Tensor> EmbeddingLookup(const Comm& comm,
                                 const ShardedVariable& variable,
                                 const Tensor& ids,
                                 const LookupOptions& options) {
  const std::string operation =
      OperationName("embedding_lookup", variable.name());
  BELAY_RETURN_IF_AGREED(CheckComm(comm, operation));
  CommContext context = NewContext(comm, operation, options.deadline_seconds);
  BELAY_ASSIGN_OR_RETURN_AGREED(
      Tensor result, Fetch(context, operation, variable,
                           CatchBadAlloc("rows and indices", [&] {
                             return WantIds(comm, variable, ids, options);
                           })));
  if (options.max_norm.has_value()) {
    ClipRows(variable, *options.max_norm, result);
  }
  CountBytes(context, {.bytes_sent = options.bytes_sent});
  return result;
}

}  // namespace belay
