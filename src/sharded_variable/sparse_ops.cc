#include "belay/variable/sparse_ops.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_format.h"
#include "core/agreed.h"
#include "core/flat_buffer.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "mpi/all_to_all.h"
#include "sharded_variable/operation.h"
#include "sharded_variable/update.h"

namespace belay {

// --- Lookups ---

namespace {

constexpr int64_t kNone = -1;

// Numbers distinct values in order of appearance. The open-addressing hash
// table has only the numbers: with the values it would be twice as large.
class Numbering {
 public:
  // Has room for `most` distinct values.
  explicit Numbering(int64_t most)
      : numbers_(std::bit_ceil(static_cast<uint64_t>(2 * most + 1)), kNone),
        shift_(64 - std::countr_zero(numbers_.size())) {}

  int64_t FindNumber(int64_t value) {
    constexpr uint64_t kGolden = 0x9e3779b97f4a7c15;
    const size_t mask = numbers_.size() - 1;
    size_t slot = shift_ == 64 ? 0 : (value * kGolden) >> shift_;
    while (true) {
      int64_t& number = numbers_[slot];
      if (number == kNone) {
        number = static_cast<int64_t>(values_.size());
        values_.push_back(value);
        return number;
      }
      if (values_[number] == value) return number;
      slot = (slot + 1) & mask;
    }
  }

  const std::vector<int64_t>& values() const { return values_; }

 private:
  std::vector<int64_t> numbers_;
  int shift_;
  std::vector<int64_t> values_;
};

// The address of each wanted row, in request order: in the variable itself or
// in `received`.
struct FetchedRows {
  std::vector<const std::byte*> rows;
  std::unique_ptr<std::byte[]> received;
};

// The remote rows that this rank requests.
struct Requests {
  std::optional<RowFinder> finder;
  std::vector<int64_t> rows;    // distinct, sorted by owner
  std::vector<int64_t> starts;  // per rank: its first index of `rows`; then end
  std::vector<int64_t> place;   // per wanted row: index of `rows`; local: kNone
};

Requests MakeRequests(const CommContext& context,
                      const ShardedVariable& variable,
                      std::span<const int64_t> rows, FetchedRows& fetched) {
  Requests requests;
  const RowFinder& finder = requests.finder.emplace(variable);
  requests.starts.resize(context.size() + 1);
  requests.place.resize(rows.size(), kNone);
  fetched.rows.resize(rows.size());
  Numbering numbering(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    const Component& component = finder.Find(rows[i]);
    if (component.owner == context.rank()) {
      fetched.rows[i] = finder.Address(component, rows[i]);
    } else {
      requests.place[i] = numbering.FindNumber(rows[i]);
    }
  }
  // Counting sort by owner.
  const std::vector<int64_t>& distinct = numbering.values();
  std::vector<int64_t> moved_to(distinct.size());
  for (int64_t row : distinct) ++requests.starts[finder.Find(row).owner + 1];
  for (int rank = 0; rank < context.size(); ++rank) {
    requests.starts[rank + 1] += requests.starts[rank];
  }
  std::vector<int64_t> next = requests.starts;
  requests.rows.resize(distinct.size());
  for (size_t number = 0; number < distinct.size(); ++number) {
    moved_to[number] = next[finder.Find(distinct[number]).owner]++;
    requests.rows[moved_to[number]] = distinct[number];
  }
  for (int64_t& place : requests.place) {
    if (place != kNone) place = moved_to[place];
  }
  fetched.received = NewBytes(requests.rows.size() * variable.RowBytes());
  return requests;
}

// Returns the number of bytes of row indices for each rank.
std::vector<int64_t> CountIndexBytes(const Requests& requests) {
  std::vector<int64_t> bytes;
  for (size_t rank = 0; rank + 1 < requests.starts.size(); ++rank) {
    bytes.push_back((requests.starts[rank + 1] - requests.starts[rank]) *
                    kRowIndexBytes);
  }
  return bytes;
}

// Cuts `bytes` into one part per rank. `starts` has the start of each part,
// then the end, in units of `unit_bytes` bytes.
template <typename Byte>
std::vector<std::span<Byte>> CutByRank(Byte* bytes,
                                       const std::vector<int64_t>& starts,
                                       int64_t unit_bytes) {
  std::vector<std::span<Byte>> parts;
  for (size_t rank = 0; rank + 1 < starts.size(); ++rank) {
    parts.emplace_back(bytes + starts[rank] * unit_bytes,
                       (starts[rank + 1] - starts[rank]) * unit_bytes);
  }
  return parts;
}

// The requests of the other ranks, and memory for the answers.
struct Answers {
  ReceivedBytes asked;
  std::vector<int64_t> starts;         // per rank: its first row; then the end
  std::vector<const std::byte*> rows;  // address of each requested row
  std::unique_ptr<std::byte[]> memory;
  std::byte* bytes = nullptr;
};

// Allocates the memory for the answers; uses `scratch` if it is large enough.
StatusOr<Answers> AllocateAnswers(std::span<const int64_t> index_bytes,
                                  int64_t row_bytes,
                                  std::span<std::byte> scratch) {
  Answers answers;
  BELAY_ASSIGN_OR_RETURN(answers.asked, NewReceivedBytes(index_bytes));
  for (int64_t offset : answers.asked.offsets) {
    answers.starts.push_back(offset / kRowIndexBytes);
  }
  answers.rows.resize(answers.starts.back());
  const size_t size = answers.rows.size() * row_bytes;
  if (size > scratch.size()) answers.memory = NewBytes(size);
  answers.bytes =
      answers.memory != nullptr ? answers.memory.get() : scratch.data();
  return answers;
}

void CopyRows(const std::vector<const std::byte*>& rows, int64_t row_bytes,
              std::byte* to) {
  constexpr size_t kAhead = 12;
  if (row_bytes == 0) return;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i + kAhead < rows.size()) Prefetch(rows[i + kAhead], row_bytes);
    std::memcpy(to + i * row_bytes, rows[i], row_bytes);
  }
}

