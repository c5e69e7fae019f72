#include "belay/sharded_variable.h"

#include <algorithm>
#include <exception>
#include <memory>
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

constexpr int64_t kAlignment = 64;
constexpr int64_t kMaxBytes = int64_t{1} << 62;  // sums cannot overflow

// Partitioners may be user code: any exception becomes an error.
StatusOr<Shape> CallPartitioner(const Partitioner& partitioner, DType dtype,
                                const Shape& shape) {
  if (partitioner == nullptr) {
    return absl::InvalidArgumentError("the partitioner has no function");
  }
  try {
    return partitioner(shape, dtype, /*axis=*/0);
  } catch (const std::exception& error) {
    return absl::InternalError(Cat("the partitioner threw: ", error.what()));
  } catch (...) {
    return absl::InternalError("the partitioner threw no std::exception");
  }
}

Status CheckParts(const Shape& shape, const Shape& parts) {
  for (size_t axis = 1; axis < parts.size() && axis < shape.size(); ++axis) {
    if (parts[axis] == 1) continue;
    return absl::InvalidArgumentError(
        absl::StrFormat("the partitioner cuts axis %d (need parts on axis 0 "
                        "only, found %s)",
                        axis, ShapeText(parts)));
  }
  return absl::OkStatus();
}

Status CheckOwners(const std::vector<int>& owners, size_t components,
                   int size) {
  if (owners.empty()) return absl::OkStatus();
  if (owners.size() != components) {
    return absl::InvalidArgumentError(
        absl::StrFormat("one owner for each component (need %d, found %d)",
                        components, owners.size()));
  }
  for (int owner : owners) {
    if (owner >= 0 && owner < size) continue;
    return absl::InvalidArgumentError(absl::StrFormat(
        "an owner is not a rank (need 0 to %d, found %d)", size - 1, owner));
  }
  return absl::OkStatus();
}

StatusOr<std::vector<Component>> MakeComponents(
    const Comm& comm, DType dtype, const Shape& shape,
    const Partitioner& partitioner, const std::vector<int>& owners) {
  BELAY_RETURN_IF_ERROR(CheckElements(dtype, shape));
  BELAY_ASSIGN_OR_RETURN(const Shape parts,
                         CallPartitioner(partitioner, dtype, shape));
  BELAY_RETURN_IF_ERROR(CheckParts(shape, parts));
  BELAY_ASSIGN_OR_RETURN(const std::vector<Box> boxes,
                         PartitionBoxes(shape, parts));
  BELAY_RETURN_IF_ERROR(CheckOwners(owners, boxes.size(), comm.size()));
  std::vector<Component> components;
  const auto count = static_cast<int64_t>(boxes.size());
  for (int64_t i = 0; i < count; ++i) {
    components.push_back(
        {.first_row = boxes[i].offset[0],
         .num_rows = boxes[i].shape[0],
         .owner = owners.empty() ? static_cast<int>(i * comm.size() / count)
                                 : owners[i]});
  }
  return components;
}

int64_t AlignUp(int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// Allocates zeroed memory for the components of this rank.
StatusOr<std::unique_ptr<std::byte[]>> Allocate(
    int rank, int64_t row_bytes, std::vector<Component>& components) {
  int64_t bytes = kAlignment;
  for (const Component& component : components) {
    if (component.owner != rank) continue;
    const int64_t size = component.num_rows * row_bytes;
    if (size > kMaxBytes - bytes) {
      return absl::ResourceExhaustedError(absl::StrFormat(
          "no memory for components of more than %d bytes", kMaxBytes));
    }
    bytes += AlignUp(size);
  }
  StatusOr<std::unique_ptr<std::byte[]>> memory =
      CatchBadAlloc(absl::StrFormat("components of %d bytes", bytes),
                    [&]() -> StatusOr<std::unique_ptr<std::byte[]>> {
                      return std::make_unique<std::byte[]>(bytes);
                    });
  BELAY_RETURN_IF_ERROR(memory.status());
  void* start = memory->get();
  size_t space = bytes;
  auto* next = static_cast<std::byte*>(std::align(kAlignment, 0, start, space));
  for (Component& component : components) {
    const int64_t size = component.num_rows * row_bytes;
    if (component.owner != rank || size == 0) continue;
    component.data = next;
    next += AlignUp(size);
  }
  return memory;
}

}  // namespace

