#include "sharded_variable/operation.h"

#include "absl/strings/str_format.h"
#include "core/agreed.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "core/wire.h"
#include "mpi/collective.h"

namespace belay {
namespace {

constexpr int64_t kRangesPerComponent = 8;
constexpr size_t kMaxAxes = 32;  // the limit of HDF5

}  // namespace

Shape RowShape(const ShardedVariable& variable) {
  return Shape(variable.shape().begin() + 1, variable.shape().end());
}

Status CheckRows(const ShardedVariable& variable,
                 const std::vector<int64_t>& rows) {
  const uint64_t num_rows = variable.shape()[0];
  for (size_t i = 0; i < rows.size(); ++i) {
    if (static_cast<uint64_t>(rows[i]) < num_rows) continue;
    if (num_rows == 0) {
      return absl::OutOfRangeError(absl::StrFormat(
          "indices[%d] is not a row: there are none (found %d)", i, rows[i]));
    }
    return absl::OutOfRangeError(absl::StrFormat(
        "indices[%d] is not one of the %d rows (need 0 to %d, found %d)", i,
        num_rows, variable.shape()[0] - 1, rows[i]));
  }
  return absl::OkStatus();
}

StatusOr<std::vector<int64_t>> ReadRows(const ShardedVariable& variable,
                                        const Tensor& indices) {
  if (indices.shape().size() != 1) {
    return absl::InvalidArgumentError(Cat("indices must be 1D (need 1 axis, ",
                                          "found shape ",
                                          ShapeText(indices.shape()), ")"));
  }
  BELAY_ASSIGN_OR_RETURN(std::vector<int64_t> rows,
                         ReadIntegers(indices, "indices"));
  BELAY_RETURN_IF_ERROR(CheckRows(variable, rows));
  return rows;
}

RowFinder::RowFinder(const ShardedVariable& variable)
    : components_(variable.components().data()),
      row_bytes_(variable.RowBytes()) {
  const int64_t num_rows = variable.shape()[0];
  const int64_t most = kRangesPerComponent * variable.components().size();
  while ((num_rows >> shift_) > most) ++shift_;
  // The loop counts ranges and not rows: a range may end beyond 2^63 - 1.
  const int64_t ranges = num_rows == 0 ? 0 : ((num_rows - 1) >> shift_) + 1;
  for (int64_t range = 0; range < ranges; ++range) {
    first_.push_back(variable.FindComponent(range << shift_));
  }
  first_.push_back(static_cast<int32_t>(variable.components().size()) - 1);
}

std::string NameOrDefault(const std::string& name) {
  return name.empty() ? "ShardedVariable" : name;
}

Agreed<Operation> Operation::Begin(const Comm& comm, std::string_view verb,
                                   std::string_view variable,
                                   double deadline_seconds) {
  const std::string name = Cat(verb, " \"", variable, "\"");
  if (comm.raw() == MPI_COMM_NULL) {
    return SameOnAllRanks(absl::FailedPreconditionError(
                              Cat(name,
                                  ": the communicator is closed or was moved "
                                  "from")))
        .error();
  }
  return Operation{
      name, {comm, Deadline(comm, deadline_seconds, name, /*watchdog=*/false)}};
}

Status Operation::Name(const Status& status) const {
  return NameStatus(name, status);
}

Agreed<> Operation::Agree(const Status& mine) {
  return belay::Agree(context, Name(mine));
}

Agreed<> Operation::AgreeOnCall(std::string_view what, const Status& mine,
                                uint64_t fingerprint) {
  BELAY_RETURN_IF_AGREED(Agree(mine));
  return AgreeSame(context, Cat(name, ": ", what), fingerprint);
}

Status NameStatus(std::string_view name, const Status& status) {
  if (status.ok()) return status;
  return Status(status.code(), Cat(name, ": ", std::string(status.message())));
}

Status CheckElements(DType dtype, const Shape& shape) {
  if (!IsKnownDType(static_cast<uint8_t>(dtype))) {
    return absl::InvalidArgumentError(
        absl::StrFormat("need a numeric dtype, found unknown dtype number %d",
                        static_cast<int>(dtype)));
  }
  if (dtype == DType::kString) {
    return absl::InvalidArgumentError(
        absl::StrFormat("need a numeric dtype, found %s", DTypeName(dtype)));
  }
  if (shape.empty()) {
    return absl::InvalidArgumentError("need at least 1 axis, found shape []");
  }
  if (shape.size() > kMaxAxes) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "too many axes (need at most %d, found %d)", kMaxAxes, shape.size()));
  }
  BELAY_ASSIGN_OR_RETURN(int64_t elements, CheckedNumElements(shape));
  if (shape[0] == 0) {  // the size of a row must be valid even without rows
    BELAY_ASSIGN_OR_RETURN(
        elements, CheckedNumElements(Shape(shape.begin() + 1, shape.end())));
  }
  if (elements <= INT64_MAX / DTypeSize(dtype)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("more than 2^63 - 1 bytes (%d elements of %d bytes)",
                      elements, DTypeSize(dtype)));
}

