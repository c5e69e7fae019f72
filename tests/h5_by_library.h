// What belay encodes itself, made by libhdf5: for tests that compare both, and
// for files that belay would not make.

#ifndef BELAY_TESTS_H5_BY_LIBRARY_H_
#define BELAY_TESTS_H5_BY_LIBRARY_H_

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "core/status_macros.h"
#include "h5_testing.h"
#include "hdf5/file.h"
#include "hdf5/handle.h"

namespace belay::h5 {

inline StatusOr<Handle> VirtualProperties(const std::string& path) {
  BELAY_ASSIGN_OR_RETURN(Handle properties,
                         NewProperties(H5P_DATASET_CREATE, path));
  BELAY_RETURN_IF_ERROR(Check(H5Pset_obj_track_times(properties.get(), false),
                              "set time tracking", path));
  return properties;
}

// HDF5 reads the name of a source as a format.
inline std::string AsFormat(const std::string& name) {
  return absl::StrReplaceAll(name, {{"%", "%%"}});
}

inline Status MapPiece(const Handle& properties, const Handle& space,
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

inline StatusOr<Handle> MapPieces(const std::string& path, const Handle& space,
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

inline Status CreateExternalLink(const Handle& file, ObjectCache& cache,
                                 const std::string& path,
                                 const std::string& target_file,
                                 const std::string& target_path) {
  BELAY_ASSIGN_OR_RETURN(const Location location,
                         FindLocation(file, cache, path));
  BELAY_ASSIGN_OR_RETURN(const hid_t links, MakeOnce(cache.links, [&] {
                           return LinkProperties(path);
                         }));
  return Check(
      H5Lcreate_external(target_file.c_str(), target_path.c_str(),
                         location.group, location.name, links, H5P_DEFAULT),
      "create link", path);
}

inline Status CreateVirtualDataset(const Handle& file, ObjectCache& cache,
                                   const DatasetSpec& spec) {
  const std::string& path = spec.path;
  const ElementType type = GetElementType(spec);
  BELAY_ASSIGN_OR_RETURN(const Location location,
                         FindLocation(file, cache, path));
  BELAY_ASSIGN_OR_RETURN(const Handle stored, FileType(type));
  BELAY_ASSIGN_OR_RETURN(const Handle space,
                         ArraySpace(spec.shape, type, path));
  BELAY_ASSIGN_OR_RETURN(const hid_t links, MakeOnce(cache.links, [&] {
                           return LinkProperties(path);
                         }));
  BELAY_ASSIGN_OR_RETURN(const Handle creation,
                         MapPieces(path, space, type, spec.pieces));
  BELAY_ASSIGN_OR_RETURN(
      Handle dataset,
      Own(H5Dcreate2(location.group, location.name, stored.get(), space.get(),
                     links, creation.get(), H5P_DEFAULT),
          "create virtual dataset", path));
  BELAY_RETURN_IF_ERROR(NameDType(dataset, type.dtype));
  return dataset.Close();
}

// Writes a column of numbers.
template <typename T>
Status WriteColumn(const Handle& file, ObjectCache& cache,
                   const std::string& path, const std::vector<T>& values) {
  const Shape rows = {std::ssize(values)};
  BELAY_RETURN_IF_ERROR(
      CreateDataset(file, cache, {path, DTypeOf<T>(), 0, rows, {}}).status());
  BELAY_ASSIGN_OR_RETURN(Handle dataset, OpenDataset(file, path));
  BELAY_RETURN_IF_ERROR(
      WriteHyperslab(dataset, WholeBox(rows), {DTypeOf<T>()}, values.data()));
  return dataset.Close();
}

// Writes a column of texts, each in the length of the longest.
inline Status WriteTextColumn(const Handle& file, ObjectCache& cache,
                              const std::string& path,
                              const std::vector<std::string>& texts) {
  size_t longest = 1;
  for (const std::string& text : texts)
    longest = std::max(longest, text.size());
  const Shape rows = {std::ssize(texts)};
  const auto bytes = static_cast<int64_t>(longest);
  std::string padded(texts.size() * longest, '\0');
  for (size_t i = 0; i < texts.size(); ++i) {
    std::memcpy(padded.data() + i * longest, texts[i].data(), texts[i].size());
  }
  BELAY_RETURN_IF_ERROR(
      CreateDataset(file, cache, {path, DType::kString, bytes, rows, {}})
          .status());
  BELAY_ASSIGN_OR_RETURN(Handle dataset, OpenDataset(file, path));
  BELAY_RETURN_IF_ERROR(WriteHyperslab(dataset, WholeBox(rows),
                                       {DType::kString, bytes}, padded.data()));
  return dataset.Close();
}

}  // namespace belay::h5

#endif  // BELAY_TESTS_H5_BY_LIBRARY_H_
