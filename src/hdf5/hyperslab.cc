// The bytes of datasets: the part of dataset.h that moves data.

#include "base/status_macros.h"
#include "base/text.h"
#include "hdf5/dataset.h"
#include "hdf5/error.h"
#include "hdf5/property.h"
#include "hdf5/types.h"

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
StatusOr<Transfer> Prepare(const Handle& dataset, const Box& array_box,
                           const ElementType& type) {
  const std::string& name = dataset.name();
  Transfer transfer;
  BELAY_ASSIGN_OR_RETURN(const Box box, DatasetBox(type, array_box));
  BELAY_ASSIGN_OR_RETURN(transfer.type, FileType(type));
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
                                   const ElementType& type) {
  BELAY_ASSIGN_OR_RETURN(Transfer transfer, Prepare(dataset, box, type));
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

bool IsEmptyText(const ElementType& type) {
  return type.dtype == DType::kString && type.string_bytes == 0;
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

Status WriteHyperslab(const Handle& dataset, const Box& box,
                      const ElementType& type, const void* data) {
  if (IsEmpty(box) || IsEmptyText(type)) return absl::OkStatus();
  BELAY_ASSIGN_OR_RETURN(const Transfer transfer, Prepare(dataset, box, type));
  return Write(dataset, transfer, data);
}

Status WriteHyperslabTogether(const Handle& dataset, const Box& box,
                              const ElementType& type, const void* data) {
  if (IsEmptyText(type)) return absl::OkStatus();
  StatusOr<Transfer> transfer = PrepareTogether(dataset, box, type);
  Status first = transfer.status();
  if (!transfer.ok()) {
    const Shape none(type.fields.empty() ? 1 : 2);
    transfer = PrepareTogether(dataset, {none, none}, type);
  }
  if (transfer.ok()) first.Update(Write(dataset, *transfer, data));
  return first;
}

Status ReadHyperslab(const Handle& file, std::string_view path,
                     const ElementType& type, const Box& box, void* data,
                     OtherFiles others) {
  BELAY_ASSIGN_OR_RETURN(const Handle dataset, OpenToRead(file, path, others));
  BELAY_RETURN_IF_ERROR(CheckStoredType(dataset, type));
  BELAY_ASSIGN_OR_RETURN(const Box stored, DatasetBox(type, box));
  BELAY_RETURN_IF_ERROR(CheckStoredBox(dataset, stored));
  if (IsEmpty(box) || IsEmptyText(type)) return absl::OkStatus();
  BELAY_ASSIGN_OR_RETURN(const Transfer transfer, Prepare(dataset, box, type));
  return Check(
      H5Dread(dataset.get(), transfer.type.get(), transfer.memory.get(),
              transfer.selection.get(), transfer.properties.get(), data),
      "read dataset", dataset.name());
}

}  // namespace belay::h5