StatusOr<ShardedVariable> CreateShardedVariable(const Comm& comm,
                                                const std::string& name,
                                                DType dtype, const Shape& shape,
                                                const Partitioner& partitioner,
                                                const CreateOptions& options) {
  BELAY_ASSIGN_OR_RETURN_AGREED(
      Operation operation, Operation::Begin(comm, "create", NameOrDefault(name),
                                            options.deadline_seconds));
  StatusOr<std::vector<Component>> components =
      CatchBadAlloc("the list of components", [&] {
        return MakeComponents(comm, dtype, shape, partitioner, options.owners);
      });
  ShardedVariable variable(
      NameOrDefault(name), dtype, shape,
      components.ok() ? *components : std::vector<Component>(), nullptr);
  BELAY_RETURN_IF_AGREED(operation.AgreeOnCall(
      "name, dtype, shape, partition or owners", components.status(),
      VariableFingerprint(variable)));
  StatusOr<std::unique_ptr<std::byte[]>> memory =
      Allocate(comm.rank(), variable.RowBytes(), *components);
  BELAY_RETURN_IF_AGREED(operation.Agree(memory.status()));
  return ShardedVariable(NameOrDefault(name), dtype, shape,
                         *std::move(components), *std::move(memory));
}

// --- Join ---

namespace {

// What all ranks know about a component that a rank passed to JoinComponents.
struct KnownComponent {
  int rank = 0;
  int number = 0;  // index in the rank's list
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

// Returns the alignment of elements.
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

// Checks that the components of all ranks fit together as one variable.
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
  BELAY_ASSIGN_OR_RETURN_AGREED(
      Operation operation, Operation::Begin(comm, "join", NameOrDefault(name),
                                            options.deadline_seconds));
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
  BELAY_RETURN_IF_AGREED(operation.AgreeOnCall(
      "the name", mine.status(), Fingerprint(NameOrDefault(name))));
  BELAY_ASSIGN_OR_RETURN_AGREED(const std::vector<std::string> all_ranks,
                                AllGather(operation.context, *mine));
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
  BELAY_RETURN_IF_AGREED(operation.Agree(joined.status()));
  return joined;
}

// --- Sharded variable ---

ShardedVariable::ShardedVariable() = default;
ShardedVariable::ShardedVariable(std::string name, DType dtype, Shape shape,
                                 std::vector<Component> components,
                                 std::unique_ptr<std::byte[]> memory)
    : name_(std::move(name)),
      dtype_(dtype),
      shape_(std::move(shape)),
      components_(std::move(components)),
      memory_(std::move(memory)) {}
ShardedVariable::ShardedVariable(ShardedVariable&&) noexcept = default;
ShardedVariable& ShardedVariable::operator=(ShardedVariable&&) noexcept =
    default;
ShardedVariable::~ShardedVariable() = default;

std::string SpecText(const ShardedVariableSpec& spec) {
  std::string text(DTypeName(spec.dtype));
  for (const Shape& shape : spec.component_shapes) {
    text += Cat(" ", ShapeText(shape));
  }
  return text;
}

Box ShardedVariable::ComponentBox(const Component& component) const {
  Box box = WholeBox(shape_);
  box.offset[0] = component.first_row;
  box.shape[0] = component.num_rows;
  return box;
}

std::vector<Shape> ShardedVariable::Offsets() const {
  std::vector<Shape> offsets;
  for (const Component& component : components_) {
    offsets.push_back(ComponentBox(component).offset);
  }
  return offsets;
}

int64_t ShardedVariable::RowBytes() const {
  if (shape_.empty()) return 0;
  return NumElements(Shape(shape_.begin() + 1, shape_.end())) *
         DTypeSize(dtype_);
}

int ShardedVariable::FindComponent(int64_t row) const {
  // Finds the last component that begins at or before the row. Empty components
  // that begin at the same row precede it.
  const auto next = std::upper_bound(
      components_.begin(), components_.end(), row,
      [](int64_t r, const Component& c) { return r < c.first_row; });
  return static_cast<int>(next - components_.begin()) - 1;
}

ShardedVariableSpec ShardedVariable::Spec() const {
  ShardedVariableSpec spec{.dtype = dtype_, .component_shapes = {}};
  for (const Component& component : components_) {
    spec.component_shapes.push_back(ComponentBox(component).shape);
  }
  return spec;
}

}  // namespace belay
