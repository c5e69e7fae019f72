#include "hdf5/property.h"

#include <sys/stat.h>

#include <string>

#include "base/status_macros.h"
#include "hdf5/error.h"
#include "hdf5_format/write/group_links.h"

namespace belay::h5 {
namespace {

constexpr unsigned kMinIndexedLinks = 6;

Status NoTimes(const Handle& properties) {
  return Check(H5Pset_obj_track_times(properties.get(), false),
               "set time tracking", properties.name());
}

// Returning less than 0 refuses a link into another file.
herr_t RefuseLink(const char*, const char*, const char*, const char*, unsigned*,
                  hid_t, void*) {
  return -1;
}

// HDF5 looks for the file of a link beside the one that has it, too.
herr_t RefusePipes(const char* from, const char*, const char* to, const char*,
                   unsigned*, hid_t, void*) {
  const std::string parent(from);
  const std::string beside = parent.substr(0, parent.rfind('/') + 1) + to;
  for (const std::string& path : {beside, std::string(to)}) {
    struct stat stat;
    if (::stat(path.c_str(), &stat) == 0 && !S_ISREG(stat.st_mode)) return -1;
  }
  return 0;
}

}  // namespace

Dims ToDims(const Shape& shape) { return Dims(shape.begin(), shape.end()); }

StatusOr<Handle> NewProperties(hid_t property_class, std::string_view object) {
  return Own(H5Pcreate(property_class), "create property list", object);
}

StatusOr<Handle> GroupProperties(hid_t property_class,
                                 std::string_view object) {
  BELAY_ASSIGN_OR_RETURN(Handle properties,
                         NewProperties(property_class, object));
  BELAY_RETURN_IF_ERROR(NoTimes(properties));
  BELAY_RETURN_IF_ERROR(
      Check(H5Pset_link_phase_change(properties.get(), kMaxCompactLinks,
                                     kMinIndexedLinks),
            "set link storage", object));
  return properties;
}

StatusOr<Handle> LinkAccess(hid_t property_class, OtherFiles others,
                            std::string_view object) {
  BELAY_ASSIGN_OR_RETURN(Handle access, NewProperties(property_class, object));
  BELAY_RETURN_IF_ERROR(Check(
      H5Pset_elink_cb(access.get(),
                      others == OtherFiles::kRefused ? RefuseLink : RefusePipes,
                      nullptr),
      "set link access of", object));
  return access;
}

StatusOr<Handle> LinkProperties(std::string_view object) {
  BELAY_ASSIGN_OR_RETURN(Handle properties,
                         NewProperties(H5P_LINK_CREATE, object));
  BELAY_RETURN_IF_ERROR(
      Check(H5Pset_char_encoding(properties.get(), H5T_CSET_UTF8),
            "set link encoding", object));
  return properties;
}

StatusOr<Handle> DatasetProperties(const Shape& chunk,
                                   const std::vector<Filter>& filters,
                                   std::string_view object) {
  BELAY_ASSIGN_OR_RETURN(Handle properties,
                         NewProperties(H5P_DATASET_CREATE, object));
  const hid_t id = properties.get();
  BELAY_RETURN_IF_ERROR(NoTimes(properties));
  if (!chunk.empty()) {
    const int ndim = static_cast<int>(chunk.size());
    BELAY_RETURN_IF_ERROR(Check(H5Pset_chunk(id, ndim, ToDims(chunk).data()),
                                "set chunk shape", object));
  }
  for (const Filter& filter : filters) {
    // A chunk that would grow is stored without it.
    BELAY_RETURN_IF_ERROR(
        Check(H5Pset_filter(id, filter.id, H5Z_FLAG_OPTIONAL,
                            filter.parameters.size(), filter.parameters.data()),
              "set filter", object));
  }
  // How much room a filtered chunk takes shows when it is written. Chunks that
  // are filled would be written as zeros at creation.
  const H5D_alloc_time_t when =
      filters.empty() ? H5D_ALLOC_TIME_EARLY : H5D_ALLOC_TIME_INCR;
  BELAY_RETURN_IF_ERROR(
      Check(H5Pset_alloc_time(id, when), "set allocation time", object));
  BELAY_RETURN_IF_ERROR(Check(H5Pset_fill_time(id, H5D_FILL_TIME_NEVER),
                              "set fill time", object));
  return properties;
}

StatusOr<Handle> NewSpace(const Shape& shape, std::string_view object) {
  constexpr std::string_view kSite = "create dataspace";
  if (shape.empty()) return Own(H5Screate(H5S_SCALAR), kSite, object);
  const int ndim = static_cast<int>(shape.size());
  return Own(H5Screate_simple(ndim, ToDims(shape).data(), nullptr), kSite,
             object);
}

StatusOr<Handle> ArraySpace(const Shape& shape, const ElementType& type,
                            std::string_view object) {
  const bool empty_text =
      type.dtype == DType::kString && type.string_bytes == 0;
  if (!empty_text) return NewSpace(DatasetAxes(type, shape), object);
  return Own(H5Screate(H5S_NULL), "create dataspace", object);
}

Status SelectBox(const Handle& space, const Box& box) {
  const hid_t id = space.get();
  if (IsEmpty(box)) {
    return Check(H5Sselect_none(id), "select nothing of", space.name());
  }
  if (box.shape.empty()) {
    return Check(H5Sselect_all(id), "select all of", space.name());
  }
  return Check(
      H5Sselect_hyperslab(id, H5S_SELECT_SET, ToDims(box.offset).data(),
                          nullptr, ToDims(box.shape).data(), nullptr),
      "select box of", space.name());
}

}  // namespace belay::h5
