// The bytes of datasets: the part of dataset.h that moves data.

#include "base/status_macros.h"
#include "base/text.h"
#include "h5/dataset.h"
#include "h5/error.h"
#include "h5/property.h"
#include "h5/types.h"

namespace belay::h5 {
namespace {

// Everything that one H5Dwrite or H5Dread takes besides the bytes.
struct Transfer {
  Handle type;
  Handle memory;
  Handle selection;
  Handle properties;
};

// `type` is the stored type as well: anything else converts, and turns a
// collective write silently into an independent one.
StatusOr<Transfer> Prepare(const Handle& dataset, const Box& box, DType dtype,
                           int64_t string_bytes) {
  const std::string& name = dataset.name();
  Transfer transfer;
  BELAY_ASSIGN_OR_RETURN(transfer.type, FileType(dtype, string_bytes));
  BELAY_ASSIGN_OR_RETURN(transfer.memory, NewSpace(box.shape, name));
  if (IsEmpty(box)) BELAY_RETURN_IF_ERROR(SelectBox(transfer.memory, box));
  BELAY_ASSIGN_OR_RETURN(transfer.selection, Own(H5Dget_space(dataset.get()),
                                                 "get dataspace of", name));
  BELAY_RETURN_IF_ERROR(SelectBox(transfer.selection, box));
  BELAY_ASSIGN_OR_RETURN(transfer.properties,
                         NewProperties(H5P_DATASET_XFER, name));
  return transfer;
}

StatusOr<Transfer> PrepareTogether(const Handle& dataset, const Box& box,
                                   DType dtype, int64_t string_bytes) {
  BELAY_ASSIGN_OR_RETURN(Transfer transfer,
                         Prepare(dataset, box, dtype, string_bytes));
  BELAY_RETURN_IF_ERROR(
      Check(H5Pset_dxpl_mpio(transfer.properties.get(), H5FD_MPIO_COLLECTIVE),
            "set collective transfer", dataset.name()));
  return transfer;
}

Status Write(const Handle& dataset, const Transfer& transfer,
             const void* data) {
  return Check(
      H5Dwrite(dataset.get(), transfer.type.get(), transfer.memory.get(),
               transfer.selection.get(), transfer.properties.get(), data),
      "write dataset", dataset.name());
}

bool IsEmptyText(DType dtype, int64_t string_bytes) {
  return dtype == DType::kString && string_bytes == 0;
}

Status CheckStoredBox(const Handle& dataset, const Box& box) {
  BELAY_ASSIGN_OR_RETURN(const Shape shape, DatasetShape(dataset));
  if (shape.size() != box.shape.size()) {
    return absl::DataLossError(
        Cat("read \"", dataset.name(), "\": another number of axes (need ",
            box.shape.size(), ", found ", shape.size(), ")"));
  }
  return CheckBox(box, shape);
}

}  // namespace

Status WriteHyperslab(const Handle& dataset, const Box& box, DType dtype,
                      int64_t string_bytes, const void* data) {
  if (IsEmpty(box) || IsEmptyText(dtype, string_bytes)) return absl::OkStatus();
  BELAY_ASSIGN_OR_RETURN(const Transfer transfer,
                         Prepare(dataset, box, dtype, string_bytes));
  return Write(dataset, transfer, data);
}

Status WriteHyperslabTogether(const Handle& dataset, const Box& box,
                              DType dtype, int64_t string_bytes,
                              const void* data) {
  if (IsEmptyText(dtype, string_bytes)) return absl::OkStatus();
  StatusOr<Transfer> transfer =
      PrepareTogether(dataset, box, dtype, string_bytes);
  Status first = transfer.status();
  if (!transfer.ok()) {
    const Box nothing = {.offset = {0}, .shape = {0}};
    transfer = PrepareTogether(dataset, nothing, dtype, string_bytes);
  }
  if (transfer.ok()) first.Update(Write(dataset, *transfer, data));
  return first;
}

Status ReadHyperslab(const Handle& file, std::string_view path, DType dtype,
                     int64_t string_bytes, const Box& box, void* data,
                     OtherFiles others) {
  BELAY_ASSIGN_OR_RETURN(const Handle dataset, OpenToRead(file, path, others));
  BELAY_RETURN_IF_ERROR(CheckStoredType(dataset, dtype, string_bytes));
  BELAY_RETURN_IF_ERROR(CheckStoredBox(dataset, box));
  if (IsEmpty(box) || IsEmptyText(dtype, string_bytes)) return absl::OkStatus();
  BELAY_ASSIGN_OR_RETURN(const Transfer transfer,
                         Prepare(dataset, box, dtype, string_bytes));
  return Check(
      H5Dread(dataset.get(), transfer.type.get(), transfer.memory.get(),
              transfer.selection.get(), transfer.properties.get(), data),
      "read dataset", dataset.name());
}

}  // namespace belay::h5
