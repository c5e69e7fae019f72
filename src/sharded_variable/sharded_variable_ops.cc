#include "belay/variable/sharded_variable_ops.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_format.h"
#include "core/agreed.h"
#include "core/status_macros.h"
#include "core/strided_copy.h"
#include "core/text.h"
#include "core/wire.h"
#include "mpi/all_to_all.h"
#include "mpi/collective.h"
#include "plan/coverage.h"
#include "sharded_variable/operation.h"
#include "sharded_variable/update.h"

namespace belay {

// --- Read ---

namespace {

// One read on one rank. The rows of the result that come from a component are
// contiguous, and follow the order of the components. So a part that is dense
// in its component needs no buffer on either side.
struct ReadRun {
  const ShardedVariable& variable;
  int rank;
  int to;
  Selection selection;
  // In result order: reversed if the index has a negative step.
  std::vector<const Component*> components;
  // The rows that this rank sends, unless they are dense in their components.
  std::unique_ptr<std::byte[]> packed;
  std::vector<GatherPart> parts;  // without targets

  bool gets_result() const { return to == kEveryRank || to == rank; }
};

// Returns true if selected rows are laid out in a component as in the result.
bool IsDense(const Selection& selection) {
  if (selection.num_masked_axes > 0 || selection.axes[0].step != 1) {
    return false;
  }
  for (size_t axis = 1; axis < selection.axes.size(); ++axis) {
    const AxisRange& range = selection.axes[axis];
    const int64_t length = selection.source_shape[axis];
    if (range.step != 1 || range.count != length) return false;
  }
  return true;
}

int64_t SelectedRowBytes(const ReadRun& run) {
  return RowElements(run.selection) * DTypeSize(run.variable.dtype());
}

RowPart FindPart(const ReadRun& run, const Component& component) {
  return RowsWithin(run.selection, component.first_row,
                    component.first_row + component.num_rows);
}

// Lists what each component contributes. Adjacent packed parts of one rank are
// merged, because they are also adjacent in the buffer.
void ListParts(bool dense, ReadRun& run) {
  for (const Component& component : run.variable) {
    run.components.push_back(&component);
  }
  if (run.selection.axes[0].step < 0) std::ranges::reverse(run.components);
  const int64_t row_bytes = SelectedRowBytes(run);
  int64_t packed_bytes = 0;
  for (const Component* component : run.components) {
    const RowPart rows = FindPart(run, *component);
    const int64_t bytes = rows.count * row_bytes;
    if (bytes == 0) continue;
    GatherPart part{.rank = component->owner, .bytes = bytes};
    if (component->owner == run.rank && dense) {
      const int64_t row = RowPosition(run.selection, rows.first);
      part.source = component->data +
                    (row - component->first_row) * run.variable.RowBytes();
    } else if (component->owner == run.rank) {
      packed_bytes += bytes;
    }
    if (!dense && !run.parts.empty() && run.parts.back().rank == part.rank) {
      run.parts.back().bytes += bytes;
    } else {
      run.parts.push_back(part);
    }
  }
  if (packed_bytes == 0) return;
  run.packed = std::make_unique_for_overwrite<std::byte[]>(packed_bytes);
  const std::byte* next = run.packed.get();
  for (GatherPart& part : run.parts) {
    if (part.rank != run.rank) continue;
    part.source = next;
    next += part.bytes;
  }
}

void Pack(ReadRun& run) {
  std::byte* next = run.packed.get();
  const int64_t row_bytes = SelectedRowBytes(run);
  for (const Component* component : run.components) {
    const RowPart rows = FindPart(run, *component);
    if (component->owner != run.rank || rows.count * row_bytes == 0) continue;
    CopySelected(run.selection, DTypeSize(run.variable.dtype()),
                 component->first_row, rows, component->data, next);
    next += rows.count * row_bytes;
  }
}

// Does the steps of a read that may fail on this rank only.
Status Prepare(const Comm& comm, const Index& index, ReadRun& run) {
  BELAY_RETURN_IF_ERROR(CheckVariable(comm, run.variable));
  if (run.to != kEveryRank && (run.to < 0 || run.to >= comm.size())) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "the result goes to no rank (need %d for every rank or 0 to %d, "
        "found %d)",
        kEveryRank, comm.size() - 1, run.to));
  }
  BELAY_ASSIGN_OR_RETURN(run.selection, Select(run.variable.shape(), index));
  const bool dense = IsDense(run.selection);
  ListParts(dense, run);
  if (!dense) Pack(run);
  return absl::OkStatus();
}

