#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "belay/variable/sharded_variable_ops.h"
#include "core/agreed.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "core/wire.h"
#include "mpi/collective.h"
#include "sharded_variable/operation.h"

namespace belay {
namespace {

// A component that a rank passed to JoinComponents, as all ranks know it.
struct KnownComponent {
  int rank = 0;
  int number = 0;  // in the rank's list
  DType dtype = DType::kF32;
  Shape shape;

  std::string Text() const {
    return Cat("component ", number, " of rank ", rank);
  }
};

template <typename Archive>
void Fields(Archive& archive, KnownComponent& component) {
  archive(component.rank, component.number, component.dtype, component.shape);
}

// The alignment of elements.
uint64_t Alignment(DType dtype) {
  const bool is_pair = dtype == DType::kC64 || dtype == DType::kC128;
  return DTypeSize(dtype) / (is_pair ? 2 : 1);
}

// Checks the components of this rank.
Status CheckGiven(std::span<const GivenComponent> components) {
  for (size_t i = 0; i < components.size(); ++i) {
    const GivenComponent& component = components[i];
    const auto problem = [&](const std::string& text) {
      return absl::InvalidArgumentError(Cat("component ", i, ": ", text));
    };
    const Status sound = CheckElements(component.dtype, component.shape);
    if (!sound.ok()) return problem(std::string(sound.message()));
    if (!component.slice_spec.empty()) {
      return problem(
          Cat("it is a slice of something else already (need no "
              "slice spec, found \"",
              component.slice_spec, "\")"));
    }
    if (NumElements(component.shape) == 0) continue;
    if (component.data == nullptr) return problem("the pointer is null");
    const uint64_t needed = Alignment(component.dtype);
    const uint64_t rest = reinterpret_cast<uintptr_t>(component.data) % needed;
    if (rest != 0) {
      return problem(
          Cat("the elements are not aligned (need an address that "
              "is a multiple of ",
              needed, ", found ", rest, " more)"));
    }
  }
  return absl::OkStatus();
}

// Checks that the components of all ranks make one variable.
Status CheckAlike(const std::vector<KnownComponent>& known, int ranks) {
  if (known.empty()) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "need a non-empty list of components, found none on %d ranks", ranks));
  }
  const KnownComponent& first = known[0];
  int64_t rows = 0;
  for (const KnownComponent& other : known) {
    if (other.dtype != first.dtype) {
      return absl::InvalidArgumentError(
          Cat("components need the same dtype (", first.Text(), " has ",
              DTypeName(first.dtype), ", ", other.Text(), " has ",
              DTypeName(other.dtype), ")"));
    }
    if (!std::equal(first.shape.begin() + 1, first.shape.end(),
                    other.shape.begin() + 1, other.shape.end())) {
      return absl::InvalidArgumentError(
          Cat("components need the same shapes except for axis 0 (",
              first.Text(), " has ", ShapeText(first.shape), ", ", other.Text(),
              " has ", ShapeText(other.shape), ")"));
    }
    if (other.shape[0] > INT64_MAX - rows) {
      return absl::InvalidArgumentError("more than 2^63 - 1 rows");
    }
    rows += other.shape[0];
  }
  Shape shape = first.shape;
  shape[0] = rows;
  return CheckElements(first.dtype, shape);
}

ShardedVariable Stack(const std::string& name, int rank,
                      const std::vector<KnownComponent>& known,
                      std::span<const GivenComponent> mine) {
  std::vector<Component> components;
  int64_t rows = 0;
  for (const KnownComponent& one : known) {
    Component& component = components.emplace_back();
    component = {
        .first_row = rows, .num_rows = one.shape[0], .owner = one.rank};
    if (one.rank == rank && NumElements(one.shape) > 0) {
      component.data = static_cast<std::byte*>(mine[one.number].data);
    }
    rows += one.shape[0];
  }
  Shape shape = known[0].shape;
  shape[0] = rows;
  return ShardedVariable(name, known[0].dtype, shape, std::move(components),
                         nullptr);
}

}  // namespace