// Collects the rows that other ranks requested, in request order.
void GatherAnswers(const RowFinder& finder, int64_t row_bytes,
                   Answers& answers) {
  const std::byte* next = answers.asked.memory.bytes.get();
  for (const std::byte*& address : answers.rows) {
    int64_t row;
    std::memcpy(&row, next, kRowIndexBytes);
    next += kRowIndexBytes;
    address = finder.Address(row);
  }
  CopyRows(answers.rows, row_bytes, answers.bytes);
}

// Exchanges requests, and then the rows themselves. Collective.
Agreed<> ExchangeRows(CommContext& context, int64_t row_bytes,
                      const Requests& requests, Answers& answers,
                      FetchedRows& fetched) {
  const auto* const indices =
      reinterpret_cast<const std::byte*>(requests.rows.data());
  BELAY_RETURN_IF_AGREED(ExchangeBytes(
      context, CutByRank(indices, requests.starts, kRowIndexBytes),
      answers.asked.FromAll()));
  GatherAnswers(*requests.finder, row_bytes, answers);
  const std::byte* const answer = answers.bytes;
  BELAY_RETURN_IF_AGREED(ExchangeBytes(
      context, CutByRank(answer, answers.starts, row_bytes),
      CutByRank(fetched.received.get(), requests.starts, row_bytes)));
  for (size_t i = 0; i < requests.place.size(); ++i) {
    if (requests.place[i] == kNone) continue;  // local
    fetched.rows[i] = fetched.received.get() + requests.place[i] * row_bytes;
  }
  return {};
}

