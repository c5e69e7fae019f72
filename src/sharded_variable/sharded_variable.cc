#include "belay/sharded_variable.h"

#include <algorithm>
#include <exception>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "belay/variable/sharded_variable_ops.h"
#include "core/agreed.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "sharded_variable/operation.h"

namespace belay {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kMostBytes = int64_t{1} << 62;  // no sum overflows

// Programs write partitioners; whatever they throw becomes an error.
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

// Allocates zeros for the components of this rank.
StatusOr<std::unique_ptr<std::byte[]>> Allocate(
    int rank, int64_t row_bytes, std::vector<Component>& components) {
  int64_t bytes = kAlignment;
  for (const Component& component : components) {
    if (component.owner != rank) continue;
    const int64_t size = component.num_rows * row_bytes;
    if (size > kMostBytes - bytes) {
      return absl::ResourceExhaustedError(absl::StrFormat(
          "no memory for components of more than %d bytes", kMostBytes));
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
  const std::string operation = OperationName("create", NameOrDefault(name));
  BELAY_RETURN_IF_AGREED(CheckComm(comm, operation));
  CommContext context = NewContext(comm, operation, options.deadline_seconds);
  StatusOr<std::vector<Component>> components =
      CatchBadAlloc("the list of components", [&] {
        return MakeComponents(comm, dtype, shape, partitioner, options.owners);
      });
  ShardedVariable variable(
      NameOrDefault(name), dtype, shape,
      components.ok() ? *components : std::vector<Component>(), nullptr);
  BELAY_RETURN_IF_AGREED(
      AgreeOnCall(context, operation, "name, dtype, shape, partition or owners",
                  components.status(), VariableFingerprint(variable)));
  StatusOr<std::unique_ptr<std::byte[]>> memory =
      Allocate(comm.rank(), variable.RowBytes(), *components);
  BELAY_RETURN_IF_AGREED(
      Agree(context, WithOperation(operation, memory.status())));
  return ShardedVariable(NameOrDefault(name), dtype, shape,
                         *std::move(components), *std::move(memory));
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
  // The last component that begins at or before the row: empty ones that begin
  // there too come earlier.
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