// Reads into the memory that `make_result` returns for the shape of the result,
// on the ranks that get the result. Collective; agreed.
Agreed<> ReadRows(
    const Comm& comm, const ShardedVariable& variable, const Index& index,
    int to, const VariableOptions& options,
    absl::FunctionRef<StatusOr<std::byte*>(const Shape&)> make_result) {
  BELAY_ASSIGN_OR_RETURN_AGREED(Operation operation,
                                Operation::Begin(comm, "read", variable.name(),
                                                 options.deadline_seconds));
  ReadRun run{.variable = variable, .rank = comm.rank(), .to = to};
  Status status = CatchBadAlloc("the rows to send",
                                [&] { return Prepare(comm, index, run); });
  if (status.ok() && run.gets_result()) {
    const StatusOr<std::byte*> result = make_result(run.selection.result_shape);
    status = result.status();
    if (result.ok()) {
      std::byte* next = *result;
      for (GatherPart& part : run.parts) {
        part.target = std::exchange(next, next + part.bytes);
      }
    }
  }
  const uint64_t fingerprint = CombineFingerprints(
      {VariableFingerprint(variable), static_cast<uint64_t>(to),
       status.ok() ? SelectionFingerprint(run.selection) : 0});
  BELAY_RETURN_IF_AGREED(operation.AgreeOnCall(
      "the variable, the index or the target", status, fingerprint));
  Agreed<> gathered = GatherParts(operation.context, run.parts, to);
  operation.CountBytes(options);
  return gathered;
}

}  // namespace

StatusOr<Tensor> Read(const Comm& comm, const ShardedVariable& variable,
                      const Index& index, int to,
                      const VariableOptions& options) {
  Tensor result;
  BELAY_RETURN_IF_AGREED(ReadRows(
      comm, variable, index, to, options,
      [&](const Shape& shape) -> StatusOr<std::byte*> {
        BELAY_ASSIGN_OR_RETURN(
            result, CatchBadAlloc("the result", [&]() -> StatusOr<Tensor> {
              return Tensor(variable.dtype(), shape);
            }));
        return result.data();
      }));
  return result;
}

Status Read(const Comm& comm, const ShardedVariable& variable,
            const Index& index, Tensor& result, int to,
            const VariableOptions& options) {
  return ReadRows(
      comm, variable, index, to, options,
      [&](const Shape& shape) -> StatusOr<std::byte*> {
        BELAY_RETURN_IF_ERROR(CheckValue(result, variable.dtype(), shape));
        return result.data();
      });
}

StatusOr<Tensor> ToTensor(const Comm& comm, const ShardedVariable& variable,
                          std::optional<DType> dtype,
                          const VariableOptions& options) {
  Status status;
  if (dtype.has_value() && *dtype != variable.dtype()) {
    status = absl::InvalidArgumentError(
        Cat("incompatible type conversion (need ", DTypeName(variable.dtype()),
            ", found ", DTypeName(*dtype), ")"));
  }
  BELAY_ASSIGN_OR_RETURN_AGREED(
      Operation operation, Operation::Begin(comm, "convert", variable.name(),
                                            options.deadline_seconds));
  BELAY_RETURN_IF_AGREED(operation.Agree(status));
  return Read(comm, variable, {}, kEveryRank, options);
}

// --- Assign pieces ---

