#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "belay/variable/sharded_variable_ops.h"
#include "bytes/fingerprint.h"
#include "bytes/wire.h"
#include "mpi/all_gather.h"
#include "variable/operation.h"

namespace belay {
namespace {

// A given component, as all ranks know it.
struct KnownComponent {
  int rank = 0;
  int number = 0;  // in the rank's list
  DType dtype = DType::kF32;
  Shape shape;
  std::string slice_spec;

  std::string Text() const {
    return Cat("component ", number, " of rank ", rank);
  }
};

std::string EncodeGiven(std::span<const GivenComponent> components) {
  WireWriter out;
  for (const GivenComponent& component : components) {
    out.Put(component.dtype);
    out.PutShape(component.shape);
    out.PutText(component.slice_spec);
  }
  return out.Take();
}

std::vector<KnownComponent> DecodeGiven(
    const std::vector<std::string>& all_ranks) {
  std::vector<KnownComponent> known;
  for (size_t rank = 0; rank < all_ranks.size(); ++rank) {
    WireReader in(all_ranks[rank]);
    for (int number = 0; !in.done(); ++number) {
      KnownComponent& component = known.emplace_back();
      component.rank = static_cast<int>(rank);
      component.number = number;
      component.dtype = in.Get<DType>();
      component.shape = in.GetShape();
      component.slice_spec = in.GetText();
    }
  }
  return known;
}

// What the address of an element has to be a multiple of.
uint64_t Alignment(DType dtype) {
  const bool is_pair = dtype == DType::kC64 || dtype == DType::kC128;
  return DTypeSize(dtype) / (is_pair ? 2 : 1);
}

// What a rank can tell of its own components.
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

// What only all of them together can tell.
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
        return EncodeGiven(components);
      });
  BELAY_RETURN_IF_AGREED(AgreeOnCall(context, operation, "the name",
                                     mine.status(),
                                     Fingerprint(NameOrDefault(name))));
  BELAY_ASSIGN_OR_RETURN_AGREED(const std::vector<std::string> all_ranks,
                                AllGather(context, *mine));
  StatusOr<ShardedVariable> joined = CatchBadAlloc(
      "the list of components", [&]() -> StatusOr<ShardedVariable> {
        const std::vector<KnownComponent> known = DecodeGiven(all_ranks);
        BELAY_RETURN_IF_ERROR(CheckAlike(known, comm.size()));
        return Stack(NameOrDefault(name), comm.rank(), known, components);
      });
  BELAY_RETURN_IF_AGREED(
      Agree(context, WithOperation(operation, joined.status())));
  return joined;
}

}  // namespace belay