Status CheckVariable(const Comm& comm, const ShardedVariable& variable) {
  if (variable.components().empty()) {
    return absl::FailedPreconditionError(
        "the variable was not made, or was moved from");
  }
  const int64_t row_bytes = variable.RowBytes();
  for (const Component& component : variable) {
    if (component.owner >= comm.size()) {
      return absl::FailedPreconditionError(absl::StrFormat(
          "the variable was made on more ranks (need rank %d, found %d ranks)",
          component.owner, comm.size()));
    }
    const bool holds = component.data != nullptr;
    const bool owns =
        component.owner == comm.rank() && component.num_rows * row_bytes > 0;
    if (holds == owns) continue;
    return absl::FailedPreconditionError(absl::StrFormat(
        "the variable was made where ranks have other numbers (rank %d %s "
        "row %d of rank %d)",
        comm.rank(), holds ? "holds" : "does not hold", component.first_row,
        component.owner));
  }
  return absl::OkStatus();
}

Status CheckValue(const Tensor& value, DType dtype, const Shape& shape) {
  if (value.dtype() != dtype) {
    return absl::InvalidArgumentError(Cat("another dtype (need ",
                                          DTypeName(dtype), ", found ",
                                          DTypeName(value.dtype()), ")"));
  }
  if (value.shape() != shape) {
    return absl::InvalidArgumentError(Cat("another shape (need ",
                                          ShapeText(shape), ", found ",
                                          ShapeText(value.shape()), ")"));
  }
  return absl::OkStatus();
}

uint64_t VariableFingerprint(const ShardedVariable& variable) {
  WireWriter out;
  out(variable.name(), variable.dtype(), variable.shape());
  for (const Component& component : variable) {
    out(component.first_row, component.num_rows, component.owner);
  }
  return Fingerprint(out.bytes());
}

uint64_t SelectionFingerprint(const Selection& selection) {
  WireWriter out;
  out(selection.source_shape, selection.result_shape);
  for (const AxisRange& axis : selection.axes) {
    out(axis.start, axis.step, axis.count);
  }
  out(selection.num_masked_axes);
  const std::vector<int64_t>& positions = selection.positions;
  return CombineFingerprints(
      {Fingerprint(out.bytes()),
       Fingerprint({reinterpret_cast<const char*>(positions.data()),
                    positions.size() * sizeof(int64_t)})});
}

uint64_t TensorFingerprint(const Tensor& tensor) {
  return CombineFingerprints(
      {Fingerprint(Encode(std::pair(tensor.dtype(), tensor.shape()))),
       Fingerprint({reinterpret_cast<const char*>(tensor.data()),
                    static_cast<size_t>(tensor.num_bytes())})});
}

uint64_t CombineFingerprints(std::initializer_list<uint64_t> fingerprints) {
  return Fingerprint({reinterpret_cast<const char*>(fingerprints.begin()),
                      fingerprints.size() * sizeof(uint64_t)});
}

}  // namespace belay