namespace {

// One AssignPieces on one rank.
struct PiecesRun {
  const ShardedVariable& variable;
  UpdateOp op;
  int rank;
  std::span<const VariablePiece> mine;
  std::vector<std::vector<Box>> boxes;  // per rank
  std::unique_ptr<std::byte[]> sent;
  std::unique_ptr<std::byte[]> received;
  std::vector<std::span<const std::byte>> to;
  std::vector<std::span<std::byte>> from;
};

// Calls visit(component, part) for every component that overlaps `box`.
void ForEachOverlap(
    const ShardedVariable& variable, const Box& box,
    absl::FunctionRef<void(const Component&, const Box&)> visit) {
  if (IsEmpty(box)) return;
  const std::vector<Component>& components = variable.components();
  const int64_t end = box.offset[0] + box.shape[0];
  for (size_t i = variable.FindComponent(box.offset[0]);
       i < components.size() && components[i].first_row < end; ++i) {
    const std::optional<Box> part =
        Intersect(box, variable.ComponentBox(components[i]));
    if (part.has_value()) visit(components[i], *part);
  }
}

Status CheckPieces(const Comm& comm, const PiecesRun& run) {
  BELAY_RETURN_IF_ERROR(CheckVariable(comm, run.variable));
  for (const VariablePiece& piece : run.mine) {
    const auto check = [&]() -> Status {
      BELAY_RETURN_IF_ERROR(CheckBox(piece.box, run.variable.shape()));
      if (piece.values == nullptr) {
        return absl::InvalidArgumentError("the values are null");
      }
      BELAY_RETURN_IF_ERROR(
          CheckValue(*piece.values, run.variable.dtype(), piece.box.shape));
      return CheckUpdate(run.op, run.variable.dtype(), piece.values->data(),
                         piece.values->num_elements());
    };
    BELAY_RETURN_IF_ERROR(
        NameStatus(Cat("piece \"", BoxText(piece.box), "\""), check()));
  }
  return absl::OkStatus();
}

// Exchanges the boxes of all ranks. Collective; agreed.
Agreed<> ShareBoxes(CommContext& context, PiecesRun& run) {
  std::vector<Box> mine;
  for (const VariablePiece& piece : run.mine) mine.push_back(piece.box);
  BELAY_ASSIGN_OR_RETURN_AGREED(const std::vector<std::string> all,
                                AllGather(context, Encode(mine)));
  for (const std::string& bytes : all) {
    run.boxes.push_back(Decode<std::vector<Box>>(bytes).value());
  }
  return {};
}

// Checks that the pieces tile the variable.
Status CheckTiling(const PiecesRun& run) {
  std::deque<ShardInfo> infos;
  std::vector<HeldShard> held;
  for (size_t rank = 0; rank < run.boxes.size(); ++rank) {
    for (const Box& box : run.boxes[rank]) {
      infos.push_back({.key = run.variable.name(),
                       .dtype = run.variable.dtype(),
                       .global_shape = run.variable.shape(),
                       .box = box});
      held.push_back({.rank = static_cast<int32_t>(rank),
                      .shard = 0,
                      .info = &infos.back()});
    }
  }
  if (infos.empty() && NumElements(run.variable.shape()) > 0) {
    return absl::InvalidArgumentError(
        Cat("no rank passed a piece (need pieces that tile shape ",
            ShapeText(run.variable.shape()), ", found none)"));
  }
  return held.empty() ? absl::OkStatus() : CheckCoverage(held).status();
}

int64_t Bytes(const PiecesRun& run, const Box& box) {
  return NumElements(box.shape) * DTypeSize(run.variable.dtype());
}

// Allocates the messages to and from all other ranks.
void Reserve(PiecesRun& run) {
  const size_t size = run.boxes.size();
  std::vector<int64_t> to(size, 0);
  std::vector<int64_t> from(size, 0);
  int64_t sent = 0;
  int64_t received = 0;
  for (size_t rank = 0; rank < size; ++rank) {
    const bool is_mine = static_cast<int>(rank) == run.rank;
    for (const Box& box : run.boxes[rank]) {
      ForEachOverlap(run.variable, box,
                     [&](const Component& component, const Box& part) {
                       const int64_t bytes = Bytes(run, part);
                       if (is_mine && component.owner != run.rank) {
                         to[component.owner] += bytes;
                         sent += bytes;
                       } else if (!is_mine && component.owner == run.rank) {
                         from[rank] += bytes;
                         received += bytes;
                       }
                     });
    }
  }
  run.sent = std::make_unique_for_overwrite<std::byte[]>(sent);
  run.received = std::make_unique_for_overwrite<std::byte[]>(received);
  std::byte* next_sent = run.sent.get();
  std::byte* next_received = run.received.get();
  for (size_t rank = 0; rank < size; ++rank) {
    run.to.emplace_back(next_sent, to[rank]);
    run.from.emplace_back(next_received, from[rank]);
    next_sent += to[rank];
    next_received += from[rank];
  }
}

// Copies the parts into the message to each rank, in the order of the pieces.
void Pack(PiecesRun& run) {
  std::vector<std::byte*> next;
  for (std::span<const std::byte> bytes : run.to) {
    next.push_back(run.sent.get() + (bytes.data() - run.sent.get()));
  }
  const int64_t size = DTypeSize(run.variable.dtype());
  for (const VariablePiece& piece : run.mine) {
    ForEachOverlap(run.variable, piece.box,
                   [&](const Component& component, const Box& part) {
                     if (component.owner == run.rank) return;
                     std::byte*& target = next[component.owner];
                     ForEachRun(
                         part, piece.box, part, [&](const ElementRun& copied) {
                           std::memcpy(target + copied.b * size,
                                       piece.values->data() + copied.a * size,
                                       copied.length * size);
                         });
                     target += Bytes(run, part);
                   });
  }
}

// Applies the elements of `part`. `values` has the elements of the box `held`.
void Apply(const PiecesRun& run, const Component& component, const Box& part,
           const Box& held, const std::byte* values) {
  const int64_t size = DTypeSize(run.variable.dtype());
  ForEachRun(part, run.variable.ComponentBox(component), held,
             [&](const ElementRun& applied) {
               UpdateCheckedElements(run.op, run.variable.dtype(),
                                     component.data + applied.a * size,
                                     values + applied.b * size, applied.length);
             });
}

void ApplyAll(const PiecesRun& run) {
  for (const VariablePiece& piece : run.mine) {
    ForEachOverlap(run.variable, piece.box,
                   [&](const Component& component, const Box& part) {
                     if (component.owner != run.rank) return;
                     Apply(run, component, part, piece.box,
                           piece.values->data());
                   });
  }
  for (size_t rank = 0; rank < run.boxes.size(); ++rank) {
    if (static_cast<int>(rank) == run.rank) continue;
    const std::byte* next = run.from[rank].data();
    for (const Box& box : run.boxes[rank]) {
      ForEachOverlap(run.variable, box,
                     [&](const Component& component, const Box& part) {
                       if (component.owner != run.rank) return;
                       Apply(run, component, part, part, next);
                       next += Bytes(run, part);
                     });
    }
  }
}

}  // namespace