StatusOr<ShardedVariable> JoinComponents(
    const Comm& comm, const std::string& name,
    std::span<const GivenComponent> components,
    const VariableOptions& options) {
  const std::string operation = OperationName("join", NameOrDefault(name));
  BELAY_RETURN_IF_AGREED(CheckComm(comm, operation));
  CommContext context = NewContext(comm, operation, options.deadline_seconds);
  const StatusOr<std::string> mine =
      CatchBadAlloc("the list of components", [&]() -> StatusOr<std::string> {
        BELAY_RETURN_IF_ERROR(CheckGiven(components));
        std::vector<KnownComponent> known;
        for (const GivenComponent& one : components) {
          known.push_back({.rank = comm.rank(),
                           .number = static_cast<int>(known.size()),
                           .dtype = one.dtype,
                           .shape = one.shape});
        }
        return Encode(known);
      });
  BELAY_RETURN_IF_AGREED(AgreeOnCall(context, operation, "the name",
                                     mine.status(),
                                     Fingerprint(NameOrDefault(name))));
  BELAY_ASSIGN_OR_RETURN_AGREED(const std::vector<std::string> all_ranks,
                                AllGather(context, *mine));
  StatusOr<ShardedVariable> joined = CatchBadAlloc(
      "the list of components", [&]() -> StatusOr<ShardedVariable> {
        std::vector<KnownComponent> known;
        for (const std::string& bytes : all_ranks) {
          const auto some = Decode<std::vector<KnownComponent>>(bytes).value();
          known.insert(known.end(), some.begin(), some.end());
        }
        BELAY_RETURN_IF_ERROR(CheckAlike(known, comm.size()));
        return Stack(NameOrDefault(name), comm.rank(), known, components);
      });
  BELAY_RETURN_IF_AGREED(
      Agree(context, WithOperation(operation, joined.status())));
  return joined;
}

// --- Read ---

namespace {

// One read on one rank. The rows of the result that a component has are
// neighbours, in the order of the components. So a part that is dense in its
// component needs no buffer on either side.
struct ReadRun {
  const ShardedVariable& variable;
  int rank;
  int to;
  Selection selection;
  // In the order of the result: reversed if the index has a negative step.
  std::vector<const Component*> components;
  // The rows that this rank sends, unless they are dense in their components.
  std::unique_ptr<std::byte[]> packed;
  std::vector<GatherPart> parts;  // without targets

  bool gets_result() const { return to == kEveryRank || to == rank; }
};

// True if rows lie in a component as they lie in the result.
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

// Lists what each component contributes. Packed neighbours on one rank are one
// part, as they are neighbours in the buffer too.
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

// The part of a read that can fail on this rank alone.
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

// Fills the memory that `make_result` returns for the shape of the result, on
// the ranks that get it. Collective; agreed.
Agreed<> ReadRows(
    const Comm& comm, const ShardedVariable& variable, const Index& index,
    int to, const VariableOptions& options,
    absl::FunctionRef<StatusOr<std::byte*>(const Shape&)> make_result) {
  const std::string operation = OperationName("read", variable.name());
  BELAY_RETURN_IF_AGREED(CheckComm(comm, operation));
  CommContext context = NewContext(comm, operation, options.deadline_seconds);
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
      CombineFingerprints(VariableFingerprint(variable),
                          static_cast<uint64_t>(to)),
      status.ok() ? SelectionFingerprint(run.selection) : 0);
  BELAY_RETURN_IF_AGREED(AgreeOnCall(context, operation,
                                     "the variable, the index or the target",
                                     status, fingerprint));
  Agreed<> gathered = GatherParts(context, run.parts, to);
  CountBytes(context, options);
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
  const std::string operation = OperationName("convert", variable.name());
  BELAY_RETURN_IF_AGREED(CheckComm(comm, operation));
  Status status;
  if (dtype.has_value() && *dtype != variable.dtype()) {
    status = absl::InvalidArgumentError(
        Cat("incompatible type conversion (need ", DTypeName(variable.dtype()),
            ", found ", DTypeName(*dtype), ")"));
  }
  CommContext context = NewContext(comm, operation, options.deadline_seconds);
  BELAY_RETURN_IF_AGREED(Agree(context, WithOperation(operation, status)));
  return Read(comm, variable, {}, kEveryRank, options);
}

}  // namespace belay
