#include "variable/rows.h"

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "base/text.h"

namespace belay {
namespace {

// Ranges per component.
constexpr int64_t kRanges = 8;

}  // namespace

Shape RowShape(const ShardedVariable& variable) {
  return Shape(variable.shape().begin() + 1, variable.shape().end());
}

StatusOr<std::vector<int64_t>> IntegersOf(const Tensor& tensor,
                                          std::string_view what) {
  if (tensor.dtype() == DType::kI32) {
    const auto values = tensor.values<int32_t>();
    return std::vector<int64_t>(values.begin(), values.end());
  }
  if (tensor.dtype() == DType::kI64) {
    const auto values = tensor.values<int64_t>();
    return std::vector<int64_t>(values.begin(), values.end());
  }
  return absl::InvalidArgumentError(Cat(what, " of another dtype (need i32 or ",
                                        "i64, found ",
                                        DTypeName(tensor.dtype()), ")"));
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

StatusOr<std::vector<int64_t>> RowsOf(const ShardedVariable& variable,
                                      const Tensor& indices) {
  if (indices.shape().size() != 1) {
    return absl::InvalidArgumentError(Cat("indices must be 1D (need 1 axis, ",
                                          "found shape ",
                                          ShapeText(indices.shape()), ")"));
  }
  BELAY_ASSIGN_OR_RETURN(std::vector<int64_t> rows,
                         IntegersOf(indices, "indices"));
  BELAY_RETURN_IF_ERROR(CheckRows(variable, rows));
  return rows;
}

RowFinder::RowFinder(const ShardedVariable& variable)
    : components_(variable.components().data()),
      row_bytes_(variable.RowBytes()) {
  const int64_t num_rows = variable.shape()[0];
  const int64_t most = kRanges * variable.components().size();
  while ((num_rows >> shift_) > most) ++shift_;
  // Of numbers of ranges: the row after the last one may be beyond 64 bits.
  const int64_t ranges = num_rows == 0 ? 0 : ((num_rows - 1) >> shift_) + 1;
  for (int64_t range = 0; range < ranges; ++range) {
    first_.push_back(variable.FindComponent(range << shift_));
  }
  first_.push_back(static_cast<int32_t>(variable.components().size()) - 1);
}

}  // namespace belay