// Fetches each distinct row once from its owner. Every rank passes the rows
// that it wants, which were checked, or its error in `mine`. `scratch` is
// memory that may be overwritten, such as that of the result: filling fresh
// memory costs as much as a copy. Collective. Same on all ranks: variable.
Agreed<FetchedRows> FetchRows(Operation& operation,
                              const ShardedVariable& variable,
                              const Status& mine, std::span<const int64_t> rows,
                              std::span<std::byte> scratch) {
  CommContext& context = operation.context;
  FetchedRows fetched;
  const StatusOr<Requests> requests =
      CatchBadAlloc("rows and indices", [&]() -> StatusOr<Requests> {
        BELAY_RETURN_IF_ERROR(mine);
        return MakeRequests(context, variable, rows, fetched);
      });
  BELAY_ASSIGN_OR_RETURN_AGREED(
      const std::vector<int64_t> index_bytes,
      ExchangeCounts(
          context, operation.Name(requests.status()),
          requests.ok() ? CountIndexBytes(*requests) : std::vector<int64_t>(),
          {Cat(operation.name, ": the variable"),
           VariableFingerprint(variable)}));
  const int64_t row_bytes = variable.RowBytes();
  StatusOr<Answers> answers = CatchBadAlloc("rows for other ranks", [&] {
    return AllocateAnswers(index_bytes, row_bytes, scratch);
  });
  BELAY_RETURN_IF_AGREED(operation.Agree(answers.status()));
  BELAY_RETURN_IF_AGREED(
      ExchangeRows(context, row_bytes, *requests, *answers, fetched));
  return fetched;
}

std::span<std::byte> Bytes(Tensor& tensor) {
  return {tensor.data(), static_cast<size_t>(tensor.num_bytes())};
}

struct WantedRows {
  std::vector<int64_t> rows;
  Tensor result;
};

// Allocates one row for each element of an array of this shape.
StatusOr<Tensor> AllocateRows(const ShardedVariable& variable, Shape shape) {
  const Shape row = RowShape(variable);
  shape.insert(shape.end(), row.begin(), row.end());
  if (!shape.empty()) {
    BELAY_RETURN_IF_ERROR(CheckElements(variable.dtype(), shape));
  }
  return Tensor(variable.dtype(), shape);
}

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

// Converts ids: with n components, id i is row i / n of component i % n.
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

// Converts ids into rows.
// Errors: OutOfRange - names the first id that has no row.
Status ToRows(const ShardedVariable& variable, IdStrategy strategy,
              std::vector<int64_t>& ids) {
  if (strategy == IdStrategy::kDiv) return CheckRows(variable, ids);
  return ToRowsOfComponents(variable, ids);
}

// Looks up rows. `want` determines the rows that this rank wants and allocates
// the result; `put` stores the fetched rows in it. Collective.
template <typename Options>
Agreed<Tensor> LookUp(
    const Comm& comm, std::string_view verb, const ShardedVariable& variable,
    const Options& options, absl::FunctionRef<Status(WantedRows&)> want,
    absl::FunctionRef<void(const FetchedRows&, Tensor&)> put) {
  BELAY_ASSIGN_OR_RETURN_AGREED(
      Operation operation,
      Operation::Begin(comm, verb, variable.name(), options.deadline_seconds));
  WantedRows wanted;
  const Status status = CatchBadAlloc("rows and indices", [&]() -> Status {
    BELAY_RETURN_IF_ERROR(CheckVariable(comm, variable));
    return want(wanted);
  });
  BELAY_ASSIGN_OR_RETURN_AGREED(const FetchedRows fetched,
                                FetchRows(operation, variable, status,
                                          wanted.rows, Bytes(wanted.result)));
  put(fetched, wanted.result);
  operation.CountBytes(options);
  return std::move(wanted.result);
}

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

}  // namespace

StatusOr<Tensor> SparseRead(const Comm& comm, const ShardedVariable& variable,
                            const Tensor& indices,
                            const VariableOptions& options) {
  return LookUp(
      comm, "sparse_read", variable, options,
      [&](WantedRows& wanted) -> Status {
        BELAY_ASSIGN_OR_RETURN(wanted.rows, ReadRows(variable, indices));
        BELAY_ASSIGN_OR_RETURN(wanted.result,
                               AllocateRows(variable, indices.shape()));
        return absl::OkStatus();
      },
      [&](const FetchedRows& fetched, Tensor& result) {
        CopyRows(fetched.rows, variable.RowBytes(), result.data());
      });
}