Status AssignPieces(const Comm& comm, ShardedVariable& variable, UpdateOp op,
                    std::span<const VariablePiece> pieces,
                    const VariableOptions& options) {
  BELAY_ASSIGN_OR_RETURN_AGREED(
      Operation operation,
      Operation::Begin(comm, "assign pieces", variable.name(),
                       options.deadline_seconds));
  PiecesRun run{
      .variable = variable, .op = op, .rank = comm.rank(), .mine = pieces};
  BELAY_RETURN_IF_AGREED(
      operation.AgreeOnCall("the variable or the op", CheckPieces(comm, run),
                            CombineFingerprints({VariableFingerprint(variable),
                                                 static_cast<uint64_t>(op)})));
  BELAY_RETURN_IF_AGREED(ShareBoxes(operation.context, run));
  BELAY_RETURN_IF_AGREED(OnRoot(operation.context, [&] {
    return operation.Name(
        CatchBadAlloc("boxes of pieces", [&] { return CheckTiling(run); }));
  }));
  const Status packed = CatchBadAlloc("pieces on their way", [&] {
    Reserve(run);
    Pack(run);
    return absl::OkStatus();
  });
  BELAY_RETURN_IF_AGREED(operation.Agree(packed));
  operation.context.bytes_sent = 0;  // do not count the boxes
  BELAY_RETURN_IF_AGREED(ExchangeBytes(operation.context, run.to, run.from));
  operation.CountBytes(options);
  ApplyAll(run);
  return absl::OkStatus();
}

// --- Assign ---

namespace {

// The rows of a broadcast value for one component of this rank.
struct ComponentRows {
  const Component* component;
  RowPart rows;
  Tensor values;
};

struct SliceAssignment {
  Selection selection;
  std::vector<ComponentRows> mine;
};

// Does everything that can fail.
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
  BELAY_ASSIGN_OR_RETURN_AGREED(
      Operation operation, Operation::Begin(comm, "assign", variable.name(),
                                            options.deadline_seconds));
  Status checked = CheckVariable(comm, variable);
  checked.Update(CheckValue(value, variable.dtype(), variable.shape()));
  if (checked.ok()) {
    checked =
        CheckUpdate(op, value.dtype(), value.data(), value.num_elements());
  }
  const uint64_t fingerprint = CombineFingerprints(
      {VariableFingerprint(variable), static_cast<uint64_t>(op),
       checked.ok() ? TensorFingerprint(value) : 0});
  BELAY_RETURN_IF_AGREED(operation.AgreeOnCall(
      "the variable, the op or the value", checked, fingerprint));
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
  BELAY_ASSIGN_OR_RETURN_AGREED(
      Operation operation,
      Operation::Begin(comm, "assign slice", variable.name(),
                       options.deadline_seconds));
  StatusOr<SliceAssignment> slice = CatchBadAlloc("the rows to assign", [&] {
    return PrepareSlice(comm, variable, index, value);
  });
  uint64_t fingerprint = VariableFingerprint(variable);
  if (slice.ok()) {
    fingerprint = CombineFingerprints({fingerprint,
                                       SelectionFingerprint(slice->selection),
                                       TensorFingerprint(value)});
  }
  BELAY_RETURN_IF_AGREED(operation.AgreeOnCall(
      "the variable, the index or the value", slice.status(), fingerprint));
  for (const ComponentRows& one : slice->mine) {
    ScatterSelected(slice->selection, DTypeSize(variable.dtype()),
                    one.component->first_row, one.rows, one.values.data(),
                    one.component->data);
  }
  return absl::OkStatus();
}

}  // namespace belay
