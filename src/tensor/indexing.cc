#include "belay/arrays/indexing.h"

#include "base/status_macros.h"
#include "base/text.h"
#include "tensor/selection.h"

namespace belay {

StatusOr<Tensor> GetItem(const Tensor& x, const Index& index) {
  BELAY_ASSIGN_OR_RETURN(const Selection selection, Select(x.shape(), index));
  Tensor result(x.dtype(), selection.result_shape);
  CopySelected(selection, DTypeSize(x.dtype()), 0, {0, NumRows(selection)},
               x.data(), result.data());
  return result;
}

Status SetItem(Tensor& x, const Index& index, const Tensor& value) {
  if (x.dtype() != value.dtype()) {
    return absl::InvalidArgumentError(
        Cat("assign to \"", IndexText(index), "\": another dtype (need ",
            DTypeName(x.dtype()), ", found ", DTypeName(value.dtype()), ")"));
  }
  BELAY_ASSIGN_OR_RETURN(const Selection selection, Select(x.shape(), index));
  const RowPart all{0, NumRows(selection)};
  BELAY_ASSIGN_OR_RETURN(const Tensor rows,
                         BroadcastToRows(selection, value, all));
  ScatterSelected(selection, DTypeSize(x.dtype()), 0, all, rows.data(),
                  x.data());
  return absl::OkStatus();
}

}  // namespace belay