StatusOr<Tensor> EmbeddingLookup(const Comm& comm,
                                 const ShardedVariable& variable,
                                 const Tensor& ids,
                                 const LookupOptions& options) {
  return LookUp(
      comm, "embedding_lookup", variable, options,
      [&](WantedRows& wanted) -> Status {
        BELAY_RETURN_IF_ERROR(CheckLookup(variable, options));
        BELAY_ASSIGN_OR_RETURN(wanted.rows, ReadIntegers(ids, "ids"));
        BELAY_RETURN_IF_ERROR(ToRows(variable, options.strategy, wanted.rows));
        BELAY_ASSIGN_OR_RETURN(wanted.result,
                               AllocateRows(variable, ids.shape()));
        return absl::OkStatus();
      },
      [&](const FetchedRows& fetched, Tensor& result) {
        CopyRows(fetched.rows, variable.RowBytes(), result.data());
        if (options.max_norm) ClipRows(variable, *options.max_norm, result);
      });
}

// --- Sparse lookups ---

namespace {

// IdLists converted to plain numbers.
struct Lists {
  std::vector<int64_t> splits;
  std::vector<int64_t> ids;
  std::vector<double> weights;  // one per id
};

// If `is_wanted`, the lookup first removes invalid ids and puts the default id
// into empty lists.
struct Pruning {
  bool is_wanted = false;
  std::optional<int64_t> default_id;
};

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

// Returns the weights as f64, or `count` ones if `weights` is null.
StatusOr<std::vector<double>> ReadWeights(const Tensor* weights,
                                          int64_t count) {
  if (weights == nullptr) return std::vector<double>(count, 1.0);
  BELAY_RETURN_IF_ERROR(CheckVector(weights, "weights"));
  if (weights->num_elements() != count) {
    return absl::InvalidArgumentError(
        absl::StrFormat("one weight per id (need %d, found %d)", count,
                        weights->num_elements()));
  }
  return ReadValues<float, double>(*weights, "weights");
}

StatusOr<Lists> ReadLists(const IdLists& given) {
  Lists lists;
  BELAY_RETURN_IF_ERROR(CheckVector(given.row_splits, "row_splits"));
  BELAY_RETURN_IF_ERROR(CheckVector(given.ids, "ids"));
  BELAY_ASSIGN_OR_RETURN(lists.splits,
                         ReadIntegers(*given.row_splits, "row_splits"));
  BELAY_ASSIGN_OR_RETURN(lists.ids, ReadIntegers(*given.ids, "ids"));
  BELAY_RETURN_IF_ERROR(CheckSplits(lists.splits, lists.ids.size()));
  BELAY_ASSIGN_OR_RETURN(lists.weights,
                         ReadWeights(given.weights, lists.ids.size()));
  return lists;
}

// Removes ids that are negative or whose weight is not positive. Empty lists
// then get the default id, if there is one.
Lists Prune(const Lists& lists, std::optional<int64_t> default_id) {
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

std::vector<double> ComputeDivisors(const Lists& lists, Combiner combiner) {
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

// Collective.
Agreed<Tensor> LookUpLists(const Comm& comm, std::string_view verb,
                           const ShardedVariable& variable,
                           const IdLists& given, Combiner combiner,
                           const Pruning& pruning,
                           const LookupOptions& options) {
  Lists lists;
  std::vector<double> divisors;
  const auto want = [&](WantedRows& wanted) -> Status {
    if (!IsRealFloat(variable.dtype())) {
      return absl::InvalidArgumentError(
          Cat("rows are combined (need f16, bf16, f32 or f64, found ",
              DTypeName(variable.dtype()), ")"));
    }
    BELAY_RETURN_IF_ERROR(CheckLookup(variable, options));
    BELAY_ASSIGN_OR_RETURN(lists, ReadLists(given));
    if (pruning.is_wanted) lists = Prune(lists, pruning.default_id);
    wanted.rows = std::move(lists.ids);
    BELAY_RETURN_IF_ERROR(ToRows(variable, options.strategy, wanted.rows));
    divisors = ComputeDivisors(lists, combiner);
    Shape shape = variable.shape();
    shape[0] = std::ssize(lists.splits) - 1;
    BELAY_RETURN_IF_ERROR(CheckElements(variable.dtype(), shape));
    wanted.result = Tensor(variable.dtype(), shape);
    return absl::OkStatus();
  };
  return LookUp(
      comm, verb, variable, options, want,
      [&](const FetchedRows& fetched, Tensor& result) {
        const int64_t row_elements = NumElements(RowShape(variable));
        for (size_t i = 0; options.max_norm && i < lists.weights.size(); ++i) {
          lists.weights[i] *= ClipFactor(variable.dtype(), fetched.rows[i],
                                         row_elements, *options.max_norm);
        }
        CombineRows(variable.dtype(), row_elements,
                    {.splits = lists.splits,
                     .rows = fetched.rows,
                     .weights = lists.weights,
                     .divisors = divisors},
                    result.data());
      });
}

}  // namespace

StatusOr<Tensor> EmbeddingLookupSparse(const Comm& comm,
                                       const ShardedVariable& variable,
                                       const IdLists& lists, Combiner combiner,
                                       const LookupOptions& options) {
  return LookUpLists(comm, "embedding_lookup_sparse", variable, lists, combiner,
                     {}, options);
}

StatusOr<Tensor> SafeEmbeddingLookupSparse(const Comm& comm,
                                           const ShardedVariable& variable,
                                           const IdLists& lists,
                                           Combiner combiner,
                                           std::optional<int64_t> default_id,
                                           const LookupOptions& options) {
  return LookUpLists(comm, "safe_embedding_lookup_sparse", variable, lists,
                     combiner, {.is_wanted = true, .default_id = default_id},
                     options);
}

// --- Scatters ---

namespace {

// The updates of a rank, sorted by owner. A message has all rows first, for
// alignment of their elements, and then the row indices.
struct SortedRows {
  std::optional<RowFinder> finder;
  std::unique_ptr<Scratch> scratch;            // `sent` holds the messages
  std::vector<std::span<const std::byte>> to;  // per rank; empty for this rank
  std::vector<int64_t> rows;                   // of all updates
  std::vector<int64_t> kept;  // indices of `rows` that this rank owns
};

// Where to write the next row and index in the message to one owner.
struct Cursor {
  std::byte* row = nullptr;
  std::byte* index = nullptr;
};

// Sorts stably (a counting sort).
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

// Does all checks of this rank, and sorts the rows.
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
      NameStatus("rows", CheckValue(deltas, variable.dtype(), needed)));
  BELAY_RETURN_IF_ERROR(
      CheckUpdate(op, variable.dtype(), deltas.data(), deltas.num_elements()));
  SortByOwner(context, variable, deltas.data(), sorted);
  return sorted;
}

// Applies deltas in order, and prefetches a few rows ahead.
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

// Applies the deltas in rank order.
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
  BELAY_ASSIGN_OR_RETURN_AGREED(
      Operation operation,
      Operation::Begin(comm, Cat("scatter_", UpdateOpName(op)), variable.name(),
                       options.deadline_seconds));
  CommContext& context = operation.context;
  StatusOr<SortedRows> sorted = CatchBadAlloc("rows and indices", [&] {
    return Prepare(context, variable, op, indices, rows);
  });
  BELAY_ASSIGN_OR_RETURN_AGREED(
      ReceivedBytes received,
      AllToAll(context, operation.Name(sorted.status()),
               sorted.ok() ? sorted->to : decltype(sorted->to){},
               {Cat(operation.name, ": the op or the variable"),
                CombineFingerprints({VariableFingerprint(variable),
                                     1 + static_cast<uint64_t>(op)})},
               sorted.ok() ? std::move(sorted->scratch->received)
                           : ReusableBytes{}));
  ApplyAll(context, variable, op, *sorted, rows.data(), received);
  sorted->scratch->received = std::move(received.memory);
  Scratch::Of(variable) = std::move(sorted->scratch);
  operation.CountBytes(options);
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
