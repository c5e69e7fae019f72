#include "sharded_variable/lookup.h"

#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "core/agreed.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "sharded_variable/fetch_rows.h"
#include "sharded_variable/operation.h"
#include "sharded_variable/update.h"

namespace belay {
namespace {

// The rows to fetch and the tensor that they go to.
struct WantedRows {
  std::vector<int64_t> rows;
  Tensor result;
};

// A tensor of one row for each element of an array of that shape.
StatusOr<Tensor> NewRows(const ShardedVariable& variable, Shape shape) {
  const Shape row = RowShape(variable);
  shape.insert(shape.end(), row.begin(), row.end());
  if (!shape.empty()) {
    BELAY_RETURN_IF_ERROR(CheckElements(variable.dtype(), shape));
  }
  return Tensor(variable.dtype(), shape);
}

// Fetches the rows into the result. Collective.
Agreed<Tensor> Fetch(CommContext& context, const std::string& operation,
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

StatusOr<WantedRows> WantIndices(const Comm& comm,
                                 const ShardedVariable& variable,
                                 const Tensor& indices) {
  WantedRows wanted;
  BELAY_RETURN_IF_ERROR(CheckVariable(comm, variable));
  BELAY_ASSIGN_OR_RETURN(wanted.rows, RowsOf(variable, indices));
  BELAY_ASSIGN_OR_RETURN(wanted.result, NewRows(variable, indices.shape()));
  return wanted;
}

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

// --- Lookup sparse ---

namespace {

// IdLists as plain numbers.
struct Lists {
  std::vector<int64_t> splits;
  std::vector<int64_t> ids;
  std::vector<double> weights;  // one per id
};

// What is fetched, and what becomes of it.
struct WantedLists {
  Lists lists;  // ids are rows
  std::vector<double> divisors;
  Tensor result;
};

// What is done to lists before they are looked up.
struct Pruning {
  bool wanted = false;
  std::optional<int64_t> default_id;
};

// Checks that `splits` cut `count` ids into lists.
Status CheckSplits(const std::vector<int64_t>& splits, int64_t count) {
  if (splits.empty() || splits.front() != 0 || splits.back() != count) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "row_splits do not span the ids (need 0 to %d, found %d to %d)", count,
        splits.empty() ? -1 : splits.front(),
        splits.empty() ? -1 : splits.back()));
  }
  for (size_t i = 1; i < splits.size(); ++i) {
    if (splits[i] >= splits[i - 1]) continue;
    return absl::InvalidArgumentError(
        absl::StrFormat("row_splits descend at %d (need at least %d, found %d)",
                        i, splits[i - 1], splits[i]));
  }
  return absl::OkStatus();
}

Status CheckVector(const Tensor* tensor, std::string_view what) {
  if (tensor == nullptr) {
    return absl::InvalidArgumentError(Cat(what, " are null"));
  }
  if (tensor->shape().size() == 1) return absl::OkStatus();
  return absl::InvalidArgumentError(Cat(what,
                                        " must be 1D (need 1 axis, found ",
                                        ShapeText(tensor->shape()), ")"));
}

// Weights as f64; 1 for each of `count` ids if there are none.
StatusOr<std::vector<double>> WeightsOf(const Tensor* weights, int64_t count) {
  if (weights == nullptr) return std::vector<double>(count, 1.0);
  BELAY_RETURN_IF_ERROR(CheckVector(weights, "weights"));
  if (weights->num_elements() != count) {
    return absl::InvalidArgumentError(
        absl::StrFormat("one weight per id (need %d, found %d)", count,
                        weights->num_elements()));
  }
  if (weights->dtype() == DType::kF32) {
    const auto values = weights->values<float>();
    return std::vector<double>(values.begin(), values.end());
  }
  if (weights->dtype() == DType::kF64) {
    const auto values = weights->values<double>();
    return std::vector<double>(values.begin(), values.end());
  }
  return absl::InvalidArgumentError(
      Cat("weights of another dtype (need f32 or f64, found ",
          DTypeName(weights->dtype()), ")"));
}

StatusOr<Lists> ListsOf(const IdLists& given) {
  Lists lists;
  BELAY_RETURN_IF_ERROR(CheckVector(given.row_splits, "row_splits"));
  BELAY_RETURN_IF_ERROR(CheckVector(given.ids, "ids"));
  BELAY_ASSIGN_OR_RETURN(lists.splits,
                         IntegersOf(*given.row_splits, "row_splits"));
  BELAY_ASSIGN_OR_RETURN(lists.ids, IntegersOf(*given.ids, "ids"));
  BELAY_RETURN_IF_ERROR(CheckSplits(lists.splits, lists.ids.size()));
  BELAY_ASSIGN_OR_RETURN(lists.weights,
                         WeightsOf(given.weights, lists.ids.size()));
  return lists;
}

// The lists without ids below 0 and weights not above 0, and the default id,
// if there is one, where nothing is left.
Lists Pruned(const Lists& lists, std::optional<int64_t> default_id) {
  Lists kept;
  kept.splits.push_back(0);
  for (size_t list = 0; list + 1 < lists.splits.size(); ++list) {
    for (int64_t i = lists.splits[list]; i < lists.splits[list + 1]; ++i) {
      if (lists.ids[i] < 0 || !(lists.weights[i] > 0)) continue;
      kept.ids.push_back(lists.ids[i]);
      kept.weights.push_back(lists.weights[i]);
    }
    const bool is_empty =
        static_cast<int64_t>(kept.ids.size()) == kept.splits.back();
    if (is_empty && default_id.has_value()) {
      kept.ids.push_back(*default_id);
      kept.weights.push_back(1);
    }
    kept.splits.push_back(kept.ids.size());
  }
  return kept;
}

// What the sum of each list is divided by.
std::vector<double> Divisors(const Lists& lists, Combiner combiner) {
  std::vector<double> divisors;
  for (size_t list = 0; list + 1 < lists.splits.size(); ++list) {
    double sum = 0;
    double squares = 0;
    for (int64_t i = lists.splits[list]; i < lists.splits[list + 1]; ++i) {
      sum += lists.weights[i];
      squares += lists.weights[i] * lists.weights[i];
    }
    divisors.push_back(combiner == Combiner::kSum    ? 1
                       : combiner == Combiner::kMean ? sum
                                                     : std::sqrt(squares));
  }
  return divisors;
}

StatusOr<WantedLists> Want(const Comm& comm, const ShardedVariable& variable,
                           const IdLists& given, Combiner combiner,
                           const Pruning& pruning,
                           const LookupOptions& options) {
  BELAY_RETURN_IF_ERROR(CheckVariable(comm, variable));
  if (!IsRealFloat(variable.dtype())) {
    return absl::InvalidArgumentError(
        Cat("rows are combined (need f16, bf16, f32 or f64, found ",
            DTypeName(variable.dtype()), ")"));
  }
  BELAY_RETURN_IF_ERROR(CheckLookup(variable, options));
  WantedLists wanted;
  BELAY_ASSIGN_OR_RETURN(wanted.lists, ListsOf(given));
  if (pruning.wanted) {
    wanted.lists = Pruned(wanted.lists, pruning.default_id);
  }
  BELAY_RETURN_IF_ERROR(ToRows(variable, options.strategy, wanted.lists.ids));
  wanted.divisors = Divisors(wanted.lists, combiner);
  Shape shape = variable.shape();
  shape[0] = static_cast<int64_t>(wanted.lists.splits.size()) - 1;
  BELAY_RETURN_IF_ERROR(CheckElements(variable.dtype(), shape));
  wanted.result = Tensor(variable.dtype(), shape);
  return wanted;
}

// Sums the fetched rows into the result.
void CombineInto(const ShardedVariable& variable, const FetchedRows& fetched,
                 std::optional<double> max_norm, WantedLists& wanted) {
  const int64_t row_elements = NumElements(RowShape(variable));
  Lists& lists = wanted.lists;
  for (size_t i = 0; max_norm.has_value() && i < lists.weights.size(); ++i) {
    lists.weights[i] *=
        ClipFactor(variable.dtype(), fetched.rows[i], row_elements, *max_norm);
  }
  CombineRows(variable.dtype(), row_elements,
              {.splits = lists.splits,
               .rows = fetched.rows,
               .weights = lists.weights,
               .divisors = wanted.divisors},
              wanted.result.data());
}

// Collective.
Agreed<Tensor> LookUp(const Comm& comm, const std::string& operation,
                      const ShardedVariable& variable, const IdLists& given,
                      Combiner combiner, const Pruning& pruning,
                      const LookupOptions& options) {
  BELAY_RETURN_IF_AGREED(CheckComm(comm, operation));
  CommContext context = NewContext(comm, operation, options.deadline_seconds);
  StatusOr<WantedLists> wanted = CatchBadAlloc("rows and indices", [&] {
    return Want(comm, variable, given, combiner, pruning, options);
  });
  BELAY_ASSIGN_OR_RETURN_AGREED(
      const FetchedRows fetched,
      FetchRows(
          context, operation, variable, wanted.status(),
          wanted.ok() ? std::span<const int64_t>(wanted->lists.ids)
                      : std::span<const int64_t>(),
          wanted.ok() ? BytesOf(wanted->result) : std::span<std::byte>()));
  CombineInto(variable, fetched, options.max_norm, *wanted);
  CountBytes(context, {.bytes_sent = options.bytes_sent});
  return std::move(wanted->result);
}

}  // namespace

StatusOr<Tensor> EmbeddingLookupSparse(const Comm& comm,
                                       const ShardedVariable& variable,
                                       const IdLists& lists, Combiner combiner,
                                       const LookupOptions& options) {
  return LookUp(comm, OperationName("embedding_lookup_sparse", variable.name()),
                variable, lists, combiner, {}, options);
}

StatusOr<Tensor> SafeEmbeddingLookupSparse(const Comm& comm,
                                           const ShardedVariable& variable,
                                           const IdLists& lists,
                                           Combiner combiner,
                                           std::optional<int64_t> default_id,
                                           const LookupOptions& options) {
  return LookUp(comm,
                OperationName("safe_embedding_lookup_sparse", variable.name()),
                variable, lists, combiner,
                {.wanted = true, .default_id = default_id}, options);
}

}  // namespace belay
