// What a file shows of other files: the part of dataset.h that links.

#include "absl/strings/str_replace.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "hdf5/dataset.h"
#include "hdf5/error.h"
#include "hdf5/property.h"
#include "hdf5/types.h"

namespace belay::h5 {
namespace {

StatusOr<Handle> VirtualProperties(const std::string& path) {
  BELAY_ASSIGN_OR_RETURN(Handle properties,
                         NewProperties(H5P_DATASET_CREATE, path));
  BELAY_RETURN_IF_ERROR(Check(H5Pset_obj_track_times(properties.get(), false),
                              "set time tracking", path));
  return properties;
}

// HDF5 reads the name of a source as a format.
std::string AsFormat(const std::string& name) {
  return absl::StrReplaceAll(name, {{"%", "%%"}});
}

Status MapPiece(const Handle& properties, const Handle& space,
                const ElementType& type, const VirtualPiece& piece) {
  if (IsEmpty(piece.box)) return absl::OkStatus();
  BELAY_ASSIGN_OR_RETURN(const Box box, DatasetBox(type, piece.box));
  BELAY_RETURN_IF_ERROR(SelectBox(space, box));
  BELAY_ASSIGN_OR_RETURN(const Handle source, NewSpace(box.shape, piece.path));
  return Check(H5Pset_virtual(properties.get(), space.get(),
                              AsFormat(piece.file).c_str(),
                              AsFormat(piece.path).c_str(), source.get()),
               "map piece of", space.name());
}

StatusOr<Handle> MapPieces(const std::string& path, const Handle& space,
                           const ElementType& type,
                           const std::vector<VirtualPiece>& pieces) {
  BELAY_ASSIGN_OR_RETURN(Handle properties, VirtualProperties(path));
  for (const VirtualPiece& piece : pieces) {
    BELAY_RETURN_IF_ERROR(MapPiece(properties, space, type, piece));
  }
  BELAY_RETURN_IF_ERROR(
      Check(H5Sselect_all(space.get()), "select all of", path));
  return properties;
}

}  // namespace

Status CreateExternalLink(const Handle& file, ObjectCache& cache,
                          const std::string& path,
                          const std::string& target_file,
                          const std::string& target_path) {
  BELAY_ASSIGN_OR_RETURN(const Location location,
                         LocationOf(file, cache, path));
  BELAY_ASSIGN_OR_RETURN(const hid_t links, MakeOnce(cache.links, [&] {
                           return LinkProperties(path);
                         }));
  return Check(
      H5Lcreate_external(target_file.c_str(), target_path.c_str(),
                         location.group, location.name, links, H5P_DEFAULT),
      "create link", path);
}

Status CreateVirtualDataset(const Handle& file, ObjectCache& cache,
                            const std::string& path, const ElementType& type,
                            const Shape& shape,
                            const std::vector<VirtualPiece>& pieces) {
  if (shape.empty()) {
    return absl::InvalidArgumentError(
        Cat("create virtual dataset \"", path, "\": a scalar has no pieces"));
  }
  if (NumElements(shape) == 0) {
    const DatasetSpec spec{.path = path,
                           .dtype = type.dtype,
                           .string_bytes = type.string_bytes,
                           .shape = shape,
                           .chunk = {},
                           .fields = type.fields};
    return CreateDataset(file, cache, spec).status();
  }
  BELAY_ASSIGN_OR_RETURN(const Location location,
                         LocationOf(file, cache, path));
  BELAY_ASSIGN_OR_RETURN(const Handle stored, FileType(type));
  BELAY_ASSIGN_OR_RETURN(const Handle space, ArraySpace(shape, type, path));
  BELAY_ASSIGN_OR_RETURN(const hid_t links, MakeOnce(cache.links, [&] {
                           return LinkProperties(path);
                         }));
  BELAY_ASSIGN_OR_RETURN(const Handle creation,
                         MapPieces(path, space, type, pieces));
  BELAY_ASSIGN_OR_RETURN(
      Handle dataset,
      Own(H5Dcreate2(location.group, location.name, stored.get(), space.get(),
                     links, creation.get(), H5P_DEFAULT),
          "create virtual dataset", path));
  BELAY_RETURN_IF_ERROR(NameDType(dataset, type.dtype));
  return dataset.Close();
}

}  // namespace belay::h5
