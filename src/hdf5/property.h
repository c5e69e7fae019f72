// Property lists and dataspaces: the small parts that every object needs.

#ifndef BELAY_HDF5_PROPERTY_H_
#define BELAY_HDF5_PROPERTY_H_

#include <hdf5.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "belay/arrays/box.h"
#include "belay/arrays/dtype.h"
#include "belay/status.h"
#include "belay/values/save_args.h"
#include "hdf5/handle.h"
#include "hdf5/types.h"

namespace belay::h5 {

// What becomes of links into other files on the way to an object.
enum class OtherFiles : uint8_t {
  kRefused,   // also values that lie in other files
  kFollowed,  // into regular files
};

using Dims = absl::InlinedVector<hsize_t, 4>;

// Returns the lengths as HDF5 wants them. Local. None may be negative.
Dims ToDims(const Shape& shape);

// Returns an empty property list of a class such as H5P_FILE_ACCESS. Local.
// `object` is what messages name, here and below.
StatusOr<Handle> NewProperties(hid_t property_class, std::string_view object);

// Returns how links are followed, for H5P_DATASET_ACCESS or H5P_LINK_ACCESS.
// Local.
StatusOr<Handle> LinkAccess(hid_t property_class, OtherFiles others,
                            std::string_view object);

// Returns how groups are made, for H5P_GROUP_CREATE, or the root group, for
// H5P_FILE_CREATE: no times, an index as soon as there are more than 8 links.
// Local.
StatusOr<Handle> GroupProperties(hid_t property_class, std::string_view object);

// Returns how links are made: with UTF-8 names. Local.
StatusOr<Handle> LinkProperties(std::string_view object);

// Returns how datasets are made: no times, never filled; contiguous, or in
// chunks if `chunk` is not empty. Allocated at once, but chunks that pass
// filters when they are written. Local.
StatusOr<Handle> DatasetProperties(const Shape& chunk,
                                   const std::vector<Filter>& filters,
                                   std::string_view object);

// Makes `cached` by `make` unless it is open already, and returns its
// identifier. Local.
template <typename Make>
StatusOr<hid_t> MakeOnce(Handle& cached, Make make) {
  if (cached.is_open()) return cached.get();
  StatusOr<Handle> made = make();
  if (!made.ok()) return made.status();
  cached = *std::move(made);
  return cached.get();
}

// Returns the dataspace of an array; scalar for no axes. Local.
StatusOr<Handle> NewSpace(const Shape& shape, std::string_view object);

// Returns the dataspace of the dataset of an array: an empty string has no
// place in HDF5 and gets the null dataspace. Local.
StatusOr<Handle> ArraySpace(const Shape& shape, const ElementType& type,
                            std::string_view object);

// Selects the box in a dataspace with as many axes, or nothing if it is empty.
// Local.
Status SelectBox(const Handle& space, const Box& box);

}  // namespace belay::h5

#endif  // BELAY_HDF5_PROPERTY_H_
